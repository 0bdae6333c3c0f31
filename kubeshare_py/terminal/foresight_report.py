"""What would happen, as text: `kubectl kubeshare what-if`, `capacity` and `when`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.text import Text

from kubeshare_py.domain.printable import printable
from kubeshare_py.terminal.cards import card_name, counted
from kubeshare_py.terminal.grid import GridColumn, Row, grouped, wrapped
from kubeshare_py.terminal.why_report import advice_lines
from kubeshare_py.views.ages import duration
from kubeshare_py.views.foresight import (
    CapacityView,
    ForeseenCard,
    ForeseenEviction,
    ForeseenOutcome,
    ForeseenPod,
    PodEnd,
    WhatIfView,
    WhenView,
)

_STYLES = {
    ForeseenOutcome.PLACED: "green",
    ForeseenOutcome.WAITS: "yellow",
    ForeseenOutcome.REFUSED: "red",
    ForeseenOutcome.ELSEWHERE: "",
}
#: More pods of one object with one outcome are one line, and more lines of a list are a number.
_MOST_ROWS, _MOST_LINES = 12, 20
_COLUMNS = (GridColumn(header="POD", least=16), GridColumn(header="WOULD BE"))


def what_if_lines(view: WhatIfView, width: int | None) -> Iterator[Text]:
    """A table of the new pods, then what else would change."""
    for change in view.changes:
        yield Text(f"Supposed: {printable(change)}.", style="bold")
    rows = list(_rows(view.pods))
    header, *groups = grouped(_COLUMNS, [row for row, _ in rows], width, "WHERE, OR WHY NOT")
    yield from header if rows else ()
    for (_, pod), lines in zip(rows, groups, strict=True):
        yield from lines
        if pod.why is not None:
            yield from advice_lines(pod.why, width)
    yield from _list("Would be evicted:", map(_evicted, view.evicted), width)
    yield from _list("Waits now, and would be placed:", map(_named_place, view.started), width)
    yield from _list("Is placed at once in any case:", map(_named_place, view.soon), width)
    if not view.pods and not view.evicted and not view.started:
        yield Text("No pod would be placed or evicted.")
    if view.still_waiting:
        verb = "waits" if view.still_waiting == 1 else "wait"
        yield Text(f"{counted(view.still_waiting, 'other pod')} of the cluster still {verb}.")
    yield from _notes(view.notes, width)


def _rows(pods: Sequence[ForeseenPod]) -> Iterator[tuple[Row, ForeseenPod]]:
    """A row for each pod, or for many pods of one object; with the pod that says most of them."""
    for _, some in groupby(pods, key=lambda one: (one.namespace, one.object, one.outcome)):
        alike = list(some)
        told = next((one for one in alike if one.why is not None), alike[0])
        if len(alike) <= _MOST_ROWS:
            yield from ((_row(one), one) for one in alike)
            continue
        name = f"{_owner(told)} ({len(alike)} pods)"
        cells, style = [name, told.outcome], _STYLES[told.outcome]
        yield Row(cells=cells, style=style, flow=_many(alike)), told


def _row(pod: ForeseenPod) -> Row:
    cells = [f"{pod.namespace}/{pod.name}", pod.outcome]
    return Row(cells=cells, style=_STYLES[pod.outcome], flow=_where(pod))


def _owner(pod: ForeseenPod) -> str:
    return f"{pod.namespace} {pod.object}"


def _many(pods: Sequence[ForeseenPod]) -> str:
    if pods[0].outcome is not ForeseenOutcome.PLACED:
        return pods[0].message
    counts = Counter(pod.node for pod in pods)
    shown = [f"{node}: {count}" for node, count in sorted(counts.items())]
    rest = len(shown) - _MOST_LINES
    more = [f"… and {counted(rest, 'more node')}"] if rest > 0 else []
    return ", ".join([*shown[:_MOST_LINES], *more])


def _where(pod: ForeseenPod) -> str:
    if pod.outcome is not ForeseenOutcome.PLACED:
        return pod.message
    place = _place(pod.node, pod.cards)
    return f"{place}; {pod.message}" if pod.message else place


def _place(node: str, cards: Iterable[ForeseenCard]) -> str:
    return ", ".join([node, *(card_name(card.uuid, card.index) for card in cards)])


def _named_place(pod: ForeseenPod) -> str:
    return f"{pod.namespace}/{pod.name}: {_where(pod)}"


def _evicted(one: ForeseenEviction) -> str:
    said = f": {one.message}" if one.message else ""
    return f"{one.namespace}/{one.name} from {_place(one.node, one.cards)}{said}"


def _list(heading: str, entries: Iterable[str], width: int | None) -> Iterator[Text]:
    found = list(entries)
    if not found:
        return
    yield Text(heading, style="bold")
    rest = len(found) - _MOST_LINES
    shown = found[:_MOST_LINES] + ([f"… and {rest} more"] if rest > 0 else [])
    for entry in shown:
        first, *more = wrapped(printable(entry), None if width is None else width - 4)
        yield Text(f"  - {first}")
        yield from (Text(f"    {line}") for line in more)


def _notes(notes: Iterable[str], width: int | None) -> Iterator[Text]:
    for note in notes:
        yield from _sentence(note, width, "yellow")


def _sentence(text: str, width: int | None, style: str = "") -> Iterator[Text]:
    for line in wrapped(printable(text), width):
        yield Text(line, style=style)


def capacity_lines(view: CapacityView, width: int | None) -> Iterator[Text]:
    """How many more fit, where, and what runs out first."""
    things = "pod" if view.pods_each == 1 else f"set of {view.pods_each} pods"
    least = "at least " if view.is_limit else ""
    yield Text(f"{least}{counted(view.more, f'more {things}')} would fit.", style="bold")
    shown = [f"{one.name}: {one.count}" for one in view.nodes]
    yield from _list("On:" if view.pods_each == 1 else "Their pods on:", shown, width)
    if view.scarce:
        first, *others = view.scarce
        text = f"What runs out first: {first.reason} ({_on(first.nodes)})."
        yield from _sentence(text, width)
        yield from _list("Then:", (f"{one.reason} ({_on(one.nodes)})" for one in others), width)
    elif view.message:
        yield from _sentence(view.message, width)
    yield from _list("One more would fit like this:", view.advice, width)
    yield from _notes(view.notes, width)


def _on(nodes: int) -> str:
    return f"on {counted(nodes, 'node')}"


def when_lines(view: WhenView, width: int | None) -> Iterator[Text]:
    """When it is placed at the latest, and after which ends; or why that is not known."""
    name, place = f"{view.namespace}/{view.name}", _place(view.node, view.cards)
    match view.state:
        case "placed":
            answer = f"{name} is placed: {place}."
        case "now":
            answer = f"{name} fits now: it would be placed on {place}."
        case "by":
            time = f"{view.at}, in {duration(int(view.in_s))}"
            answer = f"{name} is placed by {time}, at the latest: {place}."
        case _:
            answer = f"When {name} is placed is not known."
    yield from _sentence(answer, width, "bold")
    yield from _list("Once these have ended:", map(_end, view.ends), width)
    if view.state == "unknown":
        known = counted(view.with_deadline, "running pod")
        text = (
            f"{known} must end by a time, and {view.without_deadline} may run for ever. "
            f"Once the former have ended, it still waits: {view.message}"
        )
        yield from _sentence(text, width)
        if view.why is not None:
            yield from advice_lines(view.why, width)
    yield from _notes(view.notes, width)


def _end(one: PodEnd) -> str:
    return f"{one.namespace}/{one.name} on {one.node}, by {one.at} ({one.by})"
