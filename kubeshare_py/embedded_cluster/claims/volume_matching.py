"""Which PersistentVolume a claim gets, as kube-controller-manager chooses it.

https://kubernetes.io/docs/concepts/storage/persistent-volumes/#binding
"""

from collections.abc import Iterable

from kubeshare_py.embedded_cluster.claims.storage_names import class_of, is_reserved_for
from kubeshare_py.embedded_cluster.controllers.unstructured import Json, UnstructuredObject
from kubeshare_py.embedded_cluster.protocol import quantities
from kubeshare_py.embedded_cluster.protocol.label_selectors import selects


def best_volume(
    claim: UnstructuredObject, volumes: Iterable[UnstructuredObject], *, delayed: bool
) -> UnstructuredObject | None:
    """The volume that is reserved for the claim, else the smallest available one that fits.

    A `delayed` claim gets no available one: the scheduler chooses it.
    """
    fitting = [volume for volume in volumes if _may_hold(volume, claim)]
    for volume in fitting:
        if volume.spec.get("claimRef"):
            return volume
    found = [] if delayed else [one for one in fitting if _is_offered(one, claim)]
    return min(
        found, key=lambda one: (_size(one.spec, "capacity"), one.metadata.name), default=None
    )


def _may_hold(volume: UnstructuredObject, claim: UnstructuredObject) -> bool:
    """Large enough, of the claim's mode, and not another claim's."""
    spec, wanted = volume.spec, claim.spec
    if spec.get("claimRef") and not is_reserved_for(volume, claim):
        return False
    asked = _size(wanted.get("resources") or {}, "requests")
    same_mode = spec.get("volumeMode") == wanted.get("volumeMode")
    is_there = volume.metadata.deletionTimestamp is None
    return is_there and same_mode and _size(spec, "capacity") >= asked


def _is_offered(volume: UnstructuredObject, claim: UnstructuredObject) -> bool:
    """Available, of the claim's class, with its labels and all its access modes."""
    selector = claim.spec.get("selector")
    modes = volume.spec.get("accessModes") or []
    return (
        volume.status.get("phase") == "Available"
        and class_of(volume) == class_of(claim)
        and (selector is None or selects(selector)(volume.metadata.labels))
        and all(mode in modes for mode in claim.spec.get("accessModes") or [])
    )


def _size(part: Json, name: str) -> int:
    """Bytes of storage, rounded up."""
    amount = quantities.value((part.get(name) or {}).get("storage", "0"))
    return -(-amount.numerator // amount.denominator)
