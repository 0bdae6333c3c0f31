"""The whole cluster on one screen: nodes, their cards as bars, and waiting pods.

The screen's size is given. As many cards share a line as needed for all nodes to fit; a bigger
cluster gets one character per card, an even bigger one only its busiest nodes.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from zlib import crc32

from msgspec import UNSET
from rich.text import Text

from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.printable import printable
from kubeshare_py.domain.values import replace
from kubeshare_py.terminal.cards import (
    NAME_ORDER,
    asks,
    busy,
    card_label,
    counted,
    free_and_closed,
    gib,
    gpu_count,
    gpus,
    is_open,
    is_unclear,
    measured,
    models,
    node_state,
    ordered,
    percent,
    sorted_nodes,
    total_bytes,
    total_milli,
    used_bytes,
    used_milli,
    warnings,
)
from kubeshare_py.terminal.grid import SEPARATOR, joined, names_in, shortened
from kubeshare_py.views.view import CardView, ClusterView, NodeView, PodView, TenantView

# One card as a bar with its tenants' names, in the available columns.
#
# A namespace has the same colour on every card; pods beside each other differ by their pattern.


#: The narrowest readable cell.
MIN_CELL = 13
#: The narrowest cell that shows how busy its card is.
_BUSY_FROM = 24
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
    """`0 ████▓▓░░ 37% a, b`, exactly `width` columns. Not `takes_pods`: what is free is not."""
    cell = Text(f"{shortened(printable(card_label(card)), _LABEL):>{_LABEL}} ", no_wrap=True)
    length = max(_SHORTEST_BAR, min(_LONGEST_BAR, (width - _LABEL) // 4))
    cell.append_text(_bar(card, length, takes_pods=takes_pods)).append(" ")
    if width >= _BUSY_FROM and card.busy_milli is not UNSET:
        cell.append(f"{busy(card):>4} ")
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


_LONGEST_NODE = 20
_GAP = 2
_BOUND = "bound"
_PLACED = frozenset({"assumed", "unconfirmed", _BOUND})
_MAX_CELLS = 160
#: The narrowest screens (columns) with states and with models of nodes, and the longest such text.
_STATES_FROM, _MODELS_FROM, _LONGEST_ABOUT = 60, 100, 40
#: The lowest screen with a legend.
_LEGEND_FROM = 10


def live_view(
    view: ClusterView, *, width: int, height: int, sort: str = NAME_ORDER, skip: int = 0
) -> Text:
    """At most `height` lines of at most `width` columns; the first `skip` nodes are left out."""
    view = replace(view, nodes=tuple(sorted_nodes(view.nodes, sort)))
    lines = _totals(view, width)
    lines += [Text(_cut(printable(one), width), style="yellow") for one in warnings(view)]
    waiting = [pod for pod in view.pods if pod.state not in _PLACED]
    # A third of the screen for waiting pods, more if the nodes leave room.
    some = min(len(waiting) + 1, max(3, (height - len(lines)) // 3)) if waiting else 0
    legend = int(height >= _LEGEND_FROM and bool(total_milli(view.nodes)))
    shown = replace(view, nodes=view.nodes[skip:]) if skip else view
    nodes, meaning = _nodes(shown, width, max(1, height - len(lines) - some - legend))
    nodes += [Text(_cut(meaning, width), style="dim")] * legend
    left = height - len(lines) - len(nodes)
    lines += nodes + (_waiting(waiting, width, left) if waiting else [])
    return joined(lines[:height])


def _totals(view: ClusterView, width: int) -> list[Text]:
    share, cards = used_milli(view.nodes), total_milli(view.nodes)
    used, total = used_bytes(view.nodes), total_bytes(view.nodes)
    states = Counter(pod.state for pod in view.pods)
    pods = ", ".join(f"{count:,} {state}" for state, count in sorted(states.items())) or "none"
    texts = [
        f"{view.scheduler}: {counted(len(view.nodes), 'node')}; pods: {pods}",
        f"{gpu_count(share)} of {gpu_count(cards)} GPUs ({percent(share, cards)}%), "
        f"{gib(used)} of {gib(total)} GiB ({percent(used, total)}%); "
        f"{free_and_closed(view.nodes)}",
        *([f"measured: {text}"] if (text := measured(view.nodes)) else ()),
    ]
    return [Text(_cut(printable(text), width), style="bold") for text in texts]


def _nodes(view: ClusterView, width: int, height: int) -> tuple[list[Text], str]:
    """Lines of nodes, and what their characters mean."""
    names = max((len(node.name) for node in view.nodes), default=0)
    name = min(names, _LONGEST_NODE, width // 4)
    about = _about_width(view.nodes, width)
    room = width - name - _GAP - about
    with_namespace = len({pod.namespace for pod in view.pods}) > 1
    for cells in range(1, min(room // (MIN_CELL + 1), _MAX_CELLS) + 1):
        if sum(max(1, -(-len(node.cards) // cells)) for node in view.nodes) <= height:
            lines = []
            for node in view.nodes:
                lines += _bars(node, view, (name, about), room, cells, with_namespace)
            return lines, BARS
    return _levels(view.nodes, name, width, height), LEVELS


def _bars(
    node: NodeView,
    view: ClusterView,
    lead: tuple[int, int],
    room: int,
    cells: int,
    with_namespace: bool,
) -> list[Text]:
    """One node with `cells` cards per line; `lead` is the width of its name, and of what it is."""
    name, about = lead
    heading = _heading(node, name)
    if about:
        words = shortened(printable(_about(node, room + name + about + _GAP)), about - _GAP)
        heading.append(f"{words:<{about}}", style="dim")
    if not node.cards:
        others = sum(pod.node == node.name and pod.state in _PLACED for pod in view.pods)
        pods = f", {counted(others, 'pod')}" if others else ""
        return [heading.append(f"no GPUs{pods}", style="dim")]
    cards, width = ordered(node.cards), room // cells - 1
    lines = []
    for start in range(0, len(cards), cells):
        line = heading if not start else Text(" " * (name + _GAP + about))
        for card in cards[start : start + cells]:
            takes_pods = is_open(node, card)
            cell = card_cell(card, width, with_namespace=with_namespace, takes_pods=takes_pods)
            line.append_text(cell).append(" ")
        line.rstrip()
        lines.append(line)
    return lines


def _levels(nodes: Sequence[NodeView], name: int, width: int, height: int) -> list[Text]:
    """One character per card, as many nodes per line as fit; if too many, the busiest."""
    lengths = [_level_text(node, name).cell_len for node in nodes]
    longest = min(max(lengths, default=0), width)
    across = max(1, (width + _GAP) // (longest + _GAP))
    shown, rest = list(nodes), list[NodeView]()
    if len(shown) > height * across:
        busiest = sorted(shown, key=lambda node: -used_milli((node,)))
        chosen = {node.name for node in busiest[: (height - 1) * across]}
        shown = [node for node in nodes if node.name in chosen]
        rest = [node for node in nodes if node.name not in chosen]
    lines = []
    for start in range(0, len(shown), across):
        line = Text()
        for node in shown[start : start + across]:
            cell = _level_text(node, name)
            cell.truncate(longest, pad=True)
            line.append_text(cell).append(" " * _GAP)
        line.rstrip()
        lines.append(line)
    if rest:
        used, cards = used_milli(rest), total_milli(rest)
        text = f"… {counted(len(rest), 'more node')}, {gpu_count(used)} of {gpu_count(cards)} GPUs"
        lines.append(Text(_cut(text, width), style="dim"))
    return lines


def _level_text(node: NodeView, name: int) -> Text:
    line = _heading(node, name)
    for card in ordered(node.cards):
        line.append(*level(card, takes_pods=is_open(node, card)))
    used, whole = used_milli((node,)), total_milli((node,))
    state = f" {node_state(node)}" if node_state(node) else ""
    return line.append(f" {gpus(used)}/{gpus(whole)}{state}" if node.cards else "no GPUs")


def _about(node: NodeView, width: int) -> str:
    """A node's state, and on wide screens the models of its cards."""
    words = (node_state(node), models((node,)) if width >= _MODELS_FROM else "")
    return SEPARATOR.join(filter(None, words))


def _about_width(nodes: Sequence[NodeView], width: int) -> int:
    """The columns for that, 0 for none."""
    longest = max((len(_about(node, width)) for node in nodes), default=0)
    return min(longest, _LONGEST_ABOUT) + _GAP if longest and width >= _STATES_FROM else 0


def _heading(node: NodeView, name: int) -> Text:
    text = shortened(printable(node.name), name)
    style = "bold yellow" if node_state(node) else "bold"
    return Text.assemble((f"{text:<{name}}", style), " " * _GAP)


def _waiting(pods: Sequence[PodView], width: int, height: int) -> list[Text]:
    """Waiting pods: one line each, then how many more there are."""
    shown = pods if len(pods) < height else pods[: max(0, height - 2)]
    lines = [Text("waiting:", style="bold")]
    names = [printable(f"{pod.namespace}/{pod.name}") for pod in shown]
    name = min(max(map(len, names), default=0), width // 3)
    for pod, text in zip(shown, names, strict=True):
        message = pod.message or pod.state
        said = message if is_unclear(pod) else f"{asks(pod)}: {message}"
        line = f"{shortened(text, name):<{name}}  {said}"
        lines.append(Text(_cut(printable(line), width), style="yellow"))
    if len(shown) < len(pods):
        lines.append(Text(f"… and {counted(len(pods) - len(shown), 'more pod')}", style="dim"))
    return lines


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"
