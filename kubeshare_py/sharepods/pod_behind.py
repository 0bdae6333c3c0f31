"""The pod behind a SharePod, which has its namespace and name, as the controller needs it."""

from dataclasses import dataclass, field
from typing import NewType

from kubeshare_py.domain.identity import PodKey, PodUid

SharePodUid = NewType("SharePodUid", str)
#: The name of each field of a pod's template with a hash of its value, sorted by name.
FieldHashes = tuple[tuple[str, str], ...]

ENDED = ("Succeeded", "Failed")
_NO_POD, _NO_OWNER = PodUid(""), SharePodUid("")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMirror:
    """What a SharePod shows of its pod.

    `status` and `metadata` are the pod's, as JSON with sorted keys; b"" if there was no pod yet.
    `device` is the card's uuid, `port` that of the pod's manager, 0 for none. `is_cut`: the pod has
    more than can be shown.
    """

    pod_uid: PodUid = _NO_POD
    phase: str = ""
    status: bytes = b""
    metadata: bytes = b""
    device: str = ""
    port: int = 0
    node: str = ""
    # Not in what the SharePod shows, with which this is compared.
    is_cut: bool = field(default=False, compare=False)


NO_MIRROR = PodMirror()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodBehind:
    """A pod by the name of a SharePod; of a pod of others only its identity counts.

    `owner` is the SharePod that controls it, "" if none does. `version` is its resourceVersion.
    `field_hashes` are those of the template that it was made from, empty if it does not say. It
    `is_marked` if it was once made by this controller. `card_name` names its virtual GPU.
    """

    key: PodKey
    uid: PodUid
    version: str = ""
    owner: SharePodUid = _NO_OWNER
    has_controller: bool = False
    is_marked: bool = False
    is_deleting: bool = False
    field_hashes: FieldHashes = ()
    card_name: str = ""
    mirror: PodMirror = NO_MIRROR

    @property
    def is_bound(self) -> bool:
        """Whether it has a node."""
        return bool(self.mirror.node)


def is_older(version: str, known: str) -> bool:
    """Whether a resourceVersion is older than a known one of the same object.

    They are growing numbers (KEP-5504); what is no number is taken as newer.
    """
    return version.isdecimal() and known.isdecimal() and int(version) < int(known)
