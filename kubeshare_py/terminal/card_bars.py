"""One card as a bar with its tenants' names, in the available columns.

A namespace has the same colour on every card; pods beside each other differ by their pattern.
"""

from collections.abc import Iterator
from zlib import crc32

from rich.text import Text

from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.printable import printable
from kubeshare_py.terminal.cards import card_label
from kubeshare_py.terminal.grid import SEPARATOR, names_in, shortened
from kubeshare_py.views.view import CardView, TenantView

#: The narrowest readable cell.
MIN_CELL = 13
_LABEL = 2
_SHORTEST_BAR, _LONGEST_BAR = 4, 20
_COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "bright_red", "bright_cyan")
_PATTERNS = "█▓"
_FREE, _CLOSED = "░", "╌"
_LEVELS = "·▁▂▃▄▅▆▇█"
_BROKEN = "x"
#: What the characters mean.
_TROUBLES = f"{_CLOSED} takes no new pods  {_BROKEN} unhealthy"
BARS = f"{_PATTERNS} pods, a colour for each namespace  {_FREE} free  {_TROUBLES}"
LEVELS = f"{_LEVELS[0]} free  {_LEVELS[2]} to {_LEVELS[-1]} how full  {_TROUBLES}"
#: A pod that the reader may not see.
_UNNAMED = "(other)"


def card_cell(card: CardView, width: int, *, with_namespace: bool, takes_pods: bool = True) -> Text:
    """`0 ████▓▓░░ a, b`, exactly `width` columns. Not `takes_pods`: what is free is not."""
    cell = Text(f"{shortened(printable(card_label(card)), _LABEL):>{_LABEL}} ", no_wrap=True)
    length = max(_SHORTEST_BAR, min(_LONGEST_BAR, (width - _LABEL) // 4))
    cell.append_text(_bar(card, length, takes_pods=takes_pods)).append(" ")
    room = width - cell.cell_len
    trouble = _trouble(card)
    if trouble and not card.tenants:
        cell.append(trouble[:room], style="red")
    else:
        names = SEPARATOR.join(_name(one, with_namespace) for one in card.tenants)
        cell.append(names_in(printable(names), room), style="red" if trouble else "")
    cell.pad_right(max(0, width - cell.cell_len))
    return cell


def level(card: CardView, *, takes_pods: bool = True) -> tuple[str, str]:
    """One character for how full a card is, and its style."""
    if _is_broken(card):
        return _BROKEN, "red"
    used, whole = _fullness(card)
    if used <= 0:
        return (_LEVELS[0], "dim") if takes_pods else (_CLOSED, "yellow")
    step = min(used, whole) * (len(_LEVELS) - 1) // whole
    return _LEVELS[max(1, step)], "cyan" if used < whole else "green"


def _is_broken(card: CardView) -> bool:
    return not (card.known and card.healthy)


def _trouble(card: CardView) -> str:
    if not card.known:
        return "not in inventory"
    if not card.healthy:
        return "unhealthy"
    return "cordoned" if card.cordoned else ""


def _name(tenant: TenantView, with_namespace: bool) -> str:
    if not tenant.name:
        return _UNNAMED
    return f"{tenant.namespace}/{tenant.name}" if with_namespace else tenant.name


def _bar(card: CardView, length: int, *, takes_pods: bool) -> Text:
    bar = Text()
    for at, (tenant, cells) in enumerate(_segments(card, length)):
        colour = _COLOURS[crc32(tenant.namespace.encode()) % len(_COLOURS)]
        bar.append(_PATTERNS[at % len(_PATTERNS)] * cells, style=colour)
    rest = _BROKEN if _is_broken(card) else _FREE if takes_pods else _CLOSED
    bar.append(rest * (length - bar.cell_len), style="dim")
    return bar


def _segments(card: CardView, length: int) -> Iterator[tuple[TenantView, int]]:
    """Each tenant's columns: at least one, in all never more than available."""
    by_memory = _by_memory(card)
    _, whole = _fullness(card)
    so_far = drawn = 0
    for tenant in card.tenants:
        part = tenant.memory_bytes if by_memory else tenant.milli
        so_far += whole if tenant.exclusive else part
        cells = min(length, max(drawn + 1, so_far * length // whole)) - drawn
        drawn += cells
        yield tenant, cells


def _fullness(card: CardView) -> tuple[int, int]:
    """The used part and the whole, of share or memory, whichever is scarcer."""
    if _by_memory(card):
        return card.used_bytes, card.memory_bytes
    return card.used_milli, card.capacity_milli or WHOLE_MILLI


def _by_memory(card: CardView) -> bool:
    return card.used_bytes * card.capacity_milli > card.used_milli * card.memory_bytes > 0 or (
        card.used_milli == 0 and card.memory_bytes > 0
    )
