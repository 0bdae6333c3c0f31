"""Values for tests: a call says only what the test is about."""

from typing import Any

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME, read
from kubeshare_py.domain.events import Event, InventoryRead, NodesListed, PodsListed
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.domain.request import ContainerClaim, ContainerRef, GpuClaim, GpuRequest
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.scheduling.machine import LINGERING_S, Machine
from kubeshare_py.scheduling.pod_groups.gang_repair import RepairRules
from kubeshare_py.scheduling.reservations.reservation_patience import ReservationRules

GIB = 1 << 30
NO_PREEMPTION = {"profiles": [{"plugins": {"postFilter": {"disabled": [{"name": "*"}]}}}]}
MODEL = "NVIDIA-A100-SXM4-40GB"


def a_gpu(uuid: str = "GPU-a", **fields: Any) -> Gpu:
    """A healthy 40 GiB card."""
    given: dict[str, Any] = {"index": 0, "model": MODEL, "memory_bytes": 40 * GIB, **fields}
    return Gpu(uuid=GpuUuid(uuid), **given)


def a_node(name: str = "n1", *, cpu: int = 64_000, pods: int = 110, **fields: Any) -> Node:
    """A node with room."""
    amounts = (("cpu", cpu), ("memory", 512 * GIB), ("pods", pods))
    return Node(name=NodeName(name), **{"allocatable": amounts, **fields})


def a_claim(milli: int = 500, **fields: Any) -> GpuClaim:
    """A share of one card."""
    return GpuClaim(milli=milli, **fields)


def whole(count: int, **fields: Any) -> GpuClaim:
    """Whole cards."""
    return GpuClaim(milli=1000, count=count, exclusive=True, **fields)


def a_shape(*claims: GpuClaim | None, cpu: int = 100, **fields: Any) -> Shape:
    """A small pod's shape; None is no claim."""
    asked = tuple(claim for claim in claims if claim is not None)
    shared = any(not claim.exclusive for claim in asked)
    given: dict[str, Any] = {"resources": (("cpu", cpu),), "needs_port": shared, **fields}
    return Shape(claims=asked, **given)


def a_pod(name: str = "p", shape: Shape | None = None, **fields: Any) -> Pod:
    """A pod for our scheduler; its uid is `uid-<name>`."""
    shape = shape or a_shape()
    claim = shape.claim
    request = None
    if len(shape.claims) > 1:
        claims = tuple(
            ContainerClaim(claim=one, container=ContainerRef(False, index), limit_milli=1000)
            for index, one in enumerate(shape.claims)
        )
        request = GpuRequest(
            claims=claims,
            dialect="sharedgpu",
            relation=shape.relation,
            needs_port=shape.needs_port,
        )
    if claim is not None:
        request = GpuRequest.of_pod(
            claim, dialect="sharedgpu", limit_milli=1000, needs_port=shape.needs_port
        )
    given: dict[str, Any] = {"scheduler_name": SCHEDULER_NAME, "request": request, **fields}
    return Pod(uid=PodUid(f"uid-{name}"), key=PodKey("default", name), shape=shape, **given)


def a_machine(
    document: object = None,
    rules: RepairRules | None = None,
    name: str = "test",
    reservation_after_s: float = 0.0,
    reservation_patience_s: float = 0.0,
    lingering_s: float = LINGERING_S,
    max_waiting: int = 0,
) -> Machine:
    """A machine that evicts nobody for others, or that of a configuration document."""
    read_document = read(NO_PREEMPTION if document is None else document)
    reservations = ReservationRules(reservation_after_s, reservation_patience_s)
    made = profiles(read_document, IN_TREE)
    return Machine(
        made, name, rules, reservations, lingering_s=lingering_s, max_waiting=max_waiting
    )


def a_cluster(cards: dict[str, int], **node_fields: Any) -> list[Event]:
    """Events that show nodes with so many cards each; uuids are GPU-<node>-<index>."""
    nodes = tuple(a_node(name, **node_fields) for name in cards)
    inventory = tuple((NodeName(name), some_gpus(name, count)) for name, count in cards.items())
    return [PodsListed((), 0.0), NodesListed(nodes), InventoryRead(inventory)]


def some_gpus(node: str, count: int) -> tuple[Gpu, ...]:
    """The cards of a node."""
    return tuple(a_gpu(f"GPU-{node}-{index}", index=index) for index in range(count))
