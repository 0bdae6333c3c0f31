"""Which pods their nodes may start: those whose volumes are bound, and whose devices are theirs."""

from collections.abc import Iterable

from kubeshare_py.embedded_cluster.controllers.object_kinds import CLAIMS, DEVICE_CLAIMS, ObjectKind
from kubeshare_py.embedded_cluster.controllers.unstructured import Json, UnstructuredObject

#: The kinds that are followed for this.
CLAIM_KINDS = (CLAIMS, DEVICE_CLAIMS)
_Place = tuple[str, str]


class ClaimReadiness:
    """Claims of both kinds as the nodes have seen them."""

    def __init__(self) -> None:
        self._known: dict[ObjectKind, dict[str, UnstructuredObject]] = {
            kind: {} for kind in CLAIM_KINDS
        }
        self._places: dict[tuple[ObjectKind, _Place], UnstructuredObject] = {}

    def listed(self, kind: ObjectKind, found: Iterable[UnstructuredObject]) -> None:
        """Take in all claims of a kind."""
        for uid in [*self._known[kind]]:
            self.gone(kind, uid)
        for claim in found:
            self.seen(kind, claim)

    def seen(self, kind: ObjectKind, claim: UnstructuredObject) -> None:
        """Take in a claim as it is now."""
        self._known[kind][claim.uid] = claim
        self._places[kind, (claim.metadata.namespace, claim.metadata.name)] = claim

    def gone(self, kind: ObjectKind, uid: str) -> None:
        """Take in that a claim was deleted."""
        claim = self._known[kind].pop(uid, None)
        if claim is None:
            return
        key = kind, (claim.metadata.namespace, claim.metadata.name)
        if self._places[key].uid == uid:
            del self._places[key]

    def missing(self, pod: UnstructuredObject) -> list[str]:
        """The pod's volumes that are not bound, and its device claims not reserved for it."""
        volumes = pod.spec.get("volumes") or []
        devices = pod.spec.get("resourceClaims") or []
        if not volumes and not devices:
            return []
        return [
            *(one["name"] for one in volumes if not self._is_mountable(pod, one)),
            *(one["name"] for one in devices if not self._is_prepared(pod, one)),
        ]

    def _is_mountable(self, pod: UnstructuredObject, volume: Json) -> bool:
        if "persistentVolumeClaim" in volume:
            claim = self._at(CLAIMS, pod, volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            claim = self._at(CLAIMS, pod, f"{pod.metadata.name}-{volume['name']}")
            owners = (claim.metadata.ownerReferences or []) if claim is not None else []
            if not any(owner.uid == pod.uid for owner in owners):
                return False
        else:
            return True
        return claim is not None and claim.status.get("phase") == "Bound"

    def _is_prepared(self, pod: UnstructuredObject, entry: Json) -> bool:
        made = {
            one["name"]: one.get("resourceClaimName", "")
            for one in pod.status.get("resourceClaimStatuses") or []
        }
        name = entry.get("resourceClaimName") or made.get(entry["name"], "")
        claim = self._at(DEVICE_CLAIMS, pod, name)
        if claim is None or "allocation" not in claim.status:
            return False
        return any(one.get("uid") == pod.uid for one in claim.status.get("reservedFor") or [])

    def _at(
        self, kind: ObjectKind, pod: UnstructuredObject, name: str
    ) -> UnstructuredObject | None:
        return self._places.get((kind, (pod.metadata.namespace, name)))
