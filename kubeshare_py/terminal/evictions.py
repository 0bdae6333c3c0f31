"""Who would be evicted for a pod, and what for: lines of `kubectl kubeshare why`."""

from collections.abc import Sequence

from rich.text import Text

from kubeshare_py.domain.view import PreemptionView, VictimView
from kubeshare_py.terminal.amounts import counted
from kubeshare_py.terminal.grid import printable, wrapped

#: So many victims are named; the rest is counted. The machine forms have them all.
MOST_VICTIMS = 20


def preemption_lines(found: PreemptionView, width: int | None) -> list[Text]:
    """A heading, the victims node by node, and what keeps it from happening."""
    lines = [Text(_heading(found), style="bold")]
    for victim in found.victims[:MOST_VICTIMS]:
        lines += _entry(_victim(victim), width)
    rest = len(found.victims) - MOST_VICTIMS
    if rest > 0:
        lines += _entry(f"… and {counted(rest, 'more pod')}", width)
    for sentence in _remarks(found):
        lines += [Text(text) for text in wrapped(printable(sentence), width)]
    return lines


def _heading(found: PreemptionView) -> str:
    if not found.victims:
        return "It waits for pods that are leaving:" if found.under_way else "Pods are leaving:"
    if found.under_way:
        return "Being evicted for it:"
    return "Preemption would evict:"


def _victim(victim: VictimView) -> str:
    cards = f", cards {', '.join(victim.cards)}" if victim.cards else ""
    pod = f"{victim.namespace}/{victim.name}"
    return f"{pod} (priority {victim.priority}) on node {victim.node}{cards}"


def _remarks(found: PreemptionView) -> list[str]:
    remarks = []
    if found.leaving:
        remarks.append(f"{counted(found.leaving, 'pod')} whose place it gets leave anyhow.")
    remarks.append(f"It would get {_seats(found)}.")
    if found.violations:
        remarks.append(f"Disruption budgets do not allow {found.violations} of these evictions.")
    if found.obstacle:
        remarks.append(f"Nobody is evicted: {found.obstacle}.")
    return remarks


def _seats(found: PreemptionView) -> str:
    if len(found.seats) == 1:
        seat = found.seats[0]
        cards = f", cards {', '.join(seat.cards)}" if seat.cards else ""
        return f"node {seat.node}{cards}"
    nodes = sorted({seat.node for seat in found.seats})
    return f"{counted(len(found.seats), 'place')} on {counted(len(nodes), 'node')}"


def _entry(sentence: str, width: int | None) -> Sequence[Text]:
    first, *more = wrapped(printable(sentence), None if width is None else width - 4)
    return [Text(f"  - {first}"), *(Text(f"    {text}") for text in more)]
