"""Where SharePods are in the API, and the annotations of theirs that this controller writes."""

from kubeshare_py.domain.identity import PodKey
from kubeshare_py.manifests.api_paths import CORE, collection_path, object_path

GROUP, VERSION, KIND, PLURAL = "kubeshare.nthu", "v1", "SharePod", "sharepods"
API_VERSION = f"{GROUP}/{VERSION}"
_API = f"/apis/{API_VERSION}"
SHARE_PODS = collection_path(_API, PLURAL)
PODS = "/api/v1/pods"

#: On a pod: the hashes of the fields of the template that it was made from, as JSON.
MADE_FROM = "kubeshare.io/sharepod"
#: On a SharePod: the virtual GPU that the scheduler named, also in `kubeshare/GPUID`. Without it,
#: or with another one, the user chose the name.
ASSIGNED_CARD_NAME = "kubeshare.io/assigned-gpuid"


def share_pod_path(key: PodKey) -> str:
    """The path of a SharePod."""
    return object_path(_API, PLURAL, key.name, key.namespace)


def pods_path(namespace: str) -> str:
    """The path at which the pods of a namespace are created."""
    return collection_path(CORE, "pods", namespace)
