"""What each node says of a waiting pod; nodes that say the same are one verdict.

Which nodes refuse the pod, and for which reasons, is of the instant of the first step. Further
steps find what rows lack in numbers, what is kept from the pod, and how many of a gang would fit.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kubeshare_py.cluster.columns import CARD_COLUMNS, NODE_COLUMNS, Columns, IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import OneRow, SomeRows
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.pod import Shape, by_claim
from kubeshare_py.domain.values import replace
from kubeshare_py.framework import answer_checks
from kubeshare_py.framework.boundary import Boundary, PluginFailed
from kubeshare_py.framework.claim_fit import fits_claim, names_cards
from kubeshare_py.framework.diagnosis import JointAmount, joint_needs
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.points import Explain
from kubeshare_py.framework.prepared_claims import NOT_TOGETHER
from kubeshare_py.framework.reasons import FRAMEWORK, NO_NODE
from kubeshare_py.framework.scheduler_profile import AtPoint, Profile
from kubeshare_py.framework.snapshot import ClusterReading, Snapshot
from kubeshare_py.scheduling.explain.pod_view import containers_by_claim
from kubeshare_py.scheduling.explain.question import (
    UNNAMED,
    Sees,
    Steps,
    reservation_name,
    sees_all,
)
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.pod_groups.gang_places import ProfileShape, models_for
from kubeshare_py.scheduling.preemption.victim_search import TrialPlacement, TrialRows
from kubeshare_py.scheduling.queue.asked_shapes import not_ready_on
from kubeshare_py.scheduling.queue.gangs import Gang, Gangs
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.reservations import (
    Contender,
    Reservation,
    ReservationCause,
    contender_with,
    needed,
)
from kubeshare_py.views.figures import of_cards, scaling_words
from kubeshare_py.views.view import NodeWhy

# What plugins say that single rows lack; each is asked once for all rows that look alike to it.
#
# A row that a plugin is asked about notes what the plugin reads of it. An answer follows from what
# was read, so it holds for every other row with the same values there, and a question about a whole
# cluster costs as many calls as there are different rows, not as there are nodes.


#: What may be read of a row whose value is that of columns: the column of the same name.
_COLUMNS = frozenset((*NODE_COLUMNS, *CARD_COLUMNS, "free", "allocatable", "present"))
#: What is the same for all rows: names and values by number, whose numbers are in columns.
_COMMON = frozenset(("models", "tag_counts", "taints", "features", "resources", "boards"))
_UUIDS, _PORTS = "uuids", "host_ports"
#: The slot of what is not about a card.
NO_SLOT = -1


@dataclass(frozen=True, slots=True)
class RowAnswer:
    """What a plugin says that a row lacks: slots of cards, or NO_SLOT, and what is lacking.

    The subject of a card's shortfall is left out. `failure` says that the plugin failed.
    """

    lacks: tuple[tuple[int, Shortfall], ...] = ()
    failure: str = ""


class NotedRow(OneRow):
    """One row that notes the names of what is read of it."""

    __slots__ = ("_read",)
    _read: set[str]

    def __init__(self, columns: Columns, row: int) -> None:
        super().__init__(columns, row)
        _put_read(self, set())

    def __getattribute__(self, name: str) -> object:
        if name[0] != "_":
            self._read.add(name)
        return object.__getattribute__(self, name)


_put_read = vars(NotedRow)["_read"].__set__


class RowAnswers:
    """What one plugin says of rows, about one shape; `asked` is how often it was asked.

    The answers are valid as long as the columns have the same `layout`.
    """

    def __init__(self, at_point: AtPoint[Explain], shape: Shape, *, trusted: bool) -> None:
        """`trusted` plugins read uuids only to say which card they mean, if no claim has some."""
        self._plugin, self._shape = at_point.plugin, shape
        self._by_slot = trusted and not any(map(names_cards, shape.claims))
        #: By the names of what was read, by the values that were read.
        self._known: dict[frozenset[str], dict[Hashable, RowAnswer]] = {}
        #: Each different answer once, so that equal answers are the same object.
        self._different: dict[RowAnswer, RowAnswer] = {}
        self.asked = 0

    def known(self, columns: Columns, row: int) -> RowAnswer | None:
        """The answer about a row that looks like one asked about before."""
        for read, answers in self._known.items():
            found = answers.get(self._values(columns, row, read))
            if found is not None:
                return found
        return None

    def ask(self, boundary: Boundary, columns: Columns, row: int) -> RowAnswer:
        """Ask the plugin about this row."""
        self.asked += 1
        noted = NotedRow(columns, row)
        try:
            lacks = boundary.call(self._plugin, "Explain", None, self._listed, noted)
            slots = {uuid: slot for slot, uuid in enumerate(columns.uuids[row])}
            answer = RowAnswer(tuple(_by_slot(one, slots) for one in lacks))
        except PluginFailed as failure:
            answer = RowAnswer(failure=str(failure))
        read = frozenset(noted._read) - _COMMON
        answer = self._different.setdefault(answer, answer)
        self._known.setdefault(read, {})[self._values(columns, row, read)] = answer
        return answer

    def _listed(self, row: NotedRow) -> list[Shortfall]:
        return answer_checks.each(self._plugin.explain(self._shape, row), Shortfall)

    def _values(self, columns: Columns, row: int, read: frozenset[str]) -> Hashable:
        """The values of what was read, on this row; of anything else, the row's own number."""
        found: list[Hashable] = []
        for name in read:
            if name in _COLUMNS:
                found.append(getattr(columns, name)[row].tobytes())
            elif name == _UUIDS and self._by_slot:
                # Flags of slots without a card are those of cards that are not in the inventory.
                found.append(len(columns.uuids[row]))
            elif name == _PORTS:
                found.append(frozenset(columns.pods.host_ports(row)))
            else:
                found.append(row)
        return tuple(found)


def _by_slot(lack: Shortfall, slots: Mapping[GpuUuid, int]) -> tuple[int, Shortfall]:
    slot = slots.get(GpuUuid(lack.subject), NO_SLOT)
    return (slot, lack) if slot == NO_SLOT else (slot, replace(lack, subject=""))


# What nodes lack to take a waiting pod, in numbers, as the profile's plugins say it.


#: The most calls of plugins for one pod, about 30 µs each (a card filter's 200 µs). Where nodes are
#: so different that this is too few, only reasons are given for the rest.
MAX_CALLS = 256

_UNITS = {
    JointAmount.CARDS: ("gpus", "count"),
    JointAmount.SHARE: ("gpu", "milli"),
    JointAmount.MEMORY: ("gpu memory", "bytes"),
}


@dataclass(frozen=True, slots=True)
class _PluginQuestion:
    """A plugin, what it is asked about, and the containers whose claim that is.

    `only_if_refused` is the name of a filter of nodes: it has nothing to say of nodes that it lets
    pass.
    """

    answers: RowAnswers
    containers: tuple[str, ...]
    only_if_refused: str


@dataclass(frozen=True, slots=True)
class RowLacks:
    """What the plugins say of one row: an answer for each question, and what claims lack together.

    `alike` is equal for rows that lack the same, on whichever of their cards.
    """

    answers: tuple[RowAnswer, ...] = ()
    joint: tuple[Shortfall, ...] = ()
    alike: Hashable = ()


class Shortfalls:
    """Asks the plugins of one pod's profile what rows lack.

    Card filters are asked about each claim alone. A plugin is asked once for all rows that look
    alike to it. `calls` counts.
    """

    def __init__(self, profile: Profile, record: Record) -> None:
        self.calls = 0
        self._boundary = Boundary()
        self._profile, self._record, self._shape = profile, record, record.shape
        self._layout = -1
        self._questions: list[_PluginQuestion] = []
        self._alike: dict[tuple[int, ...], Hashable] = {}

    def of(
        self, columns: Columns, row: int, refusing: Collection[str], reasons: Sequence[str]
    ) -> RowLacks | None:
        """What a row lacks; None if that would take more than MAX_CALLS.

        `refusing` are the names of the plugins that refuse it, `reasons` what they say: what claims
        lack together is added if they say so.
        """
        if columns.layout != self._layout:
            self._layout = columns.layout
            self._questions, self._alike = [*_questions(self._profile, self._record)], {}
        found = []
        for question in self._questions:
            name = question.only_if_refused
            if name and name not in refusing and FRAMEWORK not in refusing:
                found.append(_NOTHING)
                continue
            answer = question.answers.known(columns, row)
            if answer is None:
                if self.calls >= MAX_CALLS:
                    return None
                self.calls += 1
                answer = question.answers.ask(self._boundary, columns, row)
            found.append(answer)
        joint = self._joint(columns, row, reasons)
        return RowLacks(tuple(found), joint, (self._likeness(found), joint))

    def said(self, lacks: RowLacks, ledger: Ledger, row: int) -> list[Shortfall]:
        """The shortfalls of this row; for a card that could never hold a claim, only that reason.

        For a plugin that fails, that it failed. Cards are in the order of their indexes.
        """
        uuids, name = ledger.columns.uuids[row], ledger.columns.names[row]
        gpus = ledger.inventory.get(name, ()) if name is not None else ()
        indexes = {gpu.uuid: gpu.index for gpu in gpus}

        def index(lack: tuple[int, Shortfall]) -> int:
            return NO_SLOT if lack[0] == NO_SLOT else indexes.get(uuids[lack[0]], len(indexes))

        found = dict.fromkeys(
            replace(
                one,
                subject=one.subject if slot == NO_SLOT else uuids[slot],
                containers=question.containers,
            )
            for question, answer in zip(self._questions, lacks.answers, strict=True)
            for slot, one in sorted(answer.lacks, key=index)
        )
        failed = dict.fromkeys(one.failure for one in lacks.answers if one.failure)
        failures = [Shortfall(reason=failure) for failure in failed]
        hopeless = {(one.containers, one.subject) for one in found if one.asked is None}
        if any(not subject for _, subject in hopeless):
            return [one for one in found if one.asked is None] + failures
        kept = [
            one
            for one in found
            if one.asked is None
            or not hopeless & {(one.containers, one.subject), ((), one.subject)}
        ]
        return [*kept, *lacks.joint, *failures]

    def _joint(self, columns: Columns, row: int, reasons: Sequence[str]) -> tuple[Shortfall, ...]:
        together = next((text for text in reasons if text.startswith(NOT_TOGETHER)), "")
        if not together:
            return ()
        self.calls += 1
        return tuple(_together(self._record.shape, columns, row, together))

    def _likeness(self, answers: Sequence[RowAnswer]) -> Hashable:
        """Equal for answers that differ only in which cards they are about."""
        same = tuple(map(id, answers))  # an answer is kept, and is the same object if it is equal
        if same not in self._alike:
            cards: dict[int, list[Hashable]] = {}
            for number, answer in enumerate(answers):
                for slot, one in answer.lacks:
                    cards.setdefault(slot, []).append((number, one))
            node = tuple(cards.pop(NO_SLOT, ()))
            failures = tuple(one.failure for one in answers)
            counts = Counter(tuple(one) for one in cards.values())
            self._alike[same] = (node, failures, frozenset(counts.items()))
        return self._alike[same]


_NOTHING = RowAnswer()


def _together(shape: Shape, columns: Columns, row: int, reason: str) -> Iterator[Shortfall]:
    """How much less is free than all claims take; nothing if it is only badly divided."""
    rows = SomeRows(columns, np.array([row]))
    fitting = [fits_claim(claim)(rows) for claim in shape.claims]
    needs = joint_needs(shape, rows, fitting, free=True)
    lacking = [need for need in needs if need.needed.item() > need.there.item()]
    if len(lacking) > 1 and not any(claim.asks_memory for claim in shape.claims):
        # The memory goes with the share, which is lacking.
        lacking = [need for need in lacking if need.amount is not JointAmount.MEMORY]
    for need in lacking:
        resource, unit = _UNITS[need.amount]
        asked, free = need.needed.item(), need.there.item()
        yield Shortfall(reason=reason, resource=resource, asked=asked, free=free, unit=unit)


def _questions(profile: Profile, record: Record) -> Iterator[_PluginQuestion]:
    """Each plugin that explains, with each thing that it is asked about."""
    shape = record.shape
    by_container = [*zip(by_claim(shape), containers_by_claim(record) or [()], strict=True)]
    for one in profile.explains:
        trusted = profile.trusts(one.plugin)
        name = "" if one.of_claims else one.filters_as
        for asked, containers in by_container if one.of_claims else [(shape, ())]:
            yield _PluginQuestion(RowAnswers(one, asked, trusted=trusted), containers, name)


# How many members of a gang each node would take now: for people, on private rows.


#: The most members times nodes that are tried, about 20 µs each; further nodes are left out.
MAX_TRIED = 20_000
#: The most of them in one step.
TRIED_A_STEP = 400


def headroom_on_nodes(
    machine: Machine, gang: Gang, members: Sequence[Record]
) -> Steps[dict[NodeName, int]]:
    """How many of these members each node alone would take, at most as many as the gang needs.

    Nodes that take none are left out; empty if a plugin fails.
    """
    snapshot, changes, need = machine.reading().snapshots.actual, machine.changes, gang.need
    models = list(models_for(gang.shapes, snapshot.tables.columns.model_names)) or [""]
    found: Counter[NodeName] = Counter()
    try:
        for model in models:
            names = _fitting(snapshot, members, model)[: max(1, MAX_TRIED // max(1, need))]
            yield
            size = max(1, TRIED_A_STEP // max(1, need))
            for start in range(0, len(names), size):
                if machine.changes != changes:
                    snapshot, changes = machine.reading().snapshots.actual, machine.changes
                some = names[start : start + size]
                for name, room in _on_model(snapshot, need, members, model, some).items():
                    found[name] = max(found[name], room)
                yield
    except PluginFailed:
        return {}
    return dict(found)


def _kinds(
    snapshot: Snapshot, members: Sequence[Record], model: str
) -> dict[ProfileShape, list[Record]]:
    none = TrialRows(snapshot, np.zeros(0, np.int64), model)
    kinds: dict[ProfileShape, list[Record]] = {}
    for record in members:
        kinds.setdefault(none.kind_of(record), []).append(record)
    return kinds


def _fitting(snapshot: Snapshot, members: Sequence[Record], model: str) -> list[NodeName]:
    """The nodes that take some member."""
    kinds, names = _kinds(snapshot, members, model), snapshot.tables.columns.names
    fits = [np.flatnonzero(snapshot.evaluators[one].row_scores(shape) >= 0) for one, shape in kinds]
    found = (names[row] for row in np.unique(np.concatenate(fits)).tolist())
    return [name for name in found if name is not None]


def _on_model(
    snapshot: Snapshot,
    need: int,
    members: Sequence[Record],
    model: str,
    names: Sequence[NodeName],
) -> dict[NodeName, int]:
    """How many members these nodes take if all cards are of one model; "" leaves it open."""
    row_of = snapshot.tables.columns.row_of
    rows = np.array(sorted(row_of[name] for name in names if name in row_of), np.int64)
    trial, room = TrialRows(snapshot, rows, model), np.zeros(len(rows), np.int64)
    for kind, records in _kinds(snapshot, members, model).items():
        evaluator = snapshot.evaluators[kind[0]]
        evaluator.row_scores(kind[1])  # so that what is prepared for the shape is kept
        _fill(trial, evaluator, kind, records, need, room)
    return {name: room.item(at) for at, name in enumerate(trial.names()) if room.item(at)}


def _fill(
    trial: TrialRows,
    evaluator: Evaluator,
    kind: ProfileShape,
    records: Sequence[Record],
    need: int,
    room: IntArray,
) -> None:
    """Put members of a kind on each row separately until no more fit."""
    left = trial.everywhere[room < need]
    for record in records:
        if not len(left):
            return
        scores, slots = evaluator.score_rows(kind[1], trial.rows.take(left))
        fits = np.flatnonzero(scores >= 0)
        seated = []
        for at in fits.tolist():
            position = left.item(at)
            chosen: tuple[int, ...] = (slots.item(at),) if slots is not None else ()
            if slots is None:
                chosen = evaluator.cards_of(kind[1], trial.rows.take(left[at : at + 1]))
            seated.append(TrialPlacement(record, position, chosen))
        trial.occupy(seated, 1)
        left = left[fits]
        room[left] += 1
        left = left[room[left] < need]


# For which pods cards and room are kept from a waiting pod, in words.
#
# For preemptors, and for pods that were deleted by force and may still run.


def kept_from(
    machine: Machine, record: Record, sees: Sees = sees_all
) -> dict[NodeName, tuple[str, ...]]:
    """By node, what is kept there for others; they are named if the reader may see them."""
    contender = _contender(machine.gangs, record)
    found = _lingering(machine, sees)
    for reservation in machine.reservations.holders:
        if reservation.cause is ReservationCause.PREEMPTS and not reservation.is_open_to(contender):
            for node, cards in _cards(machine.ledger, reservation).items():
                kept = (
                    f"{_are_kept(cards)} for {reservation_name(machine, reservation, sees)} by "
                    "preemption"
                )
                found[node] = (*found.get(node, ()), kept)
    return found


def _lingering(machine: Machine, sees: Sees) -> dict[NodeName, tuple[str, ...]]:
    """By node, what pods that were deleted by force keep there."""
    found: dict[NodeName, tuple[str, ...]] = {}
    for one in machine.lingering.pods():
        charge = machine.ledger.lingering[one.record.pod.uid]
        cards = charge.allocation.cards if charge.allocation is not None else ()
        held = _are(len(cards) + charge.native.on_unknown_cards, "held")
        pod = f"pod {one.key}" if sees(one.key.namespace) else UNNAMED
        left_s = machine.time_until_s(one.until)
        kept = f"{held} for {left_s} s more after the forced deletion of {pod}"
        found[charge.node] = (*found.get(charge.node, ()), kept)
    return found


def _contender(gangs: Gangs, record: Record) -> Contender:
    gang = gangs.of(record.pod.uid)
    if isinstance(gang, Gang) and gang.needs_quorum and record.pod.uid in gang.waiting:
        return contender_with(gang, needed(gang, {}))
    return contender_with(record.pod.uid, [record])


def _cards(ledger: Ledger, reservation: Reservation) -> Counter[NodeName]:
    """The number of cards that are kept, by node; 0 where it is only other resources."""
    charges = [ledger.reservations[uid] for uid in (*reservation.uids, *reservation.beside)]
    cards = {
        (charge.node, card.uuid)
        for charge in charges
        for card in (charge.allocation.cards if charge.allocation is not None else ())
    }
    found = Counter({charge.node: 0 for charge in charges})
    found.update(node for node, _ in cards)
    return found


def _are_kept(cards: int) -> str:
    return _are(cards, "kept") if cards else "room is kept"


def _are(cards: int, what: str) -> str:
    return f"1 card is {what}" if cards == 1 else f"{cards} cards are {what}"


# What each node says of a waiting pod; nodes that say the same are one verdict.
#
# Which nodes refuse the pod, and for which reasons, is of the instant of the first step. What their
# cards lack is of the step that looks at them.


#: What a step may cost, where a node costs 1, about 50 µs, and a call of a plugin CALL_COST.
STEP_COST, CALL_COST = 100, 8


@dataclass(frozen=True, slots=True)
class _MaskMeaning:
    """What a mask of reasons means: their texts, and the plugins that give them."""

    reasons: tuple[str, ...]
    plugins: frozenset[str]
    resolvable: bool


@dataclass(slots=True)
class _NodesAlike:
    """A verdict without names, and the nodes that have it."""

    verdict: NodeWhy
    names: list[str] = field(default_factory=list)


def node_whys(machine: Machine, record: Record, sees: Sees) -> Steps[tuple[NodeWhy, ...]]:
    """The verdicts, by the name of their first node. The pod must wait."""
    reading = machine.reading()
    profile = reading.evaluators[record.pod.scheduler_name].profile
    masks, refusals, layout = *_masks(reading, record), machine.ledger.columns.layout
    kept = kept_from(machine, record, sees)
    yield
    room = yield from _room(machine, record)
    shortfalls, verdicts = Shortfalls(profile, record), dict[Hashable, _NodesAlike]()
    # Nearest misses first: their numbers say most, if there are too many for all.
    order = sorted(masks, key=lambda name: (masks[name] > 0, not refusals[masks[name]].resolvable))
    cost, ledger = 0, machine.ledger.for_reading()
    for name in order:
        if cost >= STEP_COST:
            yield
            cost, ledger = 0, machine.ledger.for_reading()
            if ledger.columns.layout != layout:  # rows and masks have other numbers
                return (yield from node_whys(machine, record, sees))
        row = ledger.columns.row_of.get(name)
        if row is None:
            continue  # it left meanwhile
        refusal, calls = refusals[masks[name]], shortfalls.calls
        lacks = (
            shortfalls.of(ledger.columns, row, refusal.plugins, refusal.reasons)
            if masks[name]
            else RowLacks()
        )
        cost += 1 + CALL_COST * (shortfalls.calls - calls)
        verdict = NodeWhy(
            name="",
            fits=not masks[name],
            headroom=None if room is None else room.get(name, 0),
            reasons=refusal.reasons,
            not_ready=not_ready_on(ledger, row, record.shape),
            kept=kept.get(name, ()),
            scaled=_scaled(ledger, name) if record.shape.claims else (),
        )
        alike = (verdict, None if lacks is None else lacks.alike)
        if alike not in verdicts:
            said = shortfalls.said(lacks, ledger, row) if lacks is not None else ()
            verdicts[alike] = _NodesAlike(replace(verdict, shortfalls=tuple(said)))
        verdicts[alike].names.append(name)
    found = [_named(verdict) for verdict in verdicts.values()]
    return tuple(sorted(found, key=lambda node: node.name))


def _named(verdict: _NodesAlike) -> NodeWhy:
    """The verdict with its nodes; the first one asked about has the cards of its shortfalls."""
    first, *others = verdict.names
    return replace(verdict.verdict, name=first, alike=tuple(sorted(others)))


def _masks(
    reading: ClusterReading, record: Record
) -> tuple[dict[NodeName, int], dict[int, _MaskMeaning]]:
    """The mask of each node, in the order of names, and what each of these masks means."""
    evaluator = reading.evaluators[record.pod.scheduler_name]
    found = evaluator.masks(record.shape).tolist()
    row_of = reading.ledger.columns.row_of
    masks = {name: found[row_of[name]] for name in sorted(row_of)}
    masks = {name: mask for name, mask in masks.items() if not mask & NO_NODE}
    refusals = {}
    for mask in {*masks.values()}:
        reasons = evaluator.reasons_in(record.shape, mask)
        refusals[mask] = _MaskMeaning(
            # Several plugins may say the same, for example of a claim that is not there.
            tuple(dict.fromkeys(reason.text for reason in reasons)),
            frozenset(reason.plugin for reason in reasons),
            all(reason.resolvable for reason in reasons),
        )
    return masks, refusals


def _room(machine: Machine, record: Record) -> Steps[dict[NodeName, int] | None]:
    """How many members of the pod's gang each node would take; None if it is in no such gang."""
    gang = machine.gangs.of(record.pod.uid)
    if gang is None or not gang.needs_quorum or not gang.waiting:
        return None
    members = sorted(gang.waiting.values(), key=lambda one: one.key)
    return (yield from headroom_on_nodes(machine, gang, members))


def _scaled(ledger: Ledger, name: NodeName) -> tuple[str, ...]:
    """Which of a node's cards have another capacity than their own size."""
    return of_cards(
        (
            str(gpu.index),
            scaling_words(gpu.memory_bytes, gpu.memory_scaling, gpu.cores_scaling),
        )
        for gpu in ledger.inventory.get(name, ())
    )
