"""`kubectl kubeshare gpus`: a line for each card, and with `--summary` one for each node.

The summary keeps the columns that users of kubectl-inspect-gpushare know.
"""

from collections.abc import Sequence

from rich.text import Text

from kubeshare_py.terminal.amounts import gib, gpu_count, gpus, percent
from kubeshare_py.terminal.card_matrix import MatrixRow, by_index, card_matrix
from kubeshare_py.terminal.cards import (
    UNNAMED,
    card_label,
    card_state,
    free_and_closed,
    isolation,
    models,
    node_state,
    ordered,
    sorted_nodes,
    total_bytes,
    total_milli,
    used_bytes,
    used_milli,
)
from kubeshare_py.terminal.grid import NONE, SEPARATOR, GridColumn, Row, joined, names_in
from kubeshare_py.terminal.table import Table
from kubeshare_py.views.view import CardView, ClusterView, NodeView, TenantView

#: Stands for the index of a card that is not in the inventory.
NO_INDEX = "-"
_STATE = 5
#: Dialects that go without saying: KubeShare's labels, and none.
_OWN = ("", "sharedgpu")


def shown_nodes(view: ClusterView, names: Sequence[str] = ()) -> list[NodeView]:
    """The nodes to show, by name: the named ones, whatever is in them, or all that have cards."""
    return sorted_nodes(
        node for node in view.nodes if (node.name in names if names else node.cards)
    )


def card_table(view: ClusterView, nodes: Sequence[NodeView], *, wide: bool = False) -> Table:
    """One line for each card, its node's name first; `wide` adds uuid, address, isolation."""
    overcommitted = frozenset(view.overcommitted)
    held = [(node, card) for node in nodes for card in ordered(node.cards)]
    rows = [_row(node, card, overcommitted, wide) for node, card in held]
    return Table(
        columns=[
            GridColumn(header="NODE", least=10),
            GridColumn(header="GPU"),
            GridColumn(header="MODEL", least=8),
            GridColumn(header="MEMORY(GiB)"),
            GridColumn(header="SHARE"),
            GridColumn(header="STATE", least=8),
            *(
                [GridColumn(header=head) for head in ("UUID", "ADDRESS", "ISOLATION")]
                if wide
                else ()
            ),
            GridColumn(header="PODS", least=12, fit=names_in),
        ],
        rows=rows,
        keys=[f"{node.name} {card.uuid}" for node, card in held],
        state=_STATE,
    )


def summary(view: ClusterView, nodes: Sequence[NodeView], width: int | None) -> Text:
    """One line for each node with a column for each card, then the cluster's totals."""
    lines: list[Text] = []
    if nodes:
        lines += [*_matrix(nodes, frozenset(view.overcommitted), width), Text()]
    return joined([*lines, *totals(view)])


def totals(view: ClusterView) -> list[Text]:
    """The whole cluster's memory and share, and what of it new pods may get."""
    used, total = used_bytes(view.nodes), total_bytes(view.nodes)
    share, cards = used_milli(view.nodes), total_milli(view.nodes)
    return [
        Text("Allocated/Total GPU Memory In Cluster:"),
        Text(f"{gib(used)}/{gib(total)} GiB ({percent(used, total)}%)", style="bold"),
        Text("Allocated/Total GPUs In Cluster:"),
        Text(f"{gpu_count(share)}/{gpu_count(cards)} ({percent(share, cards)}%)", style="bold"),
        Text("Free GPUs In Cluster:"),
        Text(free_and_closed(view.nodes), style="bold"),
    ]


def _row(
    node: NodeView, card: CardView, overcommitted: frozenset[tuple[str, str]], wide: bool
) -> Row:
    words = (card_state(node, card, overcommitted), node_state(node))
    trouble = SEPARATOR.join(filter(None, words))
    ready = "; ".join(text for text, _ in isolation([card]))
    cells = [
        node.name,
        # A card that is not in the inventory has no index: only its uuid says which one it is.
        str(card.index) if card.index >= 0 else NO_INDEX if wide else card.uuid,
        card.model or NONE,
        f"{gib(card.used_bytes)}/{gib(card.memory_bytes)}",
        f"{gpus(card.used_milli)}/{gpus(card.capacity_milli if card.known else 0)}",
        trouble or "ok",
        *((card.uuid, node.address or NONE, ready or NONE) if wide else ()),
        SEPARATOR.join(_tenants(card)) or NONE,
    ]
    return Row(cells=cells, style="red" if words[0] else "yellow" if words[1] else "")


def _tenants(card: CardView) -> list[str]:
    """Names of those that the reader may see, and how many others there are.

    Behind a name is the dialect, unless it is this project's own, and what the card is called in
    the pod's namespace.
    """
    named = [
        " ".join(
            [f"{one.namespace}/{one.name}", *([f"({said})"] if (said := _behind(one)) else ())]
        )
        for one in card.tenants
        if one.name
    ]
    others = len(card.tenants) - len(named)
    return named + ([f"{others} {UNNAMED}"] if others else [])


def _behind(tenant: TenantView) -> str:
    words = (tenant.dialect if tenant.dialect not in _OWN else "", tenant.card_name)
    return " ".join(filter(None, words))


def _states(node: NodeView, overcommitted: frozenset[tuple[str, str]]) -> str:
    """What is special about a node and its cards: `SchedulingDisabled, GPU 3 unhealthy`."""
    by_state: dict[str, list[str]] = {}
    for card in ordered(node.cards):
        state = card_state(node, card, overcommitted)
        if state:
            by_state.setdefault(state, []).append(card_label(card))
    words = [f"GPU {','.join(labels)} {state}" for state, labels in by_state.items()]
    return SEPARATOR.join(filter(None, (node_state(node), *words))) or "ok"


def _matrix(
    nodes: Sequence[NodeView], overcommitted: frozenset[tuple[str, str]], width: int | None
) -> list[Text]:
    rows = [
        MatrixRow(
            lead=(
                *(node.name, node.address or "unknown"),
                *(models((node,)) or NONE, _states(node, overcommitted)),
            ),
            by_card={label: _fraction(cards) for label, cards in by_index(node.cards).items()},
            tail=_fraction(node.cards),
        )
        for node in nodes
    ]
    return card_matrix(
        rows,
        heads=("NAME", "IPADDRESS", "MODEL", "STATE", "GPU Memory(GiB)"),
        amount="Allocated/Total",
        empty="0/0",
        width=width,
    )


def _fraction(cards: Sequence[CardView]) -> str:
    used = sum(card.used_bytes for card in cards)
    return f"{gib(used)}/{gib(sum(card.memory_bytes for card in cards))}"
