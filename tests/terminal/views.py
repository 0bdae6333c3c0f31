"""Small views for tests of what people see."""

from typing import Any

from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.views.view import (
    CardView,
    ClusterView,
    HoldingView,
    NodeView,
    NodeWhy,
    PodView,
    ProspectView,
    TenantView,
    WhyView,
)
from tests.making import GIB, MODEL

#: 90 minutes after the views' pods were created, in seconds since 1970.
NOW = 1767323045.0 + 5400


def a_tenant(name: str = "a", milli: int = 500, gib: int = 20, **fields: Any) -> TenantView:
    given: dict[str, Any] = {"namespace": "default", "dialect": "sharedgpu", **fields}
    return TenantView(name=name, milli=milli, memory_bytes=gib * GIB, **given)


def a_card(index: int, *tenants: TenantView, node: str = "n1", **fields: Any) -> CardView:
    given: dict[str, Any] = {
        "model": MODEL,
        "memory_bytes": 40 * GIB,
        "used_bytes": sum(tenant.memory_bytes for tenant in tenants),
        "used_milli": sum(tenant.milli for tenant in tenants),
        **fields,
    }
    return CardView(uuid=f"GPU-{node}-{index}", index=index, tenants=tenants, **given)


def a_pod_view(name: str = "a", state: str = "bound", **fields: Any) -> PodView:
    """Of its cards it holds what it asks for; their indexes are at the ends of their uuids."""
    given: dict[str, Any] = {
        "namespace": "default",
        "uid": f"uid-{name}",
        "count": 1,
        "milli": 500,
        "created": "2026-01-02T03:04:05Z",
        **fields,
    }
    holds = tuple(
        HoldingView(
            uuid=uuid,
            index=int(uuid.rpartition("-")[2]),
            milli=given["milli"],
            memory_bytes=given.get("memory_bytes") or 40 * GIB,
        )
        for uuid in given.get("cards", ())
    )
    return PodView(name=name, state=state, **{"holds": holds, **given})


def a_view(*nodes: NodeView, **fields: Any) -> ClusterView:
    given: dict[str, Any] = {
        "scheduler": "kubeshare-scheduler",
        "ready": True,
        "inventory": "read",
        **fields,
    }
    return ClusterView(nodes=nodes, **given)


def a_small_view() -> ClusterView:
    """Two nodes, three pods: one on a card, one on two, one that waits."""
    one, two = a_tenant("one"), a_tenant("two", milli=1000, gib=40)
    first = a_card(0, one)
    return a_view(
        NodeView(name="n1", address="10.0.0.1", cards=(first, a_card(1))),
        NodeView(
            name="n2",
            address="10.0.0.2",
            cards=(a_card(0, two, node="n2"), a_card(1, two, node="n2")),
        ),
        NodeView(name="cpu", address="10.0.0.3"),
        pods=(
            a_pod_view("one", node="n1", cards=("GPU-n1-0",), memory_bytes=20 * GIB),
            a_pod_view("two", node="n2", cards=("GPU-n2-0", "GPU-n2-1"), count=2, milli=1000),
            a_pod_view(
                "big",
                "waiting",
                namespace="team",
                count=4,
                milli=1000,
                message="0/3 nodes are available: 1 no GPU, 2 Insufficient GPU.",
            ),
        ),
    )


def a_why() -> WhyView:
    """A pod that misses memory on one card, share on another, and everything on a third node."""
    return WhyView(
        pod=a_pod_view("train", "waiting", memory_bytes=30 * GIB, label_priority=50),
        message="0/2 nodes are available: 1 Insufficient GPU memory, 1 no GPU.",
        nodes=(
            NodeWhy(name="cpu", fits=False, reasons=("no GPU",)),
            NodeWhy(
                name="n1",
                fits=False,
                reasons=("Insufficient GPU memory",),
                shortfalls=(
                    lacks("GPU-n1-0", "gpu memory", 30 * GIB, 20 * GIB),
                    lacks("GPU-n1-1", "gpu", 500, 250),
                ),
            ),
        ),
        advice=("It fits on n1 if it asks for at most 20.0 GiB.",),
        indexes={"GPU-n1-0": 0, "GPU-n1-1": 1},
    )


def a_fitting(name: str = "train", notes: tuple[str, ...] = ()) -> ProspectView:
    """A pod that would get both cards of a node at once."""
    pod = a_pod_view(name, "waiting", node="n1", cards=("GPU-n1-0", "GPU-n1-1"))
    why = WhyView(pod=pod, message="", indexes={"GPU-n1-0": 0, "GPU-n1-1": 1})
    return ProspectView(fits=True, why=why, notes=notes)


def lacks(uuid: str, resource: str, asked: int, free: int) -> Shortfall:
    memory = resource == "gpu memory"
    return Shortfall(
        reason="Insufficient GPU memory" if memory else "Insufficient GPU",
        subject=uuid,
        resource=resource,
        asked=asked,
        free=free,
        unit="bytes" if memory else "milli",
    )
