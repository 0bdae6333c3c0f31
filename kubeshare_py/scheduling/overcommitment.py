"""Who is told that pods hold more of a card than it has, how often, and that it is right again.

This scheduler places nothing beyond what is free; others may (a pod created on a node with an
allocation of its own, a native GPU pod, a late leader), and cards may shrink. A card is told about
at most every ten seconds, whatever happens to it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kubeshare_py.cluster.charge import NATIVE_GPU, Charge, native_gpus
from kubeshare_py.cluster.columns import ABSENT
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.effects import ReportOvercommit
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.scheduling.timers import Timers

SPACING_S = 10.0
#: While it lasts it is told again this often: events live for an hour.
REMINDER_S = 1800.0
#: A turn looks at so many nodes, about 20 us each.
NODES_A_TURN = 50
#: Pods that a text names; the others are counted.
MOST_NAMED = 8

#: A card, or None for those that the kubelet hands out by itself.
Subject = GpuUuid | None
_RIGHT = ""


@dataclass(slots=True)
class _Told:
    """What was told last of one subject and when (s), and whether it is to be looked at again."""

    note: str
    at: float
    is_due: bool = False


class Overcommitment:
    """Looks at the nodes that the ledger names."""

    def __init__(self, ledger: Ledger, key_of: Callable[[PodUid], PodKey]) -> None:
        self._ledger = ledger
        self._key_of = key_of
        self._told: dict[NodeName, dict[Subject, _Told]] = {}
        self._due: Timers[NodeName] = Timers()

    @property
    def more(self) -> bool:
        """Whether there is something to look at now."""
        return bool(self._ledger.overdrafts)

    @property
    def next_at(self) -> float:
        """When something must be told or forgotten; infinity when nothing must."""
        return self._due.next_at

    def look(self, now: float) -> Iterator[ReportOvercommit]:
        """What to tell now, of some nodes; the others have their turn later."""
        overdrafts = self._ledger.overdrafts
        if now >= self._due.next_at:
            for node in self._due.due(now):
                overdrafts.suspect(node)
        if overdrafts:
            for node in overdrafts.take(NODES_A_TURN):
                yield from self._look_at(node, now)

    def _look_at(self, node: NodeName, now: float) -> Iterator[ReportOvercommit]:
        found, told = dict(self._overdrawn(node)), self._told.setdefault(node, {})
        for subject in sorted(found.keys() | told.keys(), key=lambda subject: subject or ""):
            note = found.get(subject, _RIGHT)
            if self._is_to_be_told(node, told, subject, note, now):
                told[subject] = _Told(note, now)
                self._due.add(now + (SPACING_S if note == _RIGHT else REMINDER_S), node)
                yield ReportOvercommit(node, subject, note != _RIGHT, note or _right(subject))
        if not told:
            del self._told[node]
            self._ledger.overdrafts.is_well(node)

    def _is_to_be_told(
        self, node: NodeName, told: dict[Subject, _Told], subject: Subject, note: str, now: float
    ) -> bool:
        """Whether now; if later, it is remembered, and if never again, forgotten."""
        last = told.get(subject)
        if last is None:
            return True
        if note == last.note:
            if note == _RIGHT and now >= last.at + SPACING_S:
                del told[subject]
            return note != _RIGHT and now >= last.at + REMINDER_S
        if now < last.at + SPACING_S and not last.is_due:
            last.is_due = True
            self._due.add(last.at + SPACING_S, node)
        return now >= last.at + SPACING_S

    def _overdrawn(self, node: NodeName) -> Iterator[tuple[Subject, str]]:
        """What is over-committed on a node, and a sentence about it."""
        columns = self._ledger.columns
        row = columns.row_of.get(node)
        if row is None or not columns.gpu_count.item(row):
            return
        unused = 0
        for slot, uuid in enumerate(columns.uuids[row]):
            if columns.flags.item(row, slot) & ABSENT:
                continue
            unused += columns.tenants.item(row, slot) == columns.earmarks.item(row, slot)
            held = self._held_too_much(row, slot)
            if held:
                yield uuid, f"GPU {uuid} is over-committed: {self._holders(node, uuid)} hold {held}"
        native = self._ledger.native_gpus(node)
        if native > unused:
            holders = self._holders(node, None)
            there = f"only {unused} cards are without other pods: some card may be in use twice"
            yield None, f"{holders} hold {native} {NATIVE_GPU}, but {there}"

    def _held_too_much(self, row: int, slot: int) -> str:
        """What pods hold of a card, where that is more than it has; "" where it is not.

        An earmark is not held.
        """
        columns, parts = self._ledger.columns, []
        free_milli = columns.free_milli.item(row, slot) + columns.earmarked_milli.item(row, slot)
        free_bytes = columns.free_bytes.item(row, slot) + columns.earmarked_bytes.item(row, slot)
        if free_milli < 0:
            milli = columns.capacity_milli.item(row, slot)
            parts.append(f"{milli - free_milli} of {milli} thousandths")
        if free_bytes < 0:
            size = columns.capacity_bytes.item(row, slot)
            parts.append(f"{size - free_bytes} of {size} bytes")
        return " and ".join(parts)

    def _holders(self, node: NodeName, subject: Subject) -> str:
        """Names of the pods that hold a card, or native GPUs."""
        charges = self._ledger.pods_on(node).items()
        keys = sorted(str(self._key_of(uid)) for uid, one in charges if _holds(one, subject))
        more = len(keys) - MOST_NAMED
        return ", ".join(keys[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _holds(charge: Charge, subject: Subject) -> bool:
    cards = charge.allocation.cards if charge.allocation is not None else ()
    if subject is None:
        return not cards and native_gpus(charge.resources) > 0
    return any(card.uuid == subject for card in cards)


def _right(subject: Subject) -> str:
    if subject is None:
        return f"There are enough cards without other pods for those that hold {NATIVE_GPU} again"
    return f"GPU {subject} is not over-committed any more"
