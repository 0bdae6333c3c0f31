"""The changes between two views, one plain line each: for logs and without a terminal."""

from collections.abc import Iterator

from kubeshare_py.domain.printable import printable
from kubeshare_py.terminal.amounts import asks_of, counted, is_unclear
from kubeshare_py.terminal.cards import card_label, held_labels, node_state, ordered, warnings
from kubeshare_py.views.view import ClusterView, NodeView, PodView

_PLACING = frozenset({"assumed", "unconfirmed"})


def change_lines(before: ClusterView | None, after: ClusterView) -> list[str]:
    """Lines for nodes, cards, then pods; `before` None describes everything that is there."""
    lines = [*_warnings(before, after), *_nodes(before, after), *_pods(before, after)]
    return [printable(line) for line in lines]


def _warnings(before: ClusterView | None, after: ClusterView) -> Iterator[str]:
    known = set(warnings(before)) if before is not None else set()
    yield from (sentence for sentence in warnings(after) if sentence not in known)


def _nodes(before: ClusterView | None, after: ClusterView) -> Iterator[str]:
    old = {node.name: node for node in before.nodes} if before is not None else {}
    new = {node.name: node for node in after.nodes}
    yield from (f"node {name} gone" for name in old if name not in new)
    for name, node in new.items():
        if name not in old:
            yield f"node {name} appeared with {_cards(node)}{_state(node)}"
        elif old[name] != node:
            yield from _node_changes(old[name], node)


def _node_changes(old: NodeView, new: NodeView) -> Iterator[str]:
    if node_state(old) != node_state(new):
        yield f"node {new.name}: {node_state(new) or 'in order again'}"
    if _cards(old) != _cards(new):
        yield f"node {new.name} has {_cards(new)}"
    healthy = {card.uuid: card.healthy for card in old.cards}
    for card in ordered(new.cards):
        if healthy.get(card.uuid, True) != card.healthy:
            state = "healthy again" if card.healthy else "unhealthy"
            yield f"GPU {card_label(card)} of {new.name} ({card.uuid}) is {state}"


def _cards(node: NodeView) -> str:
    models = sorted({card.model for card in node.cards if card.known and card.model})
    named = f" ({', '.join(models)})" if models else ""
    return counted(sum(card.known for card in node.cards), "GPU") + named


def _state(node: NodeView) -> str:
    return f", {node_state(node)}" if node_state(node) else ""


def _pods(before: ClusterView | None, after: ClusterView) -> Iterator[str]:
    old = dict(_pod_lines(before)) if before is not None else {}
    new = dict(_pod_lines(after))
    for pod in before.pods if before is not None else ():
        if pod.uid not in new:
            yield f"pod {pod.namespace}/{pod.name} gone"
    yield from (line for uid, line in new.items() if old.get(uid) != line)


def _pod_lines(view: ClusterView) -> Iterator[tuple[str, str]]:
    """Each pod's uid and its line."""
    for pod in view.pods:
        yield pod.uid, _pod(pod, held_labels(pod))


def _pod(pod: PodView, held: str) -> str:
    state = "being bound" if pod.state in _PLACING else pod.state
    place = f" to {pod.node}" + (f" GPU {held}" if held else "") if pod.node else ""
    asked = "" if is_unclear(pod) else f" ({asks_of(pod)})"
    line = f"pod {pod.namespace}/{pod.name} {state}{place}{asked}"
    return f"{line}: {pod.message}" if pod.message else line
