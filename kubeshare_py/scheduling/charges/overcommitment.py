"""Reports about a node's cards and ports: overuse, and cards that fail, come back or vanish."""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kubeshare_py.cluster.card_disputes import Dispute
from kubeshare_py.cluster.charge import is_intruded, least_cards
from kubeshare_py.cluster.columns import ABSENT
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.effects import CardChange, Overuse, ReportCardChange, ReportOvercommit
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.node import AGENT_ANNOTATION, Node
from kubeshare_py.domain.printable import MAX_MESSAGE, beginning
from kubeshare_py.domain.quota import NATIVE_GPU
from kubeshare_py.scheduling.queue.timers import Alarms, Timers

# Overuse of a node's parts, with a sentence about each.
#
# More of a card than it has, an exclusive card of another pod, another pod's port; and cards that
# other nodes claim.


#: The most pods that a text names; the others are counted.
MAX_NAMED = 8
#: The most other nodes that a text names for one card.
MAX_NODES_NAMED = 2

_NO_CARD = GpuUuid("")


class Subject(NamedTuple):
    """A card in one respect, a port, or (neither) the cards that the kubelet gives out itself.

    Or (neither) the cards that other nodes claim, of which one may name hundreds, or the words of
    the node's agent.
    """

    kind: Overuse
    uuid: GpuUuid = _NO_CARD
    port: int = 0


Found = Iterator[tuple[Subject, str]]


def overused(ledger: Ledger, node: NodeName, key_of: Callable[[PodUid], PodKey]) -> Found:
    """All overuse of a node, with a sentence about each that names the pods."""
    for subject, note in _Look(ledger, node, key_of).found():
        yield subject, beginning(note, MAX_MESSAGE)


def ended(subject: Subject) -> str:
    """The sentence for its end."""
    if subject.kind is Overuse.EXCLUSIVITY:
        return f"GPU {subject.uuid} is not shared with a pod that has it for itself any more"
    if subject.kind is Overuse.PORT:
        return f"Pod-manager port {subject.port} is one pod's at most again"
    if subject.kind is Overuse.AGENT:
        return f"The annotation {AGENT_ANNOTATION} can be used again"
    if subject.kind is Overuse.CLAIM:
        return "No other node claims cards of this one any more"
    if not subject.uuid:
        return f"There are enough cards without other pods for those that hold {NATIVE_GPU} again"
    return f"GPU {subject.uuid} is not over-committed any more"


class _Look:
    """One check of one node."""

    def __init__(self, ledger: Ledger, node: NodeName, key_of: Callable[[PodUid], PodKey]) -> None:
        self._ledger = ledger
        self._node = node
        self._key_of = key_of

    def found(self) -> Found:
        columns = self._ledger.columns
        row = columns.row_of.get(self._node)
        if row is None:
            return
        if columns.gpu_count.item(row):
            yield from self._cards(row)
        for port in self._ledger.shared_ports(self._node):
            yield Subject(Overuse.PORT, port=port), self._about_port(port)
        disputes = self._ledger.claims.disputes_of(self._node)
        if disputes:
            yield Subject(Overuse.CLAIM), self._about_disputes(disputes)
        problem = self._about_agent(columns.nodes[row])
        if problem:
            yield Subject(Overuse.AGENT), problem

    def _cards(self, row: int) -> Found:
        columns, unused = self._ledger.columns, 0
        for slot, uuid in enumerate(columns.uuids[row]):
            if columns.flags.item(row, slot) & ABSENT:
                continue
            unused += columns.tenants.item(row, slot) == columns.reservations.item(row, slot)
            held = self._held_too_much(row, slot)
            if held:
                holders = self._names(self._ledger.allocations_of(self._node, uuid))
                note = f"GPU {uuid} is over-committed: {holders} hold {held}"
                yield Subject(Overuse.AMOUNT, uuid), note
            if is_intruded(columns, row, slot):
                yield from self._exclusivity(uuid)
        native = self._ledger.native_on(row)
        least = least_cards(columns, row, native)
        if least > unused:
            there = f"only {unused} cards are without other pods: some card may be in use twice"
            what = "GPUs of device plugins" if native.parts else NATIVE_GPU
            note = f"{self._native_holders()} hold {least} {what}, but {there}"
            yield Subject(Overuse.AMOUNT), note

    def _held_too_much(self, row: int, slot: int) -> str:
        """What pods hold of a card, if that is more than it has; else "". Reservations do not
        count."""
        columns, parts = self._ledger.columns, []
        free_milli = columns.free_milli.item(row, slot) + columns.reserved_milli.item(row, slot)
        free_bytes = columns.free_bytes.item(row, slot) + columns.reserved_bytes.item(row, slot)
        if free_milli < 0:
            milli = columns.capacity_milli.item(row, slot)
            parts.append(f"{milli - free_milli} of {milli} thousandths")
        if free_bytes < 0:
            size = columns.capacity_bytes.item(row, slot)
            parts.append(f"{size - free_bytes} of {size} bytes")
        return " and ".join(parts)

    def _exclusivity(self, uuid: GpuUuid) -> Found:
        """Nothing if the card is exclusive only to a reservation."""
        held = self._ledger.allocations_of(self._node, uuid)
        alone = [uid for uid, allocation in held.items() if allocation.holds_alone(uuid)]
        others = held.keys() - set(alone)
        if not alone:
            return
        note = f"GPU {uuid} is held exclusively by {self._names(alone)}"
        note += f", but also by {self._names(others)}" if others else ", by each of them"
        yield Subject(Overuse.EXCLUSIVITY, uuid), note

    def _about_port(self, port: int) -> str:
        charges = self._ledger.charges_on(self._node).items()
        holders = [uid for uid, one in charges if one.allocation and one.allocation.port == port]
        return f"pod-manager port {port} is held by {self._names(holders)} at once"

    def _about_disputes(self, disputes: Mapping[GpuUuid, Dispute]) -> str:
        texts = []
        for uuid, dispute in [*disputes.items()][:MAX_NAMED]:
            others = [party for party in dispute.parties if party != self._node]
            named = _some(others, MAX_NODES_NAMED)
            where = "on neither" if len(others) == 1 else "on none of them"
            if dispute.keeper is not None:
                where = "here" if dispute.keeper == self._node else f"on {dispute.keeper}"
            texts.append(f"{uuid} (by {named}, counts {where})")
        return "cards are claimed by other nodes too: " + _some(texts, MAX_NAMED, len(disputes))

    def _about_agent(self, node: Node | None) -> str:
        """Why words of the node's agent do not count; "" if all of them do."""
        if node is None:
            return ""
        claims, picks = self._ledger.claims, node.agent.picks or ()
        foreign = sorted(
            {card for pick in picks for card in pick.cards if claims.is_elsewhere(card, node.name)}
        )
        if foreign:
            return f"{AGENT_ANNOTATION} names cards of other nodes: {_some(foreign, MAX_NAMED)}"
        return node.agent.problem

    def _native_holders(self) -> str:
        charges = self._ledger.charges_on(self._node).items()
        return self._names([uid for uid, one in charges if one.native.on_unknown_cards])

    def _names(self, uids: Collection[PodUid]) -> str:
        return _some(sorted(str(self._key_of(uid)) for uid in uids), MAX_NAMED)


def _some(texts: Sequence[str], most: int, count: int | None = None) -> str:
    """The first texts, and how many more there are of `count` (default: the number of texts)."""
    more = (len(texts) if count is None else count) - most
    return ", ".join(texts[:most]) + (f" and {more} more" if more > 0 else "")


# When and how often overuse of a node's cards and ports is reported.
#
# This scheduler places nothing beyond what is free; other clients may (a pod created on a node with
# an allocation of its own, a native GPU pod, a late leader), and cards may shrink. Each card and
# port is reported at most every ten seconds.


SPACING_S = 10.0
#: Seconds between repeated reports while it lasts: events live for an hour.
REMINDER_S = 1800.0
#: The most nodes per iteration, about 20 µs each.
NODES_PER_ITERATION = 50
_RIGHT = ""


@dataclass(slots=True)
class _LastReport:
    """The last report of one subject, when (s), and whether it is due to be checked again."""

    note: str
    at: float
    is_due: bool = False


class Overcommitment:
    """Checks the nodes that the ledger names."""

    def __init__(self, ledger: Ledger, key_of: Callable[[PodUid], PodKey], alarms: Alarms) -> None:
        self._ledger = ledger
        self._key_of = key_of
        self._reported: dict[NodeName, dict[Subject, _LastReport]] = {}
        self._due: Timers[NodeName] = Timers(alarms)

    def look(self, now: float) -> Iterator[ReportOvercommit]:
        """The reports for some nodes now; the others follow later."""
        overdrafts = self._ledger.overdrafts
        for node in self._due.due(now):
            overdrafts.suspect(node)
        if overdrafts:
            for node in overdrafts.take(NODES_PER_ITERATION):
                yield from self._look_at(node, now)

    def _look_at(self, node: NodeName, now: float) -> Iterator[ReportOvercommit]:
        found = dict(overused(self._ledger, node, self._key_of))
        reported = self._reported.setdefault(node, {})
        for subject in sorted(found.keys() | reported.keys()):
            note = found.get(subject, _RIGHT)
            if self._is_due(node, reported, subject, note, now):
                reported[subject] = _LastReport(note, now)
                self._due.add(now + (SPACING_S if note == _RIGHT else REMINDER_S), node)
                is_over, note = note != _RIGHT, note or ended(subject)
                uuid, port = subject.uuid or None, subject.port or None
                yield ReportOvercommit(node, uuid, is_over, note, subject.kind, port)
        if not reported:
            del self._reported[node]
            self._ledger.overdrafts.is_covered(node)

    def _is_due(
        self,
        node: NodeName,
        reported: dict[Subject, _LastReport],
        subject: Subject,
        note: str,
        now: float,
    ) -> bool:
        """Whether to report now; otherwise it is kept for later, or dropped."""
        last = reported.get(subject)
        if last is None:
            return True
        if note == last.note:
            if note == _RIGHT and now >= last.at + SPACING_S:
                del reported[subject]
            return note != _RIGHT and now >= last.at + REMINDER_S
        if now < last.at + SPACING_S and not last.is_due:
            last.is_due = True
            self._due.add(last.at + SPACING_S, node)
        return now >= last.at + SPACING_S


# Cards that fail, come back or vanish, compared as their nodes list them.
#
# What is so before the inventory is known is no change: a scheduler that starts reports nothing,
# and neither does a card that was never listed before, however it is. A node whose collector is
# silent keeps its cards. Verdicts on cards that several nodes list are no change of the card
# either, so that lists are compared, not what the ledger counts.


#: The most reports per iteration, about 10 µs each: a file of cards may be emptied by mistake.
REPORTS_PER_ITERATION = 100
#: The most vanished cards that are remembered, so that their return is one.
MAX_VANISHED = 10_000


class CardChanges:
    """Changes that are to be reported, and the cards that vanished."""

    def __init__(self, ledger: Ledger, key_of: Callable[[PodUid], PodKey]) -> None:
        self._ledger = ledger
        self._key_of = key_of
        self._queue: deque[tuple[NodeName, Gpu, CardChange]] = deque()
        #: What there is to report now; to be read.
        self.at_once: tuple[Collection[object], ...] = (self._queue,)
        #: By node and uuid, the earliest first.
        self._vanished: dict[tuple[NodeName, GpuUuid], None] = {}

    def lists(self, node: NodeName, gpus: tuple[Gpu, ...]) -> None:
        """Compare what a node lists with what it listed; the ledger is changed after this call."""
        before = {gpu.uuid: gpu for gpu in self._ledger.claims.as_listed.get(node, ())}
        for gpu in gpus:
            known = before.pop(gpu.uuid, None)
            if known is not None and known.healthy != gpu.healthy:
                change = CardChange.RECOVERED if gpu.healthy else CardChange.FAILED
                self._queue.append((node, gpu, change))
            elif known is None and (node, gpu.uuid) in self._vanished:
                del self._vanished[node, gpu.uuid]
                change = CardChange.RETURNED if gpu.healthy else CardChange.FAILED
                self._queue.append((node, gpu, change))
        if node not in self._ledger.columns.row_of:
            return  # its cards leave with it
        for gpu in before.values():
            self._queue.append((node, gpu, CardChange.VANISHED))
            self._vanished[node, gpu.uuid] = None
            if len(self._vanished) > MAX_VANISHED:
                del self._vanished[next(iter(self._vanished))]

    def drop(self) -> None:
        """Forget what is to be reported: another scheduler decides, and reports."""
        self._queue.clear()

    def portion(self) -> Iterator[ReportCardChange]:
        """The next reports, with the pods that hold the cards now."""
        for _ in range(min(len(self._queue), REPORTS_PER_ITERATION)):
            node, gpu, change = self._queue.popleft()
            holders = self._ledger.allocations_of(node, gpu.uuid)
            pods = tuple(sorted((self._key_of(uid), uid) for uid in holders))
            yield ReportCardChange(node, gpu.uuid, change, _named(gpu), pods)


def _named(gpu: Gpu) -> str:
    """A card in a sentence: `GPU 3 (Tesla-T4, GPU-…)`; instances of one card share its index."""
    what = f"{gpu.model}, {gpu.uuid}" if gpu.model else gpu.uuid
    return (
        f"GPU instance {gpu.uuid} ({gpu.model})" if gpu.is_instance else f"GPU {gpu.index} ({what})"
    )
