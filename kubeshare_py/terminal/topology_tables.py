"""`kubectl kubeshare gpus --topology`: how a node's cards are joined, and its islands."""

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from itertools import groupby

from rich.text import Text

from kubeshare_py.domain.printable import printable
from kubeshare_py.terminal.amounts import counted
from kubeshare_py.terminal.cards import is_open, node_state
from kubeshare_py.terminal.grid import GridColumn, Row, grid, joined, wrapped
from kubeshare_py.views.view import IslandView, NodeView, RingView, TopologyView

_ITSELF, _UNKNOWN = "X", "-"
#: Below this, a bandwidth only means that cards are near each other.
_MIN = 100


def topology_tables(nodes: Sequence[NodeView], width: int | None) -> Text:
    """Node by node, without nodes that have no cards."""
    lines: list[Text] = []
    for node in nodes:
        if node.cards:
            lines += [*([Text()] if lines else []), *_node(node, width)]
    return joined(lines or [Text("No node has cards.")])


def ring_sentence(ring: RingView | None) -> str:
    """How a pod's cards are joined; "" for one card, or if unknown."""
    if ring is None or not ring.links:
        return ""
    kinds = Counter(link.kind or "unknown" for link in ring.links)
    phrases = ", ".join(
        f"{counted(count, 'pair')} by {kind}" for kind, count in sorted(kinds.items())
    )
    hop = f"; the slowest hop of their best ring has {_speed(ring.slowest_hop)}"
    return f"Its cards are joined: {phrases}{hop if ring.slowest_hop >= _MIN else ''}."


def _node(node: NodeView, width: int | None) -> list[Text]:
    state = node_state(node)
    heading = f"{node.name} ({state})" if state else node.name
    lines = [Text(printable(heading), style="bold")]
    if node.topology is None:
        return [*lines, Text("  It is not known how its cards are joined.")]
    labels = _labels(node, node.topology)
    lines += _matrix(node.topology, labels)
    for text in _islands(node.topology.islands, labels, _idle(node)):
        first, *rest = wrapped(text, None if width is None else width - 4)
        lines += [Text(f"  {first}"), *(Text(f"    {more}") for more in rest)]
    return lines


def _labels(node: NodeView, topology: TopologyView) -> dict[str, str]:
    """Each card's index; instances of one card are numbered after it."""
    indexes = {card.uuid: card.index for card in node.cards}
    of_index = Counter(indexes[uuid] for uuid in topology.cards)
    seen: Counter[int] = Counter()
    labels = {}
    for uuid in topology.cards:
        index = indexes[uuid]
        labels[uuid] = f"GPU{index}" + (f".{seen[index]}" if of_index[index] > 1 else "")
        seen[index] += 1
    return labels


def _matrix(topology: TopologyView, labels: dict[str, str]) -> list[Text]:
    words = {
        ends: printable(link.kind) or _UNKNOWN
        for link in topology.links
        for ends in ((link.uuid, link.peer), (link.peer, link.uuid))
    }
    heads = ["", *(labels[uuid] for uuid in topology.cards), "NUMA"]
    rows = [
        Row(
            cells=[
                labels[one],
                *(
                    _ITSELF if one == other else words.get((one, other), _UNKNOWN)
                    for other in topology.cards
                ),
                _UNKNOWN if numa is None else str(numa),
            ]
        )
        for one, numa in zip(topology.cards, topology.numa_nodes, strict=True)
    ]
    return grid([GridColumn(header=head) for head in heads], rows, None)


def _idle(node: NodeView) -> frozenset[str]:
    """The cards that nothing is on and that take pods, by uuid."""
    return frozenset(
        card.uuid
        for card in node.cards
        if is_open(node, card) and not (card.tenants or card.used_milli or card.used_bytes)
    )


def _islands(
    islands: Iterable[IslandView], labels: dict[str, str], idle: Container[str]
) -> Iterable[str]:
    """A line for each bandwidth: islands as a whole, and what is left of those in use."""
    for bandwidth, level in groupby(islands, key=lambda island: island.bandwidth):
        phrases = "; ".join(
            f"{' '.join(labels[uuid] for uuid in island.cards)} ({_left(island, labels, idle)})"
            for island in level
        )
        yield f"{_speed(bandwidth)}: {phrases}"


def _left(island: IslandView, labels: dict[str, str], idle: Container[str]) -> str:
    if island.intact:
        return "intact"
    cards = " ".join(labels[uuid] for uuid in island.cards if uuid in idle)
    return f"in use, idle: {cards}" if cards else "in use, none idle"


def _speed(bandwidth: int) -> str:
    """The bandwidth; below a link's there is only nearness, and all cards of a node share it."""
    if bandwidth < _MIN:
        return "near" if bandwidth else "node"
    return f"{bandwidth / 1000:g} GB/s"
