"""`gemini`: KubeShare 2.0's library, which asks the pod manager on the node for time and memory.

Names and paths are KubeShare 2.0's (pkg/scheduler and deploy/ of github.com/NTHU-LSALab/KubeShare,
release-2.0); its daemons must run on the node. A container escapes the library by starting a
program without LD_PRELOAD.
"""

from kubeshare_py.dialects.results import MANAGER_PORT
from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.isolation.backend import Backend, HostVolume, Mount, Variable

LIBRARY = "/kubeshare/library"
_VOLUME = "kubeshare-lib"

GEMINI = Backend(
    name=IsolationBackend.GEMINI,
    variables=(
        Variable.of_annotation("POD_MANAGER_PORT", MANAGER_PORT),
        # The pod manager identifies the pod by this; both parts are the pod's own fields.
        Variable("KUBESHARE_NAMESPACE", field_path="metadata.namespace"),
        Variable("KUBESHARE_NAME", field_path="metadata.name"),
        Variable("POD_NAME", "$(KUBESHARE_NAMESPACE)/$(KUBESHARE_NAME)"),
    ),
    volumes=(HostVolume(name=_VOLUME, path=LIBRARY),),
    mounts=(Mount(volume=_VOLUME, path=LIBRARY, read_only=True),),
    preload=f"{LIBRARY}/libgemhook.so.1",
)
