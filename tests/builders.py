"""Values for tests: a call says only what the test is about."""

from typing import Any

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME, read
from kubeshare_py.domain.events import Event, InventoryRead, NodesListed, PodsListed
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.domain.request import ContainerClaim, ContainerRef, GpuRequest
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.scheduling.machine import LINGERING_S, Machine
from kubeshare_py.scheduling.pod_groups.gang_repair import RepairRules
from kubeshare_py.scheduling.queue.queue_rules import QueueRules
from kubeshare_py.scheduling.reservations.reservation_patience import ReservationRules
from kubeshare_py.testing import GIB, MODEL, a_claim, a_gpu, a_node, a_shape, some_gpus, whole

__all__ = [
    "GIB",
    "MODEL",
    "NO_PREEMPTION",
    "a_claim",
    "a_cluster",
    "a_gpu",
    "a_machine",
    "a_node",
    "a_pod",
    "a_shape",
    "some_gpus",
    "whole",
]

NO_PREEMPTION = {"profiles": [{"plugins": {"postFilter": {"disabled": [{"name": "*"}]}}}]}


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
        made, name, rules, reservations, lingering_s=lingering_s, waiting=QueueRules(max_waiting)
    )


def a_cluster(cards: dict[str, int], **node_fields: Any) -> list[Event]:
    """Events that show nodes with so many cards each; uuids are GPU-<node>-<index>."""
    nodes = tuple(a_node(name, **node_fields) for name in cards)
    inventory = tuple((NodeName(name), some_gpus(name, count)) for name, count in cards.items())
    return [PodsListed((), 0.0), NodesListed(nodes), InventoryRead(inventory)]
