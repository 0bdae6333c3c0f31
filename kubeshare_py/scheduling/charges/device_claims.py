"""ResourceClaims in the ledger: allocations that are being written, and cards that claims hold.

- A claim whose allocation is written counts as allocated at once, like in kube-scheduler's assume
  cache, until the API server shows it or refuses the write.
- A device whose attributes name a card of the inventory charges that card in full, whatever
  allocated it. The charge is no pod's: it is a lingering one (`cluster/charge`), and ends when
  the claim is no longer allocated.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kubeshare_py.cluster.ledger import ANYWHERE, Ledger
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.cluster_objects import ObjectKey, WatchedKind
from kubeshare_py.domain.device import DeviceKey, ResourceClaim
from kubeshare_py.domain.events import (
    ObjectEvent,
    ObjectGone,
    ObjectSeen,
    ObjectsListed,
    ObjectWritten,
    WriteOutcome,
)
from kubeshare_py.domain.gpu import WHOLE_MILLI, Gpu
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.storage import ObjectWrite, ReserveDevices

_CLAIM, _SLICE = WatchedKind.RESOURCE_CLAIM, WatchedKind.RESOURCE_SLICE


@dataclass(slots=True)
class _AssumedClaim:
    """A claim as the API server showed it, as it will be, and for which pod.

    `is_sent`: the write has no answer yet, or was done.
    """

    shown: ResourceClaim
    assumed: ResourceClaim
    uid: PodUid
    is_sent: bool = True

    def still_holds(self, item: ResourceClaim) -> bool:
        """Whether the claim is as before the write, or as between its two patches."""
        before, version = self.shown, item.resource_version
        if item.is_assumed or version == before.resource_version:
            return True
        between = replace(before, resource_version=version, is_protected=True)
        return not before.is_protected and item == between


@dataclass(frozen=True, slots=True)
class ClaimedCards:
    """The cards of a node that a claim holds."""

    claim: ObjectKey
    node: NodeName
    cards: tuple[CardCharge, ...]

    @property
    def uid(self) -> PodUid:
        """What the ledger knows the charge by; no pod has such a uid."""
        return PodUid(f"resourceclaim/{self.claim}/{self.node}")


class ClaimedDevices:
    """Follows claims, slices and the inventory; charges and releases cards."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._objects = ledger.columns.objects
        self._assumed: dict[ObjectKey, _AssumedClaim] = {}
        #: By claim, the cards that it holds; they are charged while their node is there.
        self._held: dict[ObjectKey, tuple[ClaimedCards, ...]] = {}
        self._by_uid: dict[PodUid, ClaimedCards] = {}
        self._on: dict[NodeName, dict[PodUid, None]] = {}
        #: Claims with an allocation.
        self._allocated: dict[ObjectKey, None] = {}

    # --- reading -------------------------------------------------------------------------------

    def key_of(self, uid: PodUid) -> PodKey | None:
        """Namespace and name of a claim whose charge has this uid; None if there is none."""
        one = self._by_uid.get(uid)
        return (
            None if one is None else PodKey(one.claim.namespace, f"resourceclaim/{one.claim.name}")
        )

    def charges_of(self, claim: ObjectKey) -> list[PodUid]:
        """What the ledger knows the charges of this claim by."""
        return [one.uid for one in self._held.get(claim, ())]

    def is_assumed(self, uid: PodUid) -> bool:
        """Whether this charge is of a claim that the API server has not shown allocated yet."""
        one = self._by_uid.get(uid)
        return one is not None and one.claim in self._assumed

    def on(self, node: NodeName) -> Iterator[ClaimedCards]:
        """The cards of a node that claims hold, in the order of the claims."""
        for uid in sorted(self._on.get(node, ())):
            yield self._by_uid[uid]

    # --- allocations that are being written ------------------------------------------------------

    def requested(self, uid: PodUid, write: ObjectWrite) -> None:
        """A write is sent for a placement, perhaps again."""
        if not isinstance(write, ReserveDevices) or write.allocation is None:
            return
        key = ObjectKey(write.namespace, write.device_claim)
        known = self._assumed.get(key)
        if known is not None:
            known.is_sent |= known.uid == uid
            return
        shown = self._objects.of(ResourceClaim).get(key)
        if shown is None or shown.resource_version != write.version:
            return
        reserved_for = shown.reserved_for | {uid}
        assumed = replace(
            shown, allocation=write.allocation, reserved_for=reserved_for, is_assumed=True
        )
        self._assumed[key] = _AssumedClaim(shown, assumed, uid)
        self._put(assumed)

    def answered(self, event: ObjectWritten, *, waits: bool) -> None:
        """A write was answered; `waits`: its placement still waits."""
        if not isinstance(event.write, ReserveDevices):
            return
        key = ObjectKey(event.write.namespace, event.write.device_claim)
        known = self._assumed.get(key)
        if known is None or known.uid != event.uid:
            return
        known.is_sent = event.outcome is WriteOutcome.DONE
        if event.outcome is not WriteOutcome.DONE and not (
            waits and event.outcome is WriteOutcome.UNKNOWN
        ):
            self._restore(key)

    def ended(self, uid: PodUid) -> None:
        """The placement of a pod ended: allocations whose writes are not on their way end too."""
        gone = [key for key, one in self._assumed.items() if one.uid == uid and not one.is_sent]
        for key in gone:
            self._restore(key)

    # --- changes -------------------------------------------------------------------------------

    def changed(self, event: ObjectEvent) -> bool:
        """Take an object, or all of a kind, as they are now; whether that changes anything."""
        objects = self._objects
        match event:
            case ObjectSeen(object=item):
                kind = item.kind
                changes = self._seen(item) if isinstance(item, ResourceClaim) else objects.put(item)
            case ObjectGone(kind=kind, key=key):
                changes = objects.drop(kind, key)
                if kind is _CLAIM:
                    self._assumed.pop(key, None)
                    self._charge(key)
            case ObjectsListed(kind=kind):
                changes = objects.put_all(kind, event.objects, event.problem, event.unreadable)
                if kind is _CLAIM and event.objects is not None:
                    self._listed()
        if changes and kind is _SLICE:
            self.charge_all()
        return changes

    def node_shown(self, name: NodeName) -> None:
        """Charge the cards of a node, which may not have been there before."""
        for key in [self._by_uid[uid].claim for uid in self._on.get(name, ())]:
            self._charge(key)

    def charge_all(self) -> None:
        """Charge the cards of all claims anew: slices, cards or nodes changed."""
        for key in [*self._allocated]:
            self._charge(key)

    # --- inside --------------------------------------------------------------------------------

    def _seen(self, item: ResourceClaim) -> bool:
        known = self._assumed.get(item.key)
        if known is not None and known.still_holds(item):
            known.shown = item
            return False
        self._assumed.pop(item.key, None)
        return self._put(item)

    def _listed(self) -> None:
        """All claims were listed: those whose allocation is being written stay assumed."""
        claims = self._objects.of(ResourceClaim)
        self._assumed = {
            key: one
            for key, one in self._assumed.items()
            if key in claims and one.still_holds(claims[key])
        }
        for key, one in self._assumed.items():
            if not claims[key].is_assumed:  # it is as it was read last if it cannot be read now
                one.shown = claims[key]
            self._objects.put(one.assumed)
        for key in {**self._allocated, **dict.fromkeys(claims)}:
            self._charge(key)

    def _restore(self, key: ObjectKey) -> None:
        """The claim is as the API server showed it last."""
        self._put(self._assumed.pop(key).shown)
        self._ledger.improved.add(ANYWHERE)

    def _put(self, item: ResourceClaim) -> bool:
        changes = self._objects.put(item)
        self._charge(item.key)
        return changes

    def _charge(self, key: ObjectKey) -> None:
        """Charge the cards that a claim holds now, in place of those before."""
        claim = self._objects.of(ResourceClaim).get(key)
        if claim is None or claim.allocation is None:
            self._allocated.pop(key, None)
            wanted: tuple[ClaimedCards, ...] = ()
        else:
            self._allocated[key] = None
            wanted = tuple(self._cards(claim))
        before = self._held.get(key, ())
        if wanted == before and all(one.uid in self._ledger.lingering for one in wanted):
            return
        for one in before:
            self._ledger.release_cards(one.uid)
            del self._by_uid[one.uid], self._on[one.node][one.uid]
            if not self._on[one.node]:
                del self._on[one.node]
        self._held.pop(key, None)
        for one in wanted:
            self._by_uid[one.uid] = one
            self._on.setdefault(one.node, {})[one.uid] = None
            self._held[key] = wanted
            allocation = Allocation(token=DecisionToken(""), cards=one.cards)
            self._ledger.hold_cards(one.uid, one.node, allocation)

    def _cards(self, claim: ResourceClaim) -> Iterator[ClaimedCards]:
        """The cards that a claim's devices are, by node.

        A device that its driver does not list any more is what it was while the claim holds it.
        """
        found: dict[NodeName, dict[GpuUuid, CardCharge]] = {}
        for device in claim.held_devices():
            for node, gpu in self._gpus(device):
                charge = CardCharge(
                    gpu.uuid, WHOLE_MILLI, gpu.memory_bytes, gpu.model, exclusive=True
                )
                found.setdefault(node, {})[gpu.uuid] = charge
        before = {one.node: one for one in self._held.get(claim.key, ())}
        if not all(self._objects.device_pools.found(one) for one in claim.held_devices()):
            for node, one in before.items():
                for card in one.cards:
                    found.setdefault(node, {}).setdefault(card.uuid, card)
        for node, cards in sorted(found.items()):
            yield ClaimedCards(claim.key, node, tuple(cards[uuid] for uuid in sorted(cards)))

    def _gpus(self, device: DeviceKey) -> Iterator[tuple[NodeName, Gpu]]:
        listed = self._objects.device_pools.found(device)
        if listed is None:
            return
        piece, known = listed
        uuids = {*known.cards()}
        nodes = piece.nodes_of(known)
        inventory = self._ledger.inventory
        if not uuids:
            return
        for name in inventory if nodes is None or nodes.name is None else (nodes.name,):
            for gpu in inventory.get(name, ()):
                if gpu.uuid in uuids:
                    yield name, gpu
