"""The table of what is injected into the containers of a pod of this scheduler.

Every container, init containers and sidecars included, gets the pod's cards, because labels on the
pod ask for all of its containers. Containers of pods that ask for none get `void`, because CUDA
images set NVIDIA_VISIBLE_DEVICES to `all` themselves and a pod's value overrides the image's:
https://github.com/NVIDIA/nvidia-container-toolkit
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from kubeshare_py.dialects.card_visibility import CardVisibility
from kubeshare_py.dialects.results import GPU_UUID
from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.isolation.backend import HostVolume, Mount, Variable
from kubeshare_py.isolation.backends import BACKENDS

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
PRELOAD = "LD_PRELOAD"
VOID = Variable(VISIBLE_DEVICES, "void")
CARDS = Variable.of_annotation(VISIBLE_DEVICES, GPU_UUID)
#: The parts of the driver in the container. KubeShare 2.0 sets this in every container with a card
#: (pkg/scheduler/pod.go of github.com/NTHU-LSALab/KubeShare, release-2.0) and overrides the pod's
#: entry; here the pod's own entry, for graphics or video, is kept.
CAPABILITIES = Variable("NVIDIA_DRIVER_CAPABILITIES", "compute,utility", is_default=True)
#: Variables by which NVIDIA's runtime gives a container with a card more devices of its node, which
#: the scheduler does not count, with the values that prevent it. The switches between all cards,
#: InfiniBand adapters and GPUDirect storage come by `enabled` and no other value; the right to
#: divide or monitor cards by any value but an empty one. Images may set them, and a pod's value
#: overrides the image's: internal/modifier/cdi.go (gatedDevices) and
#: cmd/nvidia-container-runtime-hook/container_config.go of
#: https://github.com/NVIDIA/nvidia-container-toolkit (d34b304)
DEVICE_VARIABLES = (
    Variable("NVIDIA_NVSWITCH", "disabled", is_default=True),
    Variable("NVIDIA_MOFED", "disabled", is_default=True),
    Variable("NVIDIA_GDS", "disabled", is_default=True),
    Variable("NVIDIA_MIG_CONFIG_DEVICES", "", is_default=True),
    Variable("NVIDIA_MIG_MONITOR_DEVICES", "", is_default=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """What every container of one pod gets, and the volumes that the pod gets for it."""

    variables: tuple[Variable, ...]
    preload: str = ""
    mounts: tuple[Mount, ...] = ()
    volumes: tuple[HostVolume, ...] = ()

    def without(self, names: Collection[str]) -> "Injection":
        """The injection without variables of these names, which are left to pods and images."""
        if all(one.name not in names for one in self.variables):
            return self
        kept = tuple(one for one in self.variables if one.name not in names)
        return replace(self, variables=kept)


NO_CARD = Injection(variables=(VOID,))
WHOLE_CARD = Injection(variables=(CARDS, CAPABILITIES, *DEVICE_VARIABLES))


def with_share(backend: IsolationBackend) -> Injection:
    """The injection for containers with a share under this back-end."""
    found = BACKENDS[backend]
    return Injection(
        variables=(*WHOLE_CARD.variables, *found.variables),
        preload=found.preload,
        mounts=found.mounts,
        volumes=found.volumes,
    )


def injection(reach: CardVisibility, backend: IsolationBackend) -> Injection:
    """The injection for the containers of a pod."""
    if reach is CardVisibility.SHARE:
        return with_share(backend)
    return WHOLE_CARD if reach is CardVisibility.WHOLE else NO_CARD
