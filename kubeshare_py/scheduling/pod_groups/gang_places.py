"""Where a gang may be placed: models of cards, topology domains, nodes, and cards of a node."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import Columns, IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import SomeRows
from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.gpu import WHOLE_MILLI, PreferredModels
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.boundary import Boundary, gang_scores, places
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.result_cache import Choice
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.framework.scores import MAX_SCORE
from kubeshare_py.framework.snapshot import Snapshot
from kubeshare_py.scheduling.charges.holdings import claimed_parts
from kubeshare_py.scheduling.queue.gangs import PLACED, Gang, Shapes
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.topology.card_sets import GangContext, PositionSet
from kubeshare_py.topology.topology_labels import CLIQUE

# Gangs whose cards must all be of one model: the shapes of their members, model by model.
#
# A member that asks for one model is planned for each model in turn, as if it named that model.
# Once members have their places, the waiting ones ask for the model of these.


#: The name of a profile, and a shape.
ProfileShape = tuple[str, Shape]


def kind_of(record: Record, model: str) -> ProfileShape:
    """The profile and shape by which a pod is placed; `narrowed` to this model."""
    shape = record.shape
    return record.pod.scheduler_name, narrowed(shape, model) if model else shape


@remembered(1024)
def narrowed(shape: Shape, model: str) -> Shape:
    """The shape with this model alone where a claim asks for one model; "" leaves it as it is."""
    if not model or not wants_one_model(shape):
        return shape
    claims = [_of_model(one, model) if one.one_model else one for one in shape.claims]
    return replace(shape, claims=tuple(claims))


def _of_model(claim: GpuClaim, model: str) -> GpuClaim:
    preferred = claim.preferred
    if not claim.takes(model):
        # Other members have this model and this one denies it: it fits nowhere, with that reason.
        preferred = preferred or PreferredModels()
        if not preferred.denies(model):
            preferred = replace(preferred, denied=(*preferred.denied, model))
    return replace(claim, models=(model,), preferred=preferred)


def narrowed_all(shapes: Shapes, model: str) -> Shapes:
    """All shapes narrowed; equal ones are counted together."""
    if not model:
        return shapes
    alike: Shapes = Counter()
    for (profile, shape), count in shapes.items():
        alike[profile, narrowed(shape, model)] += count
    return alike


def models_for(shapes: Iterable[tuple[str, Shape]], names: Iterable[str]) -> Iterator[str]:
    """The models to plan such a gang on; "" (any) if no member asks for one model."""
    choosy = [claim for _, shape in shapes for claim in shape.claims if claim.one_model]
    if not choosy:
        yield ""
        return
    yield from (name for name in names if name and any(claim.takes(name) for claim in choosy))


def fix_models(gang: Gang) -> bool:
    """Make waiting members ask for the model that placed ones have; whether that changed any.

    This concerns only members that ask for one model. If the placed ones have several models,
    because they were edited, the most frequent one counts.
    """
    if not any(wants_one_model(shape) for _, shape in gang.shapes):
        return False
    placed = Counter(
        card.model
        for member in gang.members.values()
        if member.role in PLACED and wants_one_model(member.record.pod.shape)
        for card in _of_one_model(member.record)
    )
    model = min(placed, key=lambda name: (-placed[name], name), default="")
    changed = False
    for uid, record in list(gang.waiting.items()):
        shape = narrowed(record.own_shape, model)
        if shape != record.shape:
            record.fixed = shape
            member = gang.members[uid]
            gang.put(uid, replace(member, shape=(member.shape[0], shape)))
            changed = True
    return changed


def _of_one_model(record: Record) -> list[CardCharge]:
    """The cards of a placed member's claims that ask for one model.

    All of its cards if it is not known which claim has which, because the pod was edited.
    """
    if record.allocation is None:
        return []
    parts = claimed_parts(record.pod, record.allocation)
    if parts is None:
        return [*record.allocation.cards]
    return [card for part in parts if part.claim.one_model for card in part.cards]


def wants_one_model(shape: Shape) -> bool:
    """Whether a claim's cards must be of one model, in a gang also those of other members."""
    return any(claim.one_model for claim in shape.claims)


# Chooses a row's cards for members of a gang, near the cards that other members have or will have.
#
# Members are placed one after the other. For their cards to be the best set together, each
# placement gets the positions of the row's board that the gang already has, and the number of
# members to follow.


#: A number of members of one shape.
Some = tuple[Shape, int]
#: The most nodes with members whose links are compared, those with the best scores.
MAX_COMPARED = 16


class GangCards:
    """The cards of one gang's members, by row."""

    def __init__(self, columns: Columns, gang: Gang, among: Collection[int] | None = None) -> None:
        """`among`: only cards of these rows matter."""
        self._columns = columns
        self._slots: dict[int, list[int]] = {}
        for member in gang.members.values() if gang.placed else ():
            node, allocation = member.record.node, member.record.allocation
            if member.role not in PLACED or node is None or allocation is None:
                continue
            row = columns.row_of.get(node)
            if row is not None and (among is None or row in among):
                uuids = columns.uuids[row]
                there = [card.uuid for card in allocation.cards if card.uuid in uuids]
                self.record_cards(row, [uuids.index(uuid) for uuid in there])

    def record_cards(self, row: int, slots: Sequence[int]) -> None:
        """Record that a member got these cards."""
        self._slots.setdefault(row, []).extend(slots)

    def gang_context(
        self, row: int, shape: Shape, here: int, others: Sequence[Some]
    ) -> GangContext | None:
        """The cards that one of `here` members of a shape should be near on this row.

        `others` come to the row after them. None if it makes no difference.
        """
        claims, idle = shape.claims, self._columns.idle_cards.item(row).bit_count()
        largest = int(self._columns.capacity_milli[row].max())
        if not claims or (len(claims) == 1 and _takes_all(claims[0], here, idle, largest)):
            return None
        taken = self._taken(row)
        ahead: tuple[int, ...] = ()
        for claim in claims:
            ahead += _ahead(claim, here, idle, largest)[1:]
        for other, count in others:
            for claim in other.claims:
                ahead += _ahead(claim, count, idle, largest)
        if not taken and not ahead:
            return None
        return GangContext(taken, tuple(sorted(ahead, reverse=True)) if others else ahead)

    def best(self, evaluator: Evaluator, shape: Shape, rows: IntArray, here: int) -> Choice | None:
        """The best place for one of `here` members of a shape.

        It fits at least one of `rows`, (k,) int64. Among rows with members, the one with the most
        bandwidth between its cards and theirs; among equal ones, or without such rows, the one with
        the best score.
        """
        there = [row for row in rows.tolist() if self._taken(row)]
        if not there:
            return evaluator.best_among(shape, rows)
        scores = evaluator.row_scores(shape).take(there)
        found = []
        for at in np.argsort(-scores, kind="stable")[:MAX_COMPARED].tolist():
            choice = evaluator.at(shape, there[at], self.gang_context(there[at], shape, here, ()))
            if choice is not None:
                found.append(choice)
        return max(found, key=self._nearness, default=None)

    def _nearness(self, choice: Choice) -> tuple[int, int]:
        """How many of these cards the gang has already, and the bandwidth to its others."""
        columns, taken = self._columns, self._taken(choice.row)
        cards = self._bits(choice.row, choice.slots)
        sets = columns.boards.sets[columns.board.item(choice.row)]
        return (cards & taken).bit_count(), sets.links(cards, taken)

    def _taken(self, row: int) -> PositionSet:
        """The positions of the row's board where members have cards, as bits."""
        return self._bits(row, self._slots.get(row, ()))

    def _bits(self, row: int, slots: Iterable[int]) -> PositionSet:
        bits = 0
        for slot in slots:
            bits |= self._columns.position_bit.item(row, slot)
        return PositionSet(bits)


def _takes_all(claim: GpuClaim, here: int, idle: int, largest: int) -> bool:
    """Whether members with whole cards take all idle ones, so that the order does not matter.

    `largest` is the largest capacity of a card, in milli.
    """
    if claim.count > 1:
        return claim.exclusive and claim.count == idle
    is_whole = claim.exclusive or (claim.milli == WHOLE_MILLI and largest < 2 * WHOLE_MILLI)
    return is_whole and here >= idle


def _ahead(claim: GpuClaim, members: int, idle: int, largest: int) -> tuple[int, ...]:
    """How many of these idle cards each of so many members takes at most."""
    if claim.exclusive:
        return (claim.count,) * min(members, idle // claim.count)
    on_one = max(largest // max(claim.milli, 1), 1)
    return (1,) * min(claim.count * -(-members // on_one), idle)


# Orders nodes that hold a whole gang: first those with well joined cards, then the fullest.
#
# As for one pod with as many cards: both count with the weights of the profile.


def cards_together(members: list[Some], need: int) -> int:
    """How many idle cards so many of these members take on one node; 0 if unknown.

    Shares of which two fit on a card may go to cards in use.
    """
    cards = 0
    for shape, count in members:
        each = _cards_of(shape)
        if not each:
            return 0
        cards += each * (need if len(members) == 1 else count)
    several = len(members) > 1 and sum(count for _, count in members) > need
    return 0 if several else cards


def best_first(
    boundary: Boundary,
    profile: Profile,
    columns: Columns,
    rows: IntArray,
    left: IntArray,
    cards: int,
) -> IntArray:
    """These rows, (k,) int64, for a gang that takes so many idle cards on one of them, best first.

    `left`, (k,) int64, is how many more pods each would then take. Raises PluginFailed.
    """
    points = np.zeros(len(rows), np.int64)
    asked = SomeRows(columns, rows)
    for plugin, weight in profile.gang_scores if 1 < cards <= columns.width else ():
        points += weight * gang_scores(boundary, plugin, cards, asked)
    points -= MAX_SCORE * left // max(int(left.max(initial=0)), 1)
    order: IntArray = rows[np.lexsort((rows, left, -points))]
    return order


def _cards_of(shape: Shape) -> int:
    """How many idle cards a pod takes; 0 if unknown."""
    if any(not claim.exclusive and 2 * claim.milli <= WHOLE_MILLI for claim in shape.claims):
        return 0
    return sum(claim.count for claim in shape.claims)


# Topology domains that hold a gang, and the order in which to fill their rows.
#
# A domain is a node, or the nodes with the same values of labels: rack, zone, region. The narrowest
# domain with room for all members is taken. Among several, it is the one that is then fullest, so
# that large ones stay free for larger gangs. Within a domain, as few domains of each narrower level
# are used as possible, nodes included.
#
# Domains have numbers, and NOWHERE is a row without one. A level is (rows,) int64: each row's
# domain.


#: How many pods of each profile and shape.
WantedPlaces = Mapping[tuple[str, Shape], int]
NOWHERE = -1
#: The most lists of labels whose domains are cached: pods may name any.
MAX_KNOWN = 64
_Sums = dict[tuple[str, Shape], NDArray[np.float64]]


@dataclass(slots=True)
class _KnownPlaces:
    """The domains of all rows under some labels, as of a state of the node objects."""

    relabelled: int
    layout: int
    levels: list[IntArray]


class GangPlaces:
    """Finds domains; caches the domains of each row, which rarely change.

    Rows are (k,) int64, numbers of the tables' rows.
    """

    def __init__(self, ledger: Ledger, profiles: Mapping[str, Profile], boundary: Boundary) -> None:
        self._boundary = boundary
        self._ledger = ledger
        self._profiles = profiles
        self._known: dict[tuple[str, ...], _KnownPlaces] = {}

    def that_hold(
        self,
        snapshot: Snapshot,
        wanted: WantedPlaces,
        need: int,
        at: Sequence[int],
        within: str = "",
    ) -> Iterator[IntArray]:
        """The domains that may hold `need` of these pods, by their rows, (k,) int64.

        The best first.

        Domains with members already, on the rows `at`, come before all others. Nothing if no pod
        claims a card or the profile has no Locality plugin: then scores decide. With `within`, only
        domains that all members may be in. Raises PluginFailed.
        """
        levels = self._levels_for(wanted) or []
        has_nodes = bool(levels)
        rooms = {kind: snapshot.rooms[kind[0]].rows(kind[1]) for kind in wanted}
        if within:
            widest = self._places_by((within,))[0]
            levels = [widest, *(_split(level, widest) for level in levels)]
            allowed = self.allowed(within, at)
            rooms = {kind: room * allowed for kind, room in rooms.items()}
        for with_members in (True, False) if at else (False,):
            for level in reversed(levels):
                sums = _sums(level, rooms)
                most = [np.minimum(sums[kind], count) for kind, count in wanted.items()]
                found = np.flatnonzero(np.sum(most, axis=0) >= need)
                if at:
                    found = found[np.isin(found, level[list(at)]) == with_members]
                total = np.sum([*sums.values()], axis=0)
                if has_nodes and level is levels[-1] and not with_members:
                    # Without a wider domain, the number of a node's domain is that of its row.
                    rows = np.flatnonzero(np.isin(level, found)) if within else found
                    yield from self._best_nodes(wanted, need, rows, total[level[rows]])
                    continue
                for place in found[np.argsort(total[found], kind="stable")].tolist():
                    yield np.flatnonzero(level == place)

    def roomiest(
        self, snapshot: Snapshot, wanted: WantedPlaces, at: Sequence[int], within: str
    ) -> IntArray:
        """The rows, (k,), of the domain of this label with the most room for these pods."""
        allowed = self.allowed(within, at)
        rooms = {kind: snapshot.rooms[kind[0]].rows(kind[1]) * allowed for kind in wanted}
        level = self._places_by((within,))[0]
        sums = _sums(level, rooms)
        most = np.sum([np.minimum(sums[kind], count) for kind, count in wanted.items()], axis=0)
        if not len(most):
            return np.zeros(0, np.int64)
        rows: IntArray = np.flatnonzero(level == int(np.argmax(most)))
        return rows

    def allowed(self, within: str, at: Sequence[int]) -> NDArray[np.bool_]:
        """Which rows members may use, (rows,) bool, if they must share one value of a label."""
        level = self._places_by((within,))[0]
        somewhere: NDArray[np.bool_] = level != NOWHERE
        if not at:
            return somewhere
        ids = np.unique(level[list(at)])
        # Members that are in several domains already leave no room for others.
        there: NDArray[np.bool_] = level == ids.item(0)
        return somewhere & there if len(ids) == 1 else np.zeros_like(somewhere)

    def each(self, within: str, at: Sequence[int]) -> list[IntArray]:
        """The rows, (k,), of each domain of this label where members may be."""
        level = self._places_by((within,))[0]
        ids = np.unique(level[self.allowed(within, at)])
        return [np.flatnonzero(level == place) for place in ids.tolist()]

    def in_order(
        self, snapshot: Snapshot, kind: tuple[str, Shape], need: int, rows: IntArray | None
    ) -> list[int]:
        """The order in which to fill these rows, so that few domains are used.

        `rows` is (k,) int64, or None for all rows. Empty where scores decide.
        """
        levels = self._levels_for({kind: need})
        if levels is None:
            return []
        if rows is not None and len(rows) == 1:
            return [rows.item()]
        profile, shape = kind
        rows = levels[-1] if rows is None else rows
        room = snapshot.rooms[profile].rows(shape).take(rows)
        scores = snapshot.evaluators[profile].row_scores(shape).take(rows)
        # Of equal room, the row with the best score.
        order = rows[np.lexsort((rows, -scores, -room))]
        return _filled(order, snapshot.rooms[profile].rows(shape), levels, need)

    def nearest(
        self,
        snapshot: Snapshot,
        kind: tuple[str, Shape],
        at: Sequence[int],
        allowed: NDArray[np.bool_] | None = None,
    ) -> IntArray:
        """The rows, (k,), that fit and are as near to the rows `at` as possible.

        Only rows in `allowed`, (rows,) bool. No rows if none fits, or if all are allowed and the
        profile has no Locality plugin.
        """
        profile, shape = kind
        fits = snapshot.evaluators[profile].row_scores(shape) >= 0
        if allowed is not None:
            fits &= allowed
        for level in reversed(self._levels_for({kind: 1}) or []) if at else ():
            ids = level[list(at)]
            rows = np.flatnonzero(fits & np.isin(level, ids[ids != NOWHERE]))
            if len(rows):
                return rows
        return np.flatnonzero(fits) if allowed is not None else np.zeros(0, np.int64)

    def wishes(self, profile: str) -> bool:
        """Whether the profile has a Locality plugin."""
        return self._profiles[profile].locality is not None

    def labels(self, profile: str) -> tuple[str, ...] | None:
        """The labels of topology domains; None to leave nearness to scores.

        Raises PluginFailed.
        """
        locality = self._profiles[profile].locality
        return None if locality is None else places(self._boundary, locality)

    def rows_of(self, names: Sequence[NodeName]) -> list[int]:
        """The rows of nodes, without unknown nodes."""
        row_of = self._ledger.columns.row_of
        return [row_of[name] for name in dict.fromkeys(names) if name in row_of]

    def _best_nodes(
        self, wanted: WantedPlaces, need: int, rows: IntArray, room: NDArray[np.float64]
    ) -> Iterator[IntArray]:
        """The nodes with room for so many of these pods, best first."""
        cards = cards_together([(shape, count) for (_, shape), count in wanted.items()], need)
        profile, left = self._profiles[next(iter(wanted))[0]], room.astype(np.int64) - need
        if len(rows):
            found = best_first(self._boundary, profile, self._ledger.columns, rows, left, cards)
            yield from found.reshape(-1, 1)

    def _levels_for(self, wanted: WantedPlaces) -> list[IntArray] | None:
        """The domains of each row, widest level first, nodes last; None if scores decide."""
        if not any(shape.claims for _, shape in wanted):
            return None
        labels = self.labels(next(iter(wanted))[0])
        return None if labels is None else self._places_by(labels)

    def _places_by(self, labels: tuple[str, ...]) -> list[IntArray]:
        """The domains of each row by these labels, widest first, and last the rows."""
        ledger = self._ledger
        known = self._known.get(labels)
        now = (ledger.relabelled.end, ledger.columns.layout)
        if known is None or (known.relabelled, known.layout) != now:
            levels = [*_places(ledger.columns, labels), np.arange(ledger.columns.rows)]
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            known = self._known[labels] = _KnownPlaces(*now, levels)
        return known.levels


def places_by(columns: Columns, label: str) -> IntArray:
    """The number of each row's domain by one label, (rows,); NOWHERE if the node lacks it."""
    return next(_places(columns, (label,)))


def _sums(level: IntArray, rooms: Mapping[tuple[str, Shape], IntArray]) -> _Sums:
    """The room in each domain of a level, by its number."""
    somewhere = np.flatnonzero(level != NOWHERE)
    ids = level[somewhere]
    return {
        kind: np.bincount(ids, room[somewhere]).astype(np.float64) for kind, room in rooms.items()
    }


def _split(level: IntArray, by: IntArray) -> IntArray:
    """The intersections of the domains of two levels."""
    _, both = np.unique(level * (len(by) + 1) + by, return_inverse=True)
    return np.where((level == NOWHERE) | (by == NOWHERE), NOWHERE, both)


def _places(columns: Columns, labels: Sequence[str]) -> Iterator[IntArray]:
    """For each label the number of each row's domain; NOWHERE if the node lacks the label.

    Racks of one name in two zones are two domains; a fabric's name is unique.
    """
    path = np.zeros(columns.rows, np.int64)
    for key in labels:
        label = columns.label(key)
        codes = label.codes
        missing = (codes == 0) | (codes == label.values.get("", 0))
        if key == CLIQUE:
            yield np.where(missing, NOWHERE, codes)
            continue
        _, path = np.unique(path * len(label.values) + codes, return_inverse=True)
        yield np.where(missing, NOWHERE, path)


def _filled(rows: IntArray, room: IntArray, levels: Sequence[IntArray], need: int) -> list[int]:
    """The rows, which are sorted by room, grouped by domain from the widest level on."""
    if len(levels) == 1:
        return [rows.item(at) for at in _few(room[rows], need)]
    ids = levels[0][rows]
    places, inverse = np.unique(ids, return_inverse=True)
    if len(places) == 1:
        return _filled(rows, room, levels[1:], need)
    sums = np.bincount(inverse, room[rows]).astype(np.int64)
    order = np.argsort(-sums, kind="stable")
    filled: list[int] = []
    for place in order[_few(sums[order], need)].tolist():
        filled += _filled(rows[inverse == place], room, levels[1:], max(need, 1))
        need -= sums.item(place)
    return filled


def _few(room: IntArray, need: int) -> list[int]:
    """The order in which to take rooms, sorted from largest to smallest, so that few are used.

    The largest first; the remainder goes where it fits most tightly.
    """
    taken = 0
    while taken < len(room) and need > room.item(taken):
        need -= room.item(taken)
        taken += 1
    if taken == len(room) or need <= 0:
        return list(range(len(room)))
    smallest = room.item(int(np.count_nonzero(room >= need)) - 1)
    last = max(taken, int(np.argmax(room == smallest)))
    rest = [at for at in range(taken, len(room)) if at != last]
    return [*range(taken), last, *rest]
