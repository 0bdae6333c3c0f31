"""Why a bound pod is where it is, in lines of `kubectl kubeshare why`: scores, and neighbours."""

from collections.abc import Iterator

from rich.text import Text

from kubeshare_py.domain.printable import printable
from kubeshare_py.terminal.amounts import amount_of, counted
from kubeshare_py.terminal.cards import UNNAMED, card_name
from kubeshare_py.terminal.grid import wrapped
from kubeshare_py.views.holding import HoldingView, NeighbourView, PlacementView

#: The most neighbours that are named; the rest is counted. Machine-readable forms have all of them.
MAX_NEIGHBOURS = 20


def placement_lines(found: PlacementView, node: str, width: int | None) -> list[Text]:
    """A sentence about scores, and a list of the pods on the same cards."""
    lines = [Text(line) for one in _scores(found, node) for line in wrapped(one, width)]
    if found.neighbours:
        lines += [Text(), Text("On the same cards:", style="bold")]
    for neighbour in found.neighbours[:MAX_NEIGHBOURS]:
        lines += _entry(_neighbour(neighbour), width)
    rest = len(found.neighbours) - MAX_NEIGHBOURS
    return lines + (_entry(f"… and {counted(rest, 'more pod')}", width) if rest > 0 else [])


def _scores(found: PlacementView, node: str) -> Iterator[str]:
    if not found.rank:
        return
    parts = " + ".join(
        f"{one.plugin} {one.points}" + (f" x {one.weight}" if one.weight != 1 else "")
        for one in found.scores
    )
    because = f" ({parts})" if parts else ""
    place = f"choice {found.rank} of the {found.fitting:,} nodes that fit"
    place = "the only node that fits" if found.fitting == 1 else place
    yield printable(
        f"If it were placed now, {node} would be {place}, with score {found.score}{because}."
    )
    if found.others:
        others = ", ".join(f"{one.name} {one.score}" for one in found.others)
        yield printable(f"Scores of other nodes: {others}.")


def _neighbour(neighbour: NeighbourView) -> str:
    named = f"{neighbour.namespace}/{neighbour.name}"
    pod = named if neighbour.name else f"a pod {UNNAMED}"
    return f"{pod}: {'; '.join(map(_part, neighbour.holds))}"


def _part(one: HoldingView) -> str:
    return f"{amount_of(1, one.milli, one.memory_bytes)} of {card_name(one.uuid, one.index)}"


def _entry(sentence: str, width: int | None) -> list[Text]:
    first, *more = wrapped(printable(sentence), None if width is None else width - 4)
    return [Text(f"  - {first}"), *(Text(f"    {text}") for text in more)]
