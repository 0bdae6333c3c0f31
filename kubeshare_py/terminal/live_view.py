"""The whole cluster on one screen: nodes, their cards as bars, and waiting pods.

The screen's size is given. As many cards share a line as needed for all nodes to fit; a bigger
cluster gets one character per card, an even bigger one only its busiest nodes.
"""

from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from kubeshare_py.domain.printable import printable
from kubeshare_py.terminal.amounts import asks, counted, gib, gpus, percent
from kubeshare_py.terminal.card_bars import MIN_CELL, card_cell, level
from kubeshare_py.terminal.cards import (
    node_state,
    ordered,
    total_bytes,
    total_milli,
    used_bytes,
    used_milli,
    warnings,
)
from kubeshare_py.terminal.grid import joined, shortened
from kubeshare_py.views.view import ClusterView, NodeView, PodView

_LONGEST_NODE = 20
_GAP = 2
_BOUND = "bound"
_PLACED = frozenset({"assumed", "unconfirmed", _BOUND})
_MAX_CELLS = 160


def live_view(view: ClusterView, *, width: int, height: int) -> Text:
    """At most `height` lines of at most `width` columns."""
    lines = _totals(view, width)
    lines += [Text(_cut(printable(one), width), style="yellow") for one in warnings(view)]
    waiting = [pod for pod in view.pods if pod.state not in _PLACED]
    # A third of the screen for waiting pods, more if the nodes leave room.
    some = min(len(waiting) + 1, max(3, (height - len(lines)) // 3)) if waiting else 0
    nodes = _nodes(view, width, max(1, height - len(lines) - some))
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
        f"{gpus(share)} of {gpus(cards)} GPUs ({percent(share, cards)}%), "
        f"{gib(used)} of {gib(total)} GiB ({percent(used, total)}%)",
    ]
    return [Text(_cut(printable(text), width), style="bold") for text in texts]


def _nodes(view: ClusterView, width: int, height: int) -> list[Text]:
    names = max((len(node.name) for node in view.nodes), default=0)
    name = min(names, _LONGEST_NODE, width // 4)
    room = width - name - _GAP
    with_namespace = len({pod.namespace for pod in view.pods}) > 1
    for cells in range(1, min(room // (MIN_CELL + 1), _MAX_CELLS) + 1):
        if sum(max(1, -(-len(node.cards) // cells)) for node in view.nodes) <= height:
            lines = []
            for node in view.nodes:
                lines += _bars(node, view, name, room, cells, with_namespace)
            return lines
    return _levels(view.nodes, name, width, height)


def _bars(
    node: NodeView, view: ClusterView, name: int, room: int, cells: int, with_namespace: bool
) -> list[Text]:
    """One node with `cells` cards per line."""
    heading = _heading(node, name)
    if not node.cards:
        others = sum(pod.node == node.name and pod.state in _PLACED for pod in view.pods)
        pods = f", {counted(others, 'pod')}" if others else ""
        return [heading.append(f"no GPUs{pods}", style="dim")]
    cards, width = ordered(node.cards), room // cells - 1
    lines = []
    for start in range(0, len(cards), cells):
        line = heading if not start else Text(" " * (name + _GAP))
        for card in cards[start : start + cells]:
            line.append_text(card_cell(card, width, with_namespace=with_namespace)).append(" ")
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
        text = f"… {counted(len(rest), 'more node')}, {gpus(used)} of {gpus(cards)} GPUs"
        lines.append(Text(_cut(text, width), style="dim"))
    return lines


def _level_text(node: NodeView, name: int) -> Text:
    line = _heading(node, name)
    for card in ordered(node.cards):
        line.append(*level(card))
    used, whole = used_milli((node,)), total_milli((node,))
    return line.append(f" {gpus(used)}/{gpus(whole)}" if node.cards else "no GPUs")


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
        line = f"{shortened(text, name):<{name}}  {asks(pod)}: {message}"
        lines.append(Text(_cut(printable(line), width), style="yellow"))
    if len(shown) < len(pods):
        lines.append(Text(f"… and {counted(len(pods) - len(shown), 'more pod')}", style="dim"))
    return lines


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"
