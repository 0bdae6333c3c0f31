"""The victims of a preemption and its places: lines of `kubectl kubeshare why`."""

from collections.abc import Mapping, Sequence

from rich.text import Text

from kubeshare_py.domain.printable import printable
from kubeshare_py.terminal.amounts import counted
from kubeshare_py.terminal.cards import card_name
from kubeshare_py.terminal.grid import wrapped
from kubeshare_py.views.view import PreemptionView, VictimView

#: The most victims that are named; the rest is counted. Machine-readable forms have all of them.
MAX_VICTIMS = 20


def preemption_lines(
    found: PreemptionView, indexes: Mapping[str, int], width: int | None
) -> list[Text]:
    """A heading, the victims node by node, and what prevents the preemption."""
    lines = [Text(_heading(found), style="bold")]
    for victim in found.victims[:MAX_VICTIMS]:
        lines += _entry(_victim(victim, indexes), width)
    rest = len(found.victims) - MAX_VICTIMS
    if rest > 0:
        lines += _entry(f"… and {counted(rest, 'more pod')}", width)
    for sentence in _remarks(found, indexes):
        lines += [Text(text) for text in wrapped(printable(sentence), width)]
    return lines


def _heading(found: PreemptionView) -> str:
    if not found.victims:
        return "It waits for pods that are leaving:" if found.in_flight else "Pods are leaving:"
    if found.in_flight:
        return "Being evicted for it:"
    return "Preemption would evict:"


def _victim(victim: VictimView, indexes: Mapping[str, int]) -> str:
    cards = _cards(victim.cards, indexes)
    pod = f"{victim.namespace}/{victim.name}"
    failed = f"; not evicted so far: {victim.answer}" if victim.answer else ""
    return f"{pod} (priority {victim.priority}) on node {victim.node}{cards}{failed}"


def _remarks(found: PreemptionView, indexes: Mapping[str, int]) -> list[str]:
    remarks = []
    if found.leaving:
        remarks.append(f"{counted(found.leaving, 'pod')} whose place it gets leave anyhow.")
    remarks.append(f"It would get {_nominations(found, indexes)}.")
    if found.violations:
        remarks.append(f"Disruption budgets do not allow {found.violations} of these evictions.")
    if found.obstacle:
        remarks.append(f"No pod is evicted: {found.obstacle}.")
    return remarks


def _nominations(found: PreemptionView, indexes: Mapping[str, int]) -> str:
    if len(found.nominations) == 1:
        seat = found.nominations[0]
        return f"node {seat.node}{_cards(seat.cards, indexes)}"
    nodes = sorted({seat.node for seat in found.nominations})
    return f"{counted(len(found.nominations), 'place')} on {counted(len(nodes), 'node')}"


def _cards(uuids: Sequence[str], indexes: Mapping[str, int]) -> str:
    named = ", ".join(card_name(uuid, indexes.get(uuid, -1)) for uuid in uuids)
    return f", cards {named}" if named else ""


def _entry(sentence: str, width: int | None) -> Sequence[Text]:
    first, *more = wrapped(printable(sentence), None if width is None else width - 4)
    return [Text(f"  - {first}"), *(Text(f"    {text}") for text in more)]
