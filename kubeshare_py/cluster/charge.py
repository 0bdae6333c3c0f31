"""What one pod holds, or is to hold, of one node: its charge, however the pod came by it.

Cards may be named by this scheduler, by the pod's annotations, or by the kubelet alone. Kept here
too are charges of lingering pods, reservations of waiting ones, the ports of a node that pods get,
and the ledger's reasons to refuse.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import (
    ABSENT,
    CORDONED,
    CROWDED,
    EXCLUDING,
    EXCLUSIVE,
    FIXED_RESOURCES,
    FOREIGN,
    HELD_BACK,
    PODS,
    PORTS,
    UNHEALTHY,
    Columns,
    IntArray,
)
from kubeshare_py.cluster.derived import admits, misnames, named
from kubeshare_py.domain.allocation import Allocation, CardCharge, summed
from kubeshare_py.domain.gpu import CardTag, Gpu, TagKind, part_of_bytes
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid, index_of
from kubeshare_py.domain.node import KubeletPick, Node
from kubeshare_py.domain.pod import PlacedPod, Shape
from kubeshare_py.domain.quota import NATIVE_GPU, UNKNOWN_PARTS
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.domain.values import replace

# GPUs that the kubelet gives out itself: how many idle cards are held back for them.
#
# Of a pod with `nvidia.com/gpu` that no dialect reads, only the kubelet knows which cards it got.
# Until the node's agent names them, as many idle cards are held back, but no more than the device
# plugin advertises: what pods ask for beyond that, the kubelet refuses.
#
# Units of other names, such as `nvidia.com/gpu.shared`, may be parts of one card, or each of
# another one. As many idle cards are held back as there are units, which is no over-commitment as
# long as one card is without pods of ours.


Resources = tuple[tuple[str, int], ...]


def native_gpus(resources: Resources) -> int:
    """The number of whole GPUs that are requested of the device plugin."""
    return next((amount for name, amount in resources if name == NATIVE_GPU), 0)


def native_devices(resources: Resources) -> int:
    """The number of devices that a pod can have of device plugins, whatever these are called.

    The amounts of all extended resources; of a pod that lingers only what it is charged.
    """
    named = sum(amount for name, amount in resources if "/" in name)
    return max(named, sum(amount for name, amount in resources if name == UNKNOWN_PARTS))


def is_native(name: str) -> bool:
    """Whether a pod holds cards by this resource, as long as its containers may run."""
    return name in (NATIVE_GPU, UNKNOWN_PARTS)


class NativeGpus(NamedTuple):
    """How many of a node's GPUs native pods hold.

    Of `unknown` cards, on `picked` ones, and `parts` that may be of the same unknown cards.
    """

    unknown: int = 0
    picked: int = 0
    parts: int = 0

    def plus(self, other: "NativeGpus", sign: int) -> "NativeGpus":
        """The sum (sign 1) or difference (-1)."""
        return NativeGpus(
            self.unknown + sign * other.unknown,
            self.picked + sign * other.picked,
            self.parts + sign * other.parts,
        )

    @property
    def on_unknown_cards(self) -> int:
        """The units whose cards are not known."""
        return self.unknown + self.parts


NONE = NativeGpus()


def native_of(resources: Resources) -> NativeGpus:
    """What a pod with these resources holds of unknown cards."""
    unknown = parts = 0
    for name, amount in resources:
        if name == NATIVE_GPU:
            unknown = amount
        elif name == UNKNOWN_PARTS:
            parts = amount
    return NativeGpus(unknown, 0, parts) if unknown or parts else NONE


def to_hold_back(columns: Columns, row: int, native: NativeGpus) -> int:
    """How many idle cards of a row are held back."""
    parts = min(native.parts, columns.gpu_count.item(row)) if native.parts else 0
    return _whole(columns, row, native) + parts


def least_cards(columns: Columns, row: int, native: NativeGpus) -> int:
    """The fewest cards of a row that can hold these GPUs, whatever the kubelet chose."""
    column, whole, parts = columns.resources.get(NATIVE_GPU), native.unknown, native.parts
    advertised = 0 if column is None else columns.allocatable.item(row, column)
    if advertised > columns.gpu_count.item(row):  # time slices that were not renamed
        whole, parts = 0, parts + whole
    return _whole(columns, row, NativeGpus(whole, native.picked)) + (parts > 0)


def _whole(columns: Columns, row: int, native: NativeGpus) -> int:
    unknown = native.unknown
    column = columns.resources.get(NATIVE_GPU)
    if not unknown or column is None:
        return unknown
    advertised = columns.allocatable.item(row, column)
    # A plugin that is gone advertises nothing, and its pods run on.
    return min(unknown, max(advertised - native.picked, 0)) if advertised > 0 else unknown


def all_to_hold_back(columns: Columns, index: IntArray, native: IntArray) -> IntArray:
    """`to_hold_back` of many rows, (k,); `native` has the three counts of `NativeGpus`, (k, 3)."""
    whole, picked, parts = native[:, 0], native[:, 1], native[:, 2]
    column = columns.resources.get(NATIVE_GPU)
    if column is not None:
        advertised = columns.allocatable[index, column]
        # (k,) all. A plugin that is gone advertises 0, and its pods run on: they need all that they
        # have.
        most = np.where(advertised > 0, np.maximum(advertised - picked, 0), whole)
        whole = np.minimum(whole, most)
    held: IntArray = whole + np.minimum(parts, columns.gpu_count[index])
    return held


def as_array(native_on: Callable[[int], NativeGpus], rows: IntArray) -> IntArray:
    """The three counts of `NativeGpus` of each of these rows, (k,), as (k, 3) int64."""
    found = np.zeros((len(rows), len(NONE)), np.int64)
    for position, row in enumerate(rows.tolist()):
        found[position] = native_on(row)
    return found


# A charge: what one pod holds, or is to hold, of one node.


@dataclass(slots=True)
class Charge:
    """What one pod holds of one node: resources (cpu in milli) and cards. Do not change it.

    `pod` is what other pods' placement depends on besides; None for a reservation.

    `unpicked` is set if the kubelet picked the cards of the allocation: it is the charge without
    them. `picked` of them are whole GPUs of those that the pod requests of the device plugin.
    """

    node: NodeName
    resources: Resources
    allocation: Allocation | None
    pod: PlacedPod | None = None
    unpicked: "Charge | None" = None
    picked: int = 0

    @property
    def native(self) -> NativeGpus:
        """The GPUs that the kubelet gives to the pod."""
        if self.unpicked is not None:
            return NativeGpus(native_gpus(self.resources) - self.picked, self.picked)
        if self.allocation is not None and self.allocation.cards:
            return NONE
        return native_of(self.resources) if self.resources else NONE


def claim_charges(
    columns: Columns,
    row: int,
    slots: Sequence[int],
    claims: Sequence[GpuClaim],
    cells: Mapping[GpuUuid, str] | None = None,
) -> list[tuple[CardCharge, ...]]:
    """What each claim takes of its cards; `slots` of a row are those of one claim after another.

    `cells` are the row's cells.
    """
    found, first = [], 0
    for claim in claims:
        found.append(_taken(columns, row, slots[first : first + claim.count], claim, cells))
        first += claim.count
    return found


def card_charges(
    columns: Columns,
    row: int,
    slots: Sequence[int],
    claims: Sequence[GpuClaim],
    cells: Mapping[GpuUuid, str] | None = None,
) -> tuple[CardCharge, ...]:
    """What the claims take in all of each card; as `claim_charges`."""
    if len(claims) == 1:
        return _taken(columns, row, slots, claims[0], cells)
    found = claim_charges(columns, row, slots, claims, cells)
    return summed(card for cards in found for card in cards)


def with_names(
    columns: Columns,
    row: int,
    slots: Sequence[int],
    cards: tuple[CardCharge, ...],
    namespace: str,
) -> tuple[CardCharge, ...]:
    """The charges of a pod of this namespace, each with the name of its card among its tags.

    `slots` are those of the cards.
    """
    return tuple(
        replace(card, tags=tuple(sorted({*card.tags, named(columns, row, slot, card, namespace)})))
        for card, slot in zip(cards, slots, strict=True)
    )


def _taken(
    columns: Columns,
    row: int,
    slots: Sequence[int],
    claim: GpuClaim,
    cells: Mapping[GpuUuid, str] | None,
) -> tuple[CardCharge, ...]:
    """What one claim takes of the cards in these slots."""
    uuids, names, charges = columns.uuids[row], columns.models.values, []
    for slot in slots:
        model = names[columns.model.item(row, slot)]
        if claim.exclusive or claim.asks_memory:
            capacity = columns.capacity_bytes.item(row, slot)
            memory = claim.bytes_of(capacity, columns.share_bytes.item(row, slot), model)
            milli = claim.charged_milli(columns.capacity_milli.item(row, slot), model)
        else:
            milli = claim.milli_on(model)
            memory = part_of_bytes(columns.share_bytes.item(row, slot), milli)
        cell = cells.get(uuids[slot], "") if cells else ""
        alone, tags = claim.exclusive, claim.tags
        charges.append(CardCharge(uuids[slot], milli, memory, model, cell, alone, tags))
    return tuple(charges)


def card_of_each(
    columns: Columns,
    rows: Sequence[int],
    slots: Sequence[int],
    claim: GpuClaim,
    cells_on: Callable[[int], Mapping[GpuUuid, str] | None],
) -> list[CardCharge]:
    """What a claim of one card takes of each of these cards; `cells_on` has the cells of a row.

    Amounts depend on what kind of card it is, and are worked out once for each kind.
    """
    at = np.array(rows, np.int64), np.array(slots, np.int64)
    kinds = (columns.model, columns.capacity_bytes, columns.share_bytes, columns.capacity_milli)
    known: dict[tuple[int, ...], CardCharge] = {}
    found = []
    for row, slot, kind in zip(
        rows, slots, zip(*(column[at].tolist() for column in kinds), strict=True), strict=True
    ):
        cells, like = cells_on(row), known.get(kind)
        if like is None or cells:
            (card,) = _taken(columns, row, (slot,), claim, cells)
            known[kind] = card
        else:
            milli, memory, uuid = like.milli, like.memory_bytes, columns.uuids[row][slot]
            card = CardCharge(uuid, milli, memory, like.model, "", like.exclusive, like.tags)
        found.append(card)
    return found


def tentative_charge(
    columns: Columns,
    row: int,
    slots: Sequence[int],
    shape: Shape,
    cells: Mapping[GpuUuid, str] | None = None,
    pod: PlacedPod | None = None,
) -> Charge:
    """What a pod of this shape would hold there; of a pod-manager port, any one."""
    node = columns.names[row]
    assert node is not None
    allocation = Allocation(
        token=DecisionToken(""),
        cards=card_charges(columns, row, slots, shape.claims, cells),
        port=0 if shape.needs_port else None,
    )
    return Charge(node, shape.charged, allocation, pod)


# Charges of native pods with the cards that the kubelet picked, as their node's agent names them.
#
# A node's agent speaks of its own node only: of pods that are placed there, and of cards that the
# node lists. What it names of them is charged wholly and to that pod alone, in place of idle cards
# that are held back, whatever the resource is called. What a decision gave to a pod is never
# changed by it.
#
# Device plugins give parts of one card to several pods (time slices, MPS). Such a card is charged
# once, to the first of the pods that the agent names, and all of them keep other pods off it.


#: The language in which native pods ask, for people.
_DIALECT = "nvidia"
#: Keeps pods of ours off a card of several native pods. No namespace has this name.
_TOGETHER = (CardTag(TagKind.EXCLUSION, "-", "kubelet"),)


class Pick(NamedTuple):
    """A card that the agent names for a pod.

    `is_shared`: for other pods too. `counts`: of these pods, this one is charged the card.
    """

    card: GpuUuid
    is_shared: bool = False
    counts: bool = True


def picks_of(node: Node | None, uid: PodUid) -> tuple[Pick, ...]:
    """The cards that the node's agent names for a pod."""
    picks = node.agent.picks if node is not None else None
    return _by_pod(picks).get(uid, ()) if picks else ()


@remembered(256)
def _by_pod(picks: tuple[KubeletPick, ...]) -> Mapping[PodUid, tuple[Pick, ...]]:
    """The cards of each pod; an annotation is asked about each pod of its node."""
    pods: defaultdict[GpuUuid, list[PodUid]] = defaultdict(list)
    for pick in picks:
        for card in pick.cards:
            pods[card].append(pick.uid)
    return {
        pick.uid: tuple(
            Pick(card, len(pods[card]) > 1, pods[card][0] == pick.uid) for card in pick.cards
        )
        for pick in picks
    }


def with_picks(charge: Charge, picks: Sequence[Pick], gpus: Iterable[Gpu]) -> Charge:
    """The charge with those of the named cards that are among `gpus`, the cards of its node.

    It stays as it is if it has cards of its own or needs none of the device plugin. If more cards
    are named than the pod requests, none of them counts: such words are not about this pod.
    """
    held = charge.allocation
    if not picks or (held is not None and (held.cards or held.port is not None)):
        return charge
    whole, devices = native_gpus(charge.resources), native_devices(charge.resources)
    if not 0 < len(picks) <= devices:
        return charge
    named = {pick.card: pick for pick in picks}
    there = [gpu for gpu in gpus if gpu.uuid in named]
    if not there:
        return charge
    parts = sum(1 for gpu in there if gpu.parent is not None)
    # An instance is a `nvidia.com/gpu` too where the plugin has MIG strategy `single`.
    picked = len(there) - min(parts, devices - whole)
    cards_held = tuple(_charged(gpu, named[gpu.uuid]) for gpu in there)
    allocation = Allocation(token=DecisionToken(""), dialect=_DIALECT, cards=cards_held)
    return Charge(charge.node, charge.resources, allocation, charge.pod, charge, min(picked, whole))


def _charged(gpu: Gpu, pick: Pick) -> CardCharge:
    milli, memory = (gpu.capacity_milli, gpu.capacity_bytes) if pick.counts else (0, 0)
    tags = _TOGETHER if pick.is_shared else ()
    alone = not pick.is_shared
    return CardCharge(gpu.uuid, milli, memory, gpu.model, gpu.cell_id, exclusive=alone, tags=tags)


# Charges of lingering pods: deleted by force while their containers may still run.
#
# Charges of ResourceClaims are kept here too: they hold cards without a pod.
#
# A lingering pod keeps its cards, its pod-manager port and the GPUs from the device plugin. CPU,
# memory and its place among the node's pods are free at once, as in kube-scheduler.


#: Every charge takes one of the node's pods; this gives it back.
_NO_PLACE = ("pods", -1)


class Lingering:
    """Charges by pod and by node. The ledger counts them in the columns."""

    def __init__(self) -> None:
        self.of: dict[PodUid, Charge] = {}
        self._on: dict[NodeName, dict[PodUid, Charge]] = {}

    def on(self, node: NodeName) -> Mapping[PodUid, Charge]:
        """The charges on a node, by pod."""
        return self._on.get(node, {})

    def put(self, uid: PodUid, charge: Charge) -> None:
        """Record what the pod keeps from now on."""
        self.of[uid] = charge
        self._on.setdefault(charge.node, {})[uid] = charge

    def pop(self, uid: PodUid) -> Charge | None:
        """Remove the pod; what it kept, or None."""
        charge = self.of.pop(uid, None)
        if charge is not None:
            there = self._on[charge.node]
            del there[uid]
            if not there:
                del self._on[charge.node]
        return charge


def kept(charge: Charge) -> Charge | None:
    """The part of a charge that a lingering pod keeps; None if it holds no GPU."""
    gpus = tuple(one for one in charge.resources if is_native(one[0]) and one[1])
    if not gpus and (charge.allocation is None or not charge.allocation.cards):
        return None
    unpicked = None if charge.unpicked is None else kept(charge.unpicked)
    resources = (*gpus, _NO_PLACE)
    return Charge(charge.node, resources, charge.allocation, None, unpicked, charge.picked)


def cards_alone(node: NodeName, allocation: Allocation) -> Charge:
    """A charge of cards that takes nothing else of the node."""
    return Charge(node, (_NO_PLACE,), allocation)


def freed(charge: Charge) -> tuple[tuple[str, int], ...]:
    """The resources that a lingering pod does not keep."""
    return tuple(one for one in charge.resources if not is_native(one[0]))


# Cards that an allocation names by their index, because its pod's annotations do.
#
# The index of a card is the driver's, and may be another card's after a repair. So an index is
# looked up once, in the first list of the node's cards that has it; from then on the pod holds that
# card.


def has_indices(allocation: Allocation | None) -> bool:
    """Whether the allocation names a card by an index that its node has not shown yet."""
    for card in () if allocation is None else allocation.cards:
        if index_of(card.uuid) is not None:
            return True
    return False


def looked_up(allocation: Allocation, gpus: Sequence[Gpu]) -> Allocation:
    """The allocation with the uuids of the cards that a node lists; the same if none is found.

    An index means a whole card. It means a MIG instance only if no other card or instance has it.
    """
    found: dict[GpuUuid, Gpu] = {}
    for card in allocation.cards:
        index = index_of(card.uuid)
        gpu = None if index is None else _with_index(gpus, index)
        if gpu is not None:
            found[card.uuid] = gpu
    if not found:
        return allocation
    claims = tuple(replace(one, cards=_named(one.cards, found)) for one in allocation.claims)
    return replace(allocation, cards=_named(allocation.cards, found), claims=claims)


def _with_index(gpus: Sequence[Gpu], index: int) -> Gpu | None:
    """The one card of this index; None if none or several have it."""
    named = [gpu for gpu in gpus if gpu.index == index]
    whole = [gpu for gpu in named if gpu.parent is None] or named
    return whole[0] if len(whole) == 1 else None


def _named(cards: Sequence[CardCharge], found: Mapping[GpuUuid, Gpu]) -> tuple[CardCharge, ...]:
    return summed(
        replace(card, uuid=found[card.uuid].uuid, model=found[card.uuid].model)
        if card.uuid in found
        else card
        for card in cards
    )


# The reservations of waiting pods, and what pods hold besides them.


class ReservedPlaces:
    """Reservations by pod and by node; `changes` counts how often one was added or removed."""

    __slots__ = ("changes", "of", "on")

    def __init__(self) -> None:
        self.of: dict[PodUid, Charge] = {}
        self.on: dict[NodeName, dict[PodUid, Charge]] = {}
        self.changes = 0

    def put(self, uid: PodUid, charge: Charge) -> None:
        """Add the reservation of a pod that has none."""
        self.changes += 1
        self.of[uid] = charge
        self.on.setdefault(charge.node, {})[uid] = charge

    def pop(self, uid: PodUid) -> None:
        """Remove a reservation."""
        self.changes += 1
        node = self.of.pop(uid).node
        del self.on[node][uid]
        if not self.on[node]:
            del self.on[node]

    def allocations_on(self, node: NodeName) -> list[Allocation]:
        """The allocations of the reservations on a node."""
        there = self.on.get(node, {}).values()
        return [charge.allocation for charge in there if charge.allocation]


def is_overdrawn(columns: Columns, row: int, slot: int) -> bool:
    """Whether pods, without reservations, hold more of a card than it has."""
    milli = columns.free_milli.item(row, slot) + columns.reserved_milli.item(row, slot)
    memory = columns.free_bytes.item(row, slot) + columns.reserved_bytes.item(row, slot)
    return milli < 0 or memory < 0


def is_intruded(columns: Columns, row: int, slot: int) -> bool:
    """Whether several pods hold a card that is exclusive to one of them, or to a reservation."""
    held = columns.tenants.item(row, slot) - columns.reservations.item(row, slot)
    return held > 1 and columns.exclusive.item(row, slot) > 0


def intruded(columns: Columns) -> NDArray[np.bool_]:
    """`is_intruded` for each card; (rows, width) bool."""
    held = columns.tenants - columns.reservations
    # (rows, width). Reservations are tenants too, but a place that is only reserved intrudes on
    # none.
    several: NDArray[np.bool_] = (held > 1) & (columns.flags & ABSENT == 0)
    return several & (columns.exclusive > 0)


def overdrawn(columns: Columns) -> NDArray[np.bool_]:
    """`is_overdrawn` for each card; (rows, width) bool."""
    milli = columns.free_milli + columns.reserved_milli
    memory = columns.free_bytes + columns.reserved_bytes
    # (rows, width). A card that is absent has capacity 0: what is held of it is no over-commitment.
    over: NDArray[np.bool_] = ((milli < 0) | (memory < 0)) & (columns.flags & ABSENT == 0)
    return over


# The pod-manager ports of one node: 511 ports in round robin, as in KubeShare.
#
# A freed port is used again only after the cursor has come round, so that a client of the old pod
# does not reach the new pod's manager. Ports are 50051…50561 (KubeShare 2.0,
# `pkg/scheduler/pod.go`).


FIRST_PORT = 50051
POOL_SIZE = 511


@dataclass(slots=True)
class PortPool:
    """The taken ports of a node, and where the next search starts.

    Bit b of `taken` is port 50051 + b, and `cursor` is a bit's number.
    """

    taken: int = 0
    cursor: int = 0
    #: Ports that several pods hold, as only a forged annotation can cause: how many extra pods.
    shared: dict[int, int] = field(default_factory=dict)
    #: Ports outside of the pool, which no scheduler gives: how many pods hold each.
    _outside: dict[int, int] = field(default_factory=dict)

    def next_free(self) -> int | None:
        """The port of the next placement; None if all are taken."""
        for start, limit in ((self.cursor, POOL_SIZE), (0, self.cursor)):
            free = ~self.taken >> start & ((1 << (limit - start)) - 1)
            if free:
                return FIRST_PORT + start + (free & -free).bit_length() - 1
        return None

    def take(self, port: int) -> bool:
        """Count one more pod on a port; whether it was free."""
        bit = port - FIRST_PORT
        if not 0 <= bit < POOL_SIZE:
            self._outside[port] = self._outside.get(port, 0) + 1
            was_free = self._outside[port] == 1
        else:
            was_free = not self.taken >> bit & 1
            self.taken |= 1 << bit
            self.cursor = (bit + 1) % POOL_SIZE
        if not was_free:
            self.shared[port] = self.shared.get(port, 0) + 1
        return was_free

    def give_back(self, port: int) -> None:
        """Count one pod fewer on a port."""
        bit = port - FIRST_PORT
        if not 0 <= bit < POOL_SIZE:
            self._outside[port] -= 1
            if not self._outside[port]:
                del self._outside[port]
        if port in self.shared:
            self.shared[port] -= 1
            if not self.shared[port]:
                del self.shared[port]
        elif 0 <= bit < POOL_SIZE:
            self.taken &= ~(1 << bit)

    def undo_take(self, port: int) -> None:
        """Free the port that was taken last, as if it had never been taken."""
        self.give_back(port)
        bit = port - FIRST_PORT
        if 0 <= bit < POOL_SIZE:
            self.cursor = bit


# Why the ledger refuses a placement of this scheduler: it takes more than there is.


#: The beginning of such reasons.
REFUSES = "the ledger refuses: "
NO_SUCH_CARD = "there is no such GPU"
INSUFFICIENT_CARD = "too little is free of the GPUs"

_FLAGS = (
    (UNHEALTHY, "is not healthy"),
    (CORDONED, "is cordoned"),
    (EXCLUSIVE, "is held by a pod alone"),
    (CROWDED, "has as many pods as it may have"),
    (HELD_BACK, "is kept for pods whose GPUs the kubelet picks"),
)


def insufficient(resource: str) -> str:
    """The reason for a resource of a node, as kube-scheduler words it."""
    return "Too many pods" if resource == FIXED_RESOURCES[PODS] else f"Insufficient {resource}"


def refusal(
    columns: Columns, row: int, resources: Resources, allocation: Allocation | None, port: bool
) -> str | None:
    """What the row has too little of; None if all of it is free.

    The cost depends on how much is asked for. `port`: whether the pod takes a pod-manager port.
    """
    if columns.nodes[row] is None:
        return "the node is not there"
    free: list[int] = columns.free[row].tolist()
    for name, amount in resources:
        if amount > 0 and (name not in columns.resources or free[columns.resources[name]] < amount):
            return insufficient(name)
    if free[PODS] < 1:
        return insufficient(FIXED_RESOURCES[PODS])
    if port and free[PORTS] < 1:
        return insufficient(FIXED_RESOURCES[PORTS])
    return _cards(columns, row, allocation) if allocation is not None and allocation.cards else None


def _cards(columns: Columns, row: int, allocation: Allocation) -> str | None:
    uuids, taken = columns.uuids[row], set()
    for card in allocation.cards:
        if card.uuid not in uuids or card.uuid in taken:
            return f"GPU {card.uuid} is {'taken twice' if card.uuid in taken else 'not there'}"
        taken.add(card.uuid)
        what = _card(columns, row, uuids.index(card.uuid), card)
        if what is not None:
            return f"GPU {card.uuid} {what}"
    return None


def _card(columns: Columns, row: int, slot: int, card: CardCharge) -> str | None:
    flags = columns.flags.item(row, slot) & ~FOREIGN
    if flags & EXCLUDING or card.tags:
        if not admits(columns, row, slot, card.tags):
            return "has pods of other exclusion tags"
        flags &= ~EXCLUDING
    if card.tags and misnames(columns, row, slot, card.tags):
        return "has another name, or its name is another GPU's"
    if flags:
        return next((text for flag, text in _FLAGS if flags & flag), "is not there")
    if columns.free_milli.item(row, slot) < card.milli:
        return "has too little share left"
    if columns.free_bytes.item(row, slot) < card.memory_bytes:
        return "has too little memory left"
    return "is not idle" if card.exclusive and columns.tenants.item(row, slot) else None
