"""`kubectl kubeshare gpus --details`: one row for each pod that holds a part of a card."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.text import Text

from kubeshare_py.domain.printable import printable
from kubeshare_py.terminal.amounts import counted, gib, gpus, percent
from kubeshare_py.terminal.card_matrix import MatrixRow, card_matrix, index_label
from kubeshare_py.terminal.cards import (
    UNNAMED,
    claims,
    isolation,
    node_state,
    ordered,
    scaling,
    total_bytes,
    total_milli,
    unheld,
    used_bytes,
    used_milli,
)
from kubeshare_py.terminal.gpu_tables import totals
from kubeshare_py.terminal.grid import NONE, joined
from kubeshare_py.views.holding import container_words
from kubeshare_py.views.view import ClusterView, NodeView


def pod_details(view: ClusterView, nodes: Sequence[NodeView], width: int | None) -> Text:
    """The nodes' pods, memory by card, then the cluster's totals."""
    lines: list[Text] = []
    for node in nodes:
        lines += [*_details(node, width), Text()]
    return joined([*lines, *totals(view)])


def _details(node: NodeView, width: int | None) -> list[Text]:
    state = node_state(node)
    lines = [
        Text(f"NAME:       {printable(node.name)}", style="bold"),
        Text(f"IPADDRESS:  {printable(node.address) or 'unknown'}"),
        *([Text(f"STATE:      {state}", style="yellow")] if state else []),
        Text(),
    ]
    rows = _pods(node)
    if rows:
        lines += card_matrix(
            rows,
            heads=("NAME", "NAMESPACE", "DIALECT", "SHARE"),
            amount="Allocated GiB",
            empty="0.0",
            width=width,
        )
    used, total = used_bytes((node,)), total_bytes((node,))
    share, cards = used_milli((node,)), total_milli((node,))
    lines.append(
        Text(
            f"Allocated:  {gib(used)} GiB ({percent(used, total)}%), "
            f"{gpus(share)} GPU ({percent(share, cards)}%)"
        )
    )
    lines.append(Text(f"Total:      {gib(total)} GiB, {gpus(cards)} GPU"))
    lines += [Text(f"Scaled:     {printable(text)}") for text in scaling(node.cards)]
    lines += [
        Text(f"Isolation:  {printable(text)}", style="" if is_ready else "yellow")
        for text, is_ready in isolation(node.cards)
    ]
    lines += [Text(f"Claimed:    {printable(one)}", style="red") for one in claims(node.cards)]
    loose = [f"{part} of {counted(pods, 'pod')}" for part, pods in unheld(node.cards).items()]
    if loose:
        lines.append(Text(f"Not held:   {', '.join(loose)}", style="yellow"))
    return lines


def _pods(node: NodeView) -> list[MatrixRow]:
    """Each pod once, however many cards it has, and below it each container with a part of them."""
    amounts: dict[tuple[str, ...], dict[str, _Held]] = {}
    for card in ordered(node.cards):
        label = index_label(card)
        for tenant in card.tenants:
            lead = (tenant.name or UNNAMED, tenant.namespace or NONE, tenant.dialect or NONE)
            whole = amounts.setdefault(lead, {}).setdefault("", _Held())
            whole.add(label, tenant.milli, tenant.memory_bytes)
            for part in tenant.containers:
                held = amounts[lead].setdefault(part.container, _Held())
                held.add(label, part.milli, part.memory_bytes)
    return [
        MatrixRow(
            lead=(f"  {container_words(container)}", *lead[1:]) if container else lead,
            by_card={label: gib(amount) for label, amount in held.by_card.items()},
            tail=gpus(held.milli),
        )
        for lead, parts in sorted(amounts.items())
        for container, held in sorted(parts.items())
    ]


@dataclass(slots=True)
class _Held:
    """A pod's or container's share of a node's cards, and its memory by card."""

    milli: int = 0
    by_card: dict[str, int] = field(default_factory=dict)

    def add(self, label: str, milli: int, memory_bytes: int) -> None:
        self.milli += milli
        self.by_card[label] = self.by_card.get(label, 0) + memory_bytes
