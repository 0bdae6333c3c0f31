"""What happened, as a table: `kubectl kubeshare history`."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from kubeshare_py.domain.printable import printable
from kubeshare_py.terminal.grid import GridColumn, Row, grouped
from kubeshare_py.views.history import HistoryEntry, ScoredNode

_COLUMNS = (
    GridColumn(header="TIME"),
    GridColumn(header="POD", least=16),
    GridColumn(header="WHAT"),
)
_STYLES = {"placed": "green", "waits": "yellow", "refused": "red", "evicted": "red"}


def history_lines(entries: Sequence[HistoryEntry], width: int | None) -> Iterator[Text]:
    """A row for each entry; below a placement the scores of its node and of the next one."""
    rows = [
        Row(
            cells=[one.time, one.pod or "-", one.what],
            style=_STYLES.get(one.what, ""),
            flow=" ".join(filter(None, (one.node, *one.cards, one.message))),
        )
        for one in entries
    ]
    header, *groups = grouped(_COLUMNS, rows, width, "WHERE, WHY")
    yield from header if rows else ()
    for entry, lines in zip(entries, groups, strict=True):
        yield from lines
        for label, scored in (("chosen", entry.chosen), ("next", entry.runner_up)):
            if scored is not None:
                yield Text(f"    {label}: {printable(_scores(scored))}", style="dim")


def _scores(scored: ScoredNode) -> str:
    plugins = ", ".join(
        f"{one.plugin} {one.points}{f' x {one.weight}' if one.weight != 1 else ''}"
        for one in scored.scores
    )
    return f"{scored.node} {scored.score}{f' ({plugins})' if plugins else ''}"
