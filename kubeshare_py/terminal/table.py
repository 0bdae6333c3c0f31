"""A table that may be printed whole, or later only its changes (`-w`)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.text import Text

from kubeshare_py.terminal.grid import GridColumn, Row, grouped


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Columns and rows; equal `keys` in two tables identify the same row.

    `state` is the column that shows that a row is gone; `aging` one that changes by itself, -1 for
    none.
    """

    columns: Sequence[GridColumn]
    rows: Sequence[Row]
    keys: Sequence[str]
    flow_header: str = ""
    state: int = 0
    aging: int = -1


def table_lines(table: Table, width: int | None, *, headers: bool = True) -> list[Text]:
    """Lay out the whole table; `width` None does not limit lines."""
    groups = grouped(table.columns, table.rows, width, table.flow_header)
    return [line for lines in groups[0 if headers else 1 :] for line in lines]


def changed_lines(before: Table, after: Table, width: int | None) -> list[Text]:
    """Rows that are new or changed, laid out as in the whole table, then those that are gone."""
    old = dict(zip(before.keys, before.rows, strict=True))
    _, *groups = grouped(after.columns, after.rows, width, after.flow_header)
    lines = []
    for key, row, group in zip(after.keys, after.rows, groups, strict=True):
        known = old.pop(key, None)
        if known is None or _content(before, known) != _content(after, row):
            lines += group
    gone = [_gone(before, row) for row in old.values()]
    _, *groups = grouped(before.columns, gone, width, before.flow_header)
    return lines + [line for group in groups for line in group]


def _content(table: Table, row: Row) -> tuple[list[str], str]:
    return [cell for at, cell in enumerate(row.cells) if at != table.aging], row.flow


def _gone(table: Table, row: Row) -> Row:
    cells = ["gone" if at == table.state else cell for at, cell in enumerate(row.cells)]
    return replace(row, cells=cells, flow="")
