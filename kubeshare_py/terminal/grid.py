"""Columns of text, as kubectl prints them: headers, two spaces between, nothing after the last.

If the terminal is too narrow, columns that may be shortened are; flowing text (reasons, long lists)
is wrapped in the rest of the line, or below the row if that is too narrow.
"""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.text import Text

from kubeshare_py.domain.printable import printable

GAP = 2
ELLIPSIS = "…"
#: The fewest columns for flowing text beside its row.
MIN_FLOW = 40
#: Its indentation below the row otherwise.
INDENT = 4
SEPARATOR = ", "
#: The text of an empty cell, as in kubectl's tables: each line has as many words as the header.
NONE = "<none>"


def shortened(text: str, room: int) -> str:
    """At most `room` characters, cut in the middle, because names differ at both ends."""
    if len(text) <= room:
        return text
    tail = (room - 1) // 2
    return text[: room - 1 - tail] + ELLIPSIS + text[len(text) - tail :] if room > 0 else ""


def names_in(text: str, room: int) -> str:
    """As many names of `a, b, c` as there is room for, then how many more there are."""
    if len(text) <= room:
        return text
    names = text.split(SEPARATOR)
    for shown in range(len(names) - 1, 0, -1):
        fitted = f"{SEPARATOR.join(names[:shown])} +{len(names) - shown}"
        if len(fitted) <= room:
            return fitted
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return shortened(names[0], room - len(more)) + more if room > len(more) else more.strip()[:room]


@dataclass(frozen=True, slots=True, kw_only=True)
class GridColumn:
    """A column; with `least` it may be shortened to so many characters, by `fit`."""

    header: str
    least: int | None = None
    right: bool = False
    fit: Callable[[str, int], str] = shortened


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Cells, one for each column, a style, and text that flows after them."""

    cells: Sequence[str]
    style: str = ""
    flow: str = ""


def grid(
    columns: Sequence[GridColumn], rows: Sequence[Row], width: int | None, *, flow_header: str = ""
) -> list[Text]:
    """Lay out a header line and the rows' lines; `width` None does not limit lines."""
    return [line for lines in grouped(columns, rows, width, flow_header) for line in lines]


def grouped(
    columns: Sequence[GridColumn], rows: Sequence[Row], width: int | None, flow_header: str = ""
) -> list[list[Text]]:
    """The same lines, grouped by row; the first group is the header's."""
    header = Row(cells=[column.header for column in columns], style="bold", flow=flow_header)
    table = [header] + [
        Row(cells=[*map(printable, row.cells)], style=row.style, flow=printable(row.flow))
        for row in rows
    ]
    widths = _widths(columns, table, width)
    used = sum(widths) + GAP * (len(widths) - 1)
    room = None
    if width is not None:
        room = width - used - GAP
    return [_lines(columns, row, widths, room) for row in table]


def _widths(columns: Sequence[GridColumn], table: Sequence[Row], width: int | None) -> list[int]:
    widths = [max(cell_len(row.cells[at]) for row in table) for at in range(len(columns))]
    if width is None:
        return widths
    least = [
        natural if column.least is None else min(natural, max(column.least, len(column.header)))
        for natural, column in zip(widths, columns, strict=True)
    ]
    excess = sum(widths) + GAP * (len(widths) - 1) - width
    while excess > 0 and widths != least:
        may_shrink = [at for at in range(len(widths)) if widths[at] > least[at]]
        widths[max(may_shrink, key=lambda at: widths[at])] -= 1
        excess -= 1
    return widths


def _lines(
    columns: Sequence[GridColumn], row: Row, widths: Sequence[int], room: int | None
) -> list[Text]:
    pieces = []
    for column, cell, width in zip(columns, row.cells, widths, strict=True):
        text = column.fit(cell, width)
        padding = " " * (width - cell_len(text))
        pieces.append(padding + text if column.right else text + padding)
    line = (" " * GAP).join(pieces)
    if room is None:
        return [Text(f"{line}{' ' * GAP}{row.flow}".rstrip(), style=row.style)]
    if room >= MIN_FLOW or not row.flow:
        first, *following = wrapped(row.flow, room)
        blank = " " * (cell_len(line) + GAP)
        texts = [f"{line}{' ' * GAP}{first}", *(blank + more for more in following)]
    else:
        following = wrapped(row.flow, cell_len(line) + GAP + room - INDENT)
        texts = [line, *(" " * INDENT + more for more in following)]
    return [Text(text.rstrip(), style=row.style) for text in texts]


def wrapped(text: str, room: int | None) -> list[str]:
    """Lines of at most `room` characters, at least one; None does not limit lines."""
    if room is None:
        return [text]
    return textwrap.wrap(text, max(room, 1), break_on_hyphens=False) or [""]


def joined(lines: Sequence[Text]) -> Text:
    """One text of lines; print it without wrapping."""
    return Text("\n", no_wrap=True, overflow="ignore").join(lines)


# A table that may be printed whole, or later only its changes (`-w`).


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
