"""Which pods hold which cards, followed from event to event, and for how long. Reads.

A part of a card is held from when the watch shows a pod bound with it until the machine frees it:
when the pod is gone or has finished, and of a pod that was deleted by force once it lingers no
more. Places that are decided and not yet seen bound do not count. Cards of a ResourceClaim are
held as long as the watch shows it allocated, by the claim in place of a pod.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.cluster_objects import Labels, WatchedKind
from kubeshare_py.domain.device import ResourceClaim
from kubeshare_py.domain.events import (
    BindAnswered,
    BindSlotsFree,
    InventoryRead,
    NodeGone,
    NodeSeen,
    NodesListed,
    ObjectGone,
    ObjectSeen,
    ObjectsListed,
    PodGone,
    PodSeen,
    PodsListed,
    TimePassed,
)
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.scheduling.machine import Machine, MachineEvent
from kubeshare_py.scheduling.queue.pod_records import PodState
from kubeshare_py.views.figures import HeldSeconds

#: The kinds of objects that may change what any ResourceClaim holds.
_ABOUT_CLAIMS = (WatchedKind.RESOURCE_CLAIM, WatchedKind.RESOURCE_SLICE)


#: Most events: they change nothing of what bound pods hold.
_NEVER = frozenset({BindSlotsFree, BindAnswered, TimePassed})


class Holding(NamedTuple):
    """What a pod, or a ResourceClaim, holds of the cards of its node; `owner` as `job a`.

    `labels` are the pod's when it was first seen to hold this.
    """

    uid: PodUid
    key: PodKey
    owner: str
    labels: Labels
    node: NodeName
    cards: tuple[CardCharge, ...]


#: What a pod held before, and what it holds now; None for nothing.
HoldingChange = tuple[Holding | None, Holding | None]


class FollowedHoldings:
    """The holdings of a machine; each event shows it only the pods that the event can be about."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        #: The holdings by the uid of the pod or of the claim.
        self.now: dict[PodUid, Holding] = {}
        #: Those of `now` that no record has: of lingering pods and of claims.
        self._without_record: dict[PodUid, None] = {}
        #: How many charges without a pod had ended at the last look.
        self._ended = 0

    def changes(self, event: MachineEvent) -> Sequence[HoldingChange]:
        """What is different after this event, which the machine has just handled."""
        uids: Iterable[PodUid] = ()
        if type(event) is PodSeen:
            uids = () if self._goes_on(event.pod.uid) else (event.pod.uid,)
        elif type(event) is PodGone:
            uids = (event.uid,) if event.uid in self.now else ()
        elif type(event) not in _NEVER:
            uids = self._concerned(event)
        ledger = self._machine.ledger
        if ledger.lingering_ended != self._ended:
            # Pods linger until some time is over, whatever the event is about.
            self._ended, lingering = ledger.lingering_ended, ledger.lingering
            uids = chain(uids, [uid for uid in self._without_record if uid not in lingering])
        elif not uids:
            return ()
        found: list[HoldingChange] = []
        for uid in uids:
            before = self.now.get(uid)
            after = self._holding(uid, before)
            if before != after:
                found.append((before, after))
                if after is None:
                    del self.now[uid]
                else:
                    self.now[uid] = after
        return found

    def _goes_on(self, uid: PodUid) -> bool:
        """Whether a pod that was just seen holds what it held; most hold nothing, or the same."""
        if uid not in self.now:
            record = self._machine.records.get(uid)
            return record is None or record.state is not PodState.BOUND
        charge = self._machine.ledger.charge_of(uid)
        return charge is not None and not self._differs(uid, charge)

    def _differs(self, uid: PodUid, charge: Charge) -> bool:
        """Whether a charge may be of other cards than those that were held."""
        cards = charge.allocation.cards if charge.allocation is not None else ()
        if uid not in self.now:
            return bool(cards)
        before = self.now[uid]
        return before.cards is not cards or before.node != charge.node

    def _concerned(self, event: MachineEvent) -> Iterable[PodUid]:
        """The pods and claims that the event can be about."""
        match event:
            case PodsListed(pods=pods, continues=continues):
                listed = [pod.uid for pod in pods]
                return listed if continues else dict.fromkeys((*self.now, *listed))
            case ObjectSeen(object=ResourceClaim(key=key)):
                return self._machine.devices.charges_of(key)
            case ObjectGone(kind=WatchedKind.RESOURCE_CLAIM):
                return ()  # what the claim held has ended
            case _:
                nodes = list(_nodes_of(event))
                is_about_claims = _is_about_claims(event)
                if nodes or is_about_claims:
                    return chain(self._on(nodes), self._of_claims() if is_about_claims else ())
        return ()

    def _on(self, nodes: Iterable[NodeName]) -> Iterator[PodUid]:
        """The pods and claims that may hold other cards of these nodes than before."""
        for node in nodes:
            yield from self._differing(self._machine.ledger.charges_on(node))

    def _of_claims(self) -> Iterator[PodUid]:
        return self._differing(self._machine.ledger.lingering)

    def _differing(self, charges: Mapping[PodUid, Charge]) -> Iterator[PodUid]:
        return (uid for uid, charge in [*charges.items()] if self._differs(uid, charge))

    def _holding(self, uid: PodUid, before: Holding | None) -> Holding | None:
        machine = self._machine
        if self._without_record:
            self._without_record.pop(uid, None)
        record = machine.records.get(uid)
        if record is not None:
            charge = machine.ledger.charge_of(uid)
            if record.state is not PodState.BOUND or charge is None:
                return None
            cards = _held(charge)
            if before is not None and before.cards == cards and before.node == charge.node:
                return before
            pod = record.pod
            if not cards:
                return None
            return Holding(uid, pod.key, pod.owner_title, pod.labels, charge.node, cards)
        return self._held_without_record(uid, before)

    def _held_without_record(self, uid: PodUid, before: Holding | None) -> Holding | None:
        """What a lingering pod keeps, if it held it before, or what a claim holds."""
        charge = self._machine.ledger.lingering.get(uid)
        if charge is None:
            return None
        claim = self._machine.devices.key_of(uid)
        cards = _held(charge)
        if not cards or (claim is None and before is None):
            return None
        if self._machine.devices.is_assumed(uid):
            return None  # decided, and not yet seen
        self._without_record[uid] = None
        if before is not None:
            return before._replace(cards=cards)
        assert claim is not None
        return Holding(uid, claim, "", (), charge.node, cards)


def _nodes_of(event: MachineEvent) -> Iterable[NodeName]:
    """The nodes that the event shows: kubelets choose cards, and agents name them."""
    match event:
        case NodeSeen(node=node):
            return (node.name,)
        case NodeGone(name=name):
            return (name,)
        case NodesListed(nodes=nodes):
            return [node.name for node in nodes]
        case InventoryRead(changed=changed):
            return [name for name, _ in changed]
        case _:
            return ()


def _is_about_claims(event: MachineEvent) -> bool:
    match event:
        case ObjectSeen(object=seen):
            return seen.kind in _ABOUT_CLAIMS
        case ObjectGone(kind=kind) | ObjectsListed(kind=kind):
            return kind in _ABOUT_CLAIMS
        case _:
            return isinstance(event, NodesListed | InventoryRead)


def _held(charge: Charge) -> tuple[CardCharge, ...]:
    """The cards of which it holds something: of those shared by native pods one pod is charged."""
    if charge.allocation is None:
        return ()
    cards = charge.allocation.cards
    for card in cards:
        if not card.milli and not card.memory_bytes:
            return tuple([card for card in cards if card.milli or card.memory_bytes])
    return cards


# How long cards were held, by namespace and model, while this process decides.


#: The most pairs of a namespace and a model that are counted apart.
MOST_PAIRS = 1000
#: The namespace and model of all others.
OTHERS = ("", "other")
_MS = 1000


class _Sum:
    """What a pair holds now, and its sum up to `now` less `now` times that, in milliseconds."""

    __slots__ = ("byte_ms", "held_bytes", "milli", "milli_ms")

    def __init__(self) -> None:
        self.milli = self.milli_ms = self.held_bytes = self.byte_ms = 0


class HeldTime:
    """Sums of what is held, in integers: however many pods come and go, none is lost to rounding.

    Nothing counts before `begin`: until then another process decides, and counts.
    """

    def __init__(self, machine: Machine, most_pairs: int = MOST_PAIRS) -> None:
        self._held = FollowedHoldings(machine)
        self._most_pairs = most_pairs
        self._sums: dict[tuple[str, str], _Sum] = {}
        self._has_begun = False

    def begin(self, now: float) -> None:
        """Count from now (s) on."""
        self._has_begun = True
        now_ms = round(now * _MS)
        for one in self._sums.values():
            one.milli_ms, one.byte_ms = -one.milli * now_ms, -one.held_bytes * now_ms

    def handled(self, event: MachineEvent, clock: Callable[[], float]) -> None:
        """The machine has handled an event; the clock (s) is asked if holdings changed."""
        changes = self._held.changes(event)
        if changes:
            now_ms = round(clock() * _MS)
            for before, after in changes:
                if before is not None:
                    self._add(before, -1, now_ms)
                if after is not None:
                    self._add(after, 1, now_ms)

    def seconds(self, now: float) -> Mapping[tuple[str, str], HeldSeconds]:
        """The sums at `now` (s) by namespace and model; none before `begin`."""
        if not self._has_begun:
            return {}
        now_ms = round(now * _MS)
        return {
            pair: HeldSeconds(
                (one.milli_ms + one.milli * now_ms) / (WHOLE_MILLI * _MS),
                (one.byte_ms + one.held_bytes * now_ms) / _MS,
            )
            for pair, one in self._sums.items()
        }

    def _add(self, holding: Holding, sign: int, now_ms: int) -> None:
        for card in holding.cards:
            pair = holding.key.namespace, card.model
            found = self._sums.get(pair)
            if found is None:
                if len(self._sums) >= self._most_pairs:
                    pair = OTHERS
                found = self._sums.setdefault(pair, _Sum())
            milli, held_bytes = sign * card.milli, sign * card.memory_bytes
            found.milli += milli
            found.milli_ms -= milli * now_ms
            found.held_bytes += held_bytes
            found.byte_ms -= held_bytes * now_ms
