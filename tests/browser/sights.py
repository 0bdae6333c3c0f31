"""A cluster to look at: several teams, models and troubles, the same each time."""

from collections.abc import Iterator
from itertools import count

from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.values import replace
from kubeshare_py.views.view import (
    CardView,
    ClusterView,
    HoldingView,
    IslandView,
    NodeView,
    NodeWhy,
    PodView,
    TenantView,
    TopologyView,
    WhyView,
)

GIB = 2**30
H100, A100, L40S = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-40GB", "NVIDIA-L40S"
SIZES = {H100: 80, A100: 40, L40S: 48}
#: Parts of cards by team; each letter is a card of a node, in order.
TEAMS = {
    "a": (("vision", "detector", 500), ("vision", "labeller", 250)),
    "b": (("speech", "whisper-tune", 1000),),
    "c": (("search", "embedder", 250), ("search", "ranker", 250), ("vision", "viewer", 125)),
    "d": (("research", "llm-pretrain", 1000),),
    "e": (("platform", "notebook-ann", 125), ("research", "notebook-bo", 250)),
    "f": (("speech", "align", 375), ("search", "index", 375), ("platform", "ci", 125)),
    ".": (),
}
NODES = (
    ("h100-1", H100, "dddddddd"),
    ("h100-2", H100, "dddddddd"),
    ("h100-3", H100, "bbbba.f."),
    ("a100-1", A100, "acfeaccf"),
    ("a100-2", A100, "bb.acef."),
    ("a100-10", A100, "ccaa...."),
    ("l40s-1", L40S, "eefc"),
    ("l40s-2", L40S, "f..e"),
)
CREATED = "2026-01-02T03:04:05Z"


def a_cluster() -> ClusterView:
    """Eight nodes with cards, one without, and three pods that wait."""
    numbers = count()
    nodes = [_node(name, model, letters, numbers) for name, model, letters in NODES]
    nodes[4] = _troubled(nodes[4])
    nodes[7] = replace(nodes[7], unschedulable=True)
    return ClusterView(
        scheduler="kubeshare-scheduler",
        ready=True,
        inventory="read",
        source="prometheus",
        nodes=(*nodes, NodeView(name="cpu-1")),
        pods=tuple(_pods(nodes)),
    )


def _node(name: str, model: str, letters: str, numbers: Iterator[int]) -> NodeView:
    cards = tuple(
        _card(name, index, model, letter, next(numbers)) for index, letter in enumerate(letters)
    )
    uuids = tuple(card.uuid for card in cards)
    islands = (IslandView(bandwidth=600_000, cards=uuids, intact=False),)
    topology = TopologyView(cards=uuids, numa_nodes=(None,) * len(uuids), links=(), islands=islands)
    return NodeView(name=name, cards=cards, topology=topology if len(uuids) > 4 else None)


def _card(node: str, index: int, model: str, letter: str, number: int) -> CardView:
    total = SIZES[model] * GIB
    tenants = tuple(
        TenantView(
            namespace=namespace,
            name=f"{name}-{number}" if name != "llm-pretrain" else f"{name}-{node[-1]}",
            milli=milli,
            memory_bytes=total * milli // 1000,
            exclusive=milli == 1000,
        )
        for namespace, name, milli in TEAMS[letter]
    )
    used = sum(one.milli for one in tenants)
    busy = used * (55 + number * 37 % 45) // 100
    return CardView(
        uuid=f"GPU-{number:08x}-0000-4000-8000-000000000000",
        index=index,
        model=model,
        memory_bytes=total,
        used_milli=used,
        used_bytes=sum(one.memory_bytes for one in tenants),
        tenants=tenants,
        busy_milli=busy,
        in_use_bytes=total * busy // 1100,
    )


def _troubled(node: NodeView) -> NodeView:
    cards = list(node.cards)
    cards[2] = replace(cards[2], healthy=False)
    cards[7] = replace(cards[7], reserved_milli=1000, reserved_for=("vision/pretrain",))
    return replace(node, cards=tuple(cards))


def _pods(nodes: list[NodeView]) -> Iterator[PodView]:
    held: dict[tuple[str, str, str], list[tuple[CardView, TenantView]]] = {}
    for node in nodes:
        for card in node.cards:
            for one in card.tenants:
                held.setdefault((one.namespace, one.name, node.name), []).append((card, one))
    for (namespace, name, node_name), parts in held.items():
        yield PodView(
            namespace=namespace,
            name=name,
            uid=f"uid-{namespace}-{name}",
            state="bound",
            profile="kubeshare-scheduler",
            created=CREATED,
            count=len(parts),
            milli=parts[0][1].milli,
            node=node_name,
            cards=tuple(card.uuid for card, _ in parts),
            holds=tuple(
                HoldingView(
                    uuid=card.uuid, index=card.index, milli=one.milli,
                    memory_bytes=one.memory_bytes,
                )
                for card, one in parts
            ),
        )  # fmt: skip
    for number, (name, priority, state, message) in enumerate(WAITING):
        yield PodView(
            namespace="vision",
            name=name,
            uid=f"uid-{name}",
            state=state,
            profile="kubeshare-scheduler",
            priority=priority,
            created=f"2026-01-02T03:0{number}:05Z",
            count=8,
            milli=1000,
            models=(H100,),
            message=message,
        )


LACKS = "0/9 nodes are available: 1 no GPU, 3 Insufficient GPU, 5 no GPU of model " + H100 + "."
WAITING = (
    ("pretrain", 0, "waiting", LACKS),
    ("pretrain-urgent", 1000, "waiting", LACKS),
    ("mistyped", 0, "gated", 'sharedgpu/gpu_limit="half": must be a decimal number'),
)


def why_pretrain() -> WhyView:
    """Why vision/pretrain waits."""
    pod = next(one for one in a_cluster().pods if one.name == "pretrain")
    return WhyView(
        pod=pod,
        message=LACKS,
        waits_for=f"8 cards of {H100}: those of h100-1 are held by research/llm-pretrain-1",
        nodes=(
            NodeWhy(
                name="h100-1", fits=False, alike=("h100-2",), reasons=("Insufficient GPU",),
                shortfalls=(Shortfall(reason="Insufficient GPU", asked=8, free=0, unit="count"),),
            ),
            NodeWhy(
                name="h100-3", fits=False, reasons=("Insufficient GPU",),
                shortfalls=(Shortfall(reason="Insufficient GPU", asked=8, free=2, unit="count"),),
            ),
            NodeWhy(
                name="a100-1", fits=False, alike=("a100-2", "a100-10"),
                reasons=(f"no GPU of model {H100}",),
            ),
        ),
        advice=(
            "it fits on h100-1 when research/llm-pretrain-1 ends (it holds 8 GPUs)",
            "it fits on h100-3 now with 2 GPUs",
        ),
    )  # fmt: skip
