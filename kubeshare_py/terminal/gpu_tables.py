"""`kubectl kubeshare gpus`: a line for each card, and with `--summary` one for each node.

The summary keeps the columns that users of kubectl-inspect-gpushare know.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from rich.text import Text

from kubeshare_py.domain.card_reading import CardLink, CardReading, JudgedCard, as_labels
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.printable import printable
from kubeshare_py.terminal.cards import (
    UNKNOWN,
    UNNAMED,
    MatrixRow,
    busy,
    by_index,
    card_label,
    card_matrix,
    card_state,
    claims,
    counted,
    free_and_closed,
    gib,
    gpu_count,
    gpus,
    in_use,
    index_label,
    is_open,
    isolation,
    memory,
    models,
    node_state,
    ordered,
    percent,
    scaling,
    sorted_nodes,
    total_bytes,
    total_milli,
    unheld,
    unmeasured,
    used_bytes,
    used_milli,
)
from kubeshare_py.terminal.grid import (
    NONE,
    SEPARATOR,
    GridColumn,
    Row,
    Table,
    grid,
    joined,
    names_in,
    wrapped,
)
from kubeshare_py.views.view import (
    CardView,
    ClusterView,
    IslandView,
    NodeView,
    RingView,
    TenantView,
    TopologyView,
    container_words,
)

#: Stands for the index of a card that is not in the inventory.
NO_INDEX = "-"
_STATE = 6
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
            GridColumn(header="GPU", right=True),
            GridColumn(header="MODEL", least=8),
            GridColumn(header="MEMORY(GiB)", right=True),
            GridColumn(header="SHARE", right=True),
            GridColumn(header="BUSY/GiB", right=True),
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
        lines += [*_node_matrix(nodes, frozenset(view.overcommitted), width), Text()]
    return joined([*lines, *totals(view)])


def totals(view: ClusterView) -> list[Text]:
    """The whole cluster's memory and share, what of it new pods may get, and the cards' source."""
    used, total = used_bytes(view.nodes), total_bytes(view.nodes)
    share, cards = used_milli(view.nodes), total_milli(view.nodes)
    return [
        Text("Allocated/Total GPU Memory In Cluster:"),
        Text(f"{gib(used)}/{gib(total)} GiB ({percent(used, total)}%)", style="bold"),
        Text("Allocated/Total GPUs In Cluster:"),
        Text(f"{gpu_count(share)}/{gpu_count(cards)} ({percent(share, cards)}%)", style="bold"),
        Text("Free GPUs In Cluster:"),
        Text(free_and_closed(view.nodes), style="bold"),
        *_source(view),
    ]


def _source(view: ClusterView) -> list[Text]:
    """Where the cards come from now; nothing if the scheduler does not say."""
    if not view.source:
        return []
    return [Text("Source Of Cards:"), Text(printable(view.source), style="bold")]


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
        UNKNOWN if unmeasured(card) else f"{busy(card)}/{in_use(card)}",
        trouble or "ok",
        *((card.uuid, node.address or NONE, ready or NONE) if wide else ()),
        SEPARATOR.join(_tenants(card)) or NONE,
    ]
    return Row(cells=cells, style="red" if words[0] else "yellow" if words[1] else "")


def _tenants(card: CardView) -> list[str]:
    """Names of those that the reader may see, and how many others there are.

    Behind a name is the dialect, unless it is this project's own, or the SharePod that the pod was
    made of, and what the card is called in the pod's namespace. No comma: that ends a name.
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
    asked = tenant.dialect if tenant.dialect not in _OWN else ""
    if tenant.share_pod:
        asked = f"pod of SharePod {tenant.share_pod}"
    called = f"GPUID {tenant.card_name}" if tenant.card_name else ""
    return " with ".join(filter(None, (asked, called)))


def _states(node: NodeView, overcommitted: frozenset[tuple[str, str]]) -> str:
    """What is special about a node and its cards: `SchedulingDisabled, GPU 3 unhealthy`."""
    by_state: dict[str, list[str]] = {}
    for card in ordered(node.cards):
        state = card_state(node, card, overcommitted)
        if state:
            by_state.setdefault(state, []).append(card_label(card))
    words = [f"GPU {','.join(labels)} {state}" for state, labels in by_state.items()]
    return SEPARATOR.join(filter(None, (node_state(node), *words))) or "ok"


def _node_matrix(
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


# `kubectl kubeshare gpus --details`: one row for each pod that holds a part of a card.


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
    lines.append(Text(f"In use:     {printable(_in_use(node.cards)) or UNKNOWN}"))
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


def _in_use(cards: Sequence[CardView]) -> str:
    """What is really used of each card of which something is known."""
    return "; ".join(
        f"GPU {card_label(card)} {busy(card)} busy, {in_use(card)} GiB"
        for card in ordered(cards)
        if not unmeasured(card)
    )


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


# `kubectl kubeshare gpus --topology`: how a node's cards are joined, and its islands.


_ITSELF, _UNKNOWN, _NUMA = "X", "-", "NUMA"
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
    lines += _topology_matrix(node.topology, labels)
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


def _topology_matrix(topology: TopologyView, labels: dict[str, str]) -> list[Text]:
    words = {
        ends: printable(link.kind) or _UNKNOWN
        for link in topology.links
        for ends in ((link.uuid, link.peer), (link.peer, link.uuid))
    }
    heads = ["", *(labels[uuid] for uuid in topology.cards), _NUMA]
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
    columns = [GridColumn(header=head) for head in heads]
    return grid(columns, rows, None)


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


# `kubeshare-collector --once`: the cards of one node, and how they reach each other.
#
# Plain columns: rich, which kubectl's tables use, is 2 MiB that a collector on every node can do
# without.


_NOTHING, _GAP = "-", "  "
_HEADER = ("CARD", "UUID", "MODEL", "MEMORY", "USED", "BUSY", "NUMA", "BUS", "STATE")


def node_cards(
    node: NodeName, driver: str, cards: Sequence[JudgedCard], links: Sequence[CardLink]
) -> str:
    """A row for each card, MIG instances below theirs, and the matrix of links."""
    about = f"driver {driver}" if driver else "no driver"
    lines = [f"{node}: {about}, {len(cards)} cards and instances"]
    if cards:
        lines += ["", *_aligned([_HEADER, *(_cells(card) for card in cards)])]
    lines += _isolation(cards)
    if links:
        lines += ["", *_aligned(_link_matrix([card.reading for card in cards], links))]
    return "\n".join(lines) + "\n"


def _cells(card: JudgedCard) -> list[str]:
    reading = card.reading
    cells = (
        str(reading.index) if reading.parent is None else "",
        reading.uuid,
        reading.profile or reading.model,
        memory(reading.memory_bytes) if reading.memory_bytes else None,
        None if reading.used_bytes is None else memory(reading.used_bytes),
        None if reading.busy_percent is None else f"{reading.busy_percent}%",
        None if reading.numa_node is None else str(reading.numa_node),
        reading.bus,
        _state(card),
    )
    return [_NOTHING if cell is None else cell for cell in cells]


def _state(card: JudgedCard) -> str:
    if card.faults:
        return ", ".join(card.faults)
    return "divided" if card.reading.divided else "healthy"


def _isolation(cards: Sequence[JudgedCard]) -> Iterator[str]:
    """Which back-ends are ready, as far as the node can see, for cards that are alike."""
    alike = Counter(as_labels(card.readiness) for card in cards if card.is_listed)
    for labels, count in sorted(alike.items(), key=lambda item: (-item[1], item[0])):
        if labels:
            words = ", ".join(f"{backend} {word}" for backend, word in labels)
            yield f"isolation of {count} of them: {words}"


def _link_matrix(cards: Sequence[CardReading], links: Sequence[CardLink]) -> list[list[str]]:
    kinds = {(link.uuid, link.peer): link.kind for link in links}
    whole = [card for card in cards if card.parent is None]
    rows = [["", *(str(card.index) for card in whole)]]
    for one in whole:
        words = [
            "X" if one is other else kinds.get((one.uuid, other.uuid), _NOTHING) for other in whole
        ]
        rows.append([str(one.index), *words])
    return rows


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
