"""`kubectl kubeshare gpus`: cards and who is on them, node by node, and the cluster's totals.

The summary keeps the columns that users of kubectl-inspect-gpushare know.
"""

from collections.abc import Sequence

from rich.text import Text

from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.view import CardView, ClusterView, NodeView
from kubeshare_py.terminal.amounts import gib, gpus, percent
from kubeshare_py.terminal.card_matrix import MatrixRow, by_index, card_matrix
from kubeshare_py.terminal.cards import (
    card_label,
    card_state,
    known_cards,
    node_state,
    ordered,
    total_bytes,
    used_bytes,
    used_milli,
    warnings,
)
from kubeshare_py.terminal.grid import (
    GAP,
    SEPARATOR,
    Column,
    Row,
    grouped,
    joined,
    names_in,
    printable,
)


def shown_nodes(view: ClusterView, name: str) -> list[NodeView]:
    """The nodes to show: the named one, whatever is in it, or all that have cards."""
    if name:
        return [node for node in view.nodes if node.name == name]
    return [node for node in view.nodes if node.cards]


def card_tables(view: ClusterView, nodes: Sequence[NodeView], width: int | None) -> Text:
    """Each card of the nodes, then a summary and the cluster's totals."""
    lines: list[Text] = []
    if any(node.cards for node in nodes):
        lines += [*_cards(view, nodes, width), Text()]
    if nodes:
        lines += [*_summary(nodes, width), Text()]
    return joined([*lines, *totals(view)])


def totals(view: ClusterView) -> list[Text]:
    """The whole cluster's memory and share, and what to know before believing them."""
    used, total = used_bytes(view.nodes), total_bytes(view.nodes)
    share, cards = used_milli(view.nodes), known_cards(view.nodes) * WHOLE_MILLI
    return [
        Text("Allocated/Total GPU Memory In Cluster:"),
        Text(f"{gib(used)}/{gib(total)} GiB ({percent(used, total)}%)", style="bold"),
        Text("Allocated/Total GPUs In Cluster:"),
        Text(f"{gpus(share)}/{gpus(cards)} ({percent(share, cards)}%)", style="bold"),
        *(Text(printable(sentence), style="yellow") for sentence in warnings(view)),
    ]


def _cards(view: ClusterView, nodes: Sequence[NodeView], width: int | None) -> list[Text]:
    overcommitted = frozenset(view.overcommitted)
    held = [(node, card) for node in nodes for card in ordered(node.cards)]
    states = [card_state(node, card, overcommitted) for node, card in held]
    rows = [
        Row(cells=_card_cells(card, state, any(states)), style="red" if state else "")
        for (_, card), state in zip(held, states, strict=True)
    ]
    columns = [
        Column(header="GPU", least=8),
        Column(header="MODEL"),
        Column(header="MEMORY(GiB)"),
        Column(header="SHARE"),
        *([Column(header="STATE", least=8)] if any(states) else []),
        Column(header="PODS", least=12, fit=names_in),
    ]
    header, *groups = grouped(columns, rows, None if width is None else width - GAP)
    following = iter(groups)
    lines = [Text(" " * GAP) + line for line in header]
    for node in nodes:
        lines.append(_heading(node))
        lines += [Text(" " * GAP) + line for _ in node.cards for line in next(following)]
    return lines


def _card_cells(card: CardView, state: str, with_state: bool) -> list[str]:
    return [
        card_label(card),
        card.model,
        f"{gib(card.used_bytes)}/{gib(card.memory_bytes)}",
        f"{gpus(card.used_milli)}/{gpus(WHOLE_MILLI if card.known else 0)}",
        *([state] if with_state else []),
        SEPARATOR.join(f"{tenant.namespace}/{tenant.name}" for tenant in card.tenants),
    ]


def _heading(node: NodeView) -> Text:
    heading = Text(printable(f"{node.name}  {node.address}".rstrip()), style="bold")
    state = node_state(node)
    return Text.assemble(heading, (f"  ({state})", "yellow")) if state else heading


def _summary(nodes: Sequence[NodeView], width: int | None) -> list[Text]:
    rows = [
        MatrixRow(
            lead=(node.name, node.address or "unknown"),
            by_card={label: _fraction(cards) for label, cards in by_index(node.cards).items()},
            tail=_fraction(node.cards),
        )
        for node in nodes
    ]
    return card_matrix(
        rows,
        heads=("NAME", "IPADDRESS", "GPU Memory(GiB)"),
        amount="Allocated/Total",
        empty="0/0",
        width=width,
    )


def _fraction(cards: Sequence[CardView]) -> str:
    used = sum(card.used_bytes for card in cards)
    return f"{gib(used)}/{gib(sum(card.memory_bytes for card in cards))}"
