"""Pods, gangs and machines for tests: a call says only what the test is about."""

from typing import Any

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME, read
from kubeshare_py.domain.events import Event, InventoryRead, NodesListed, PodsListed
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.node import NodeLock
from kubeshare_py.domain.pod import Pod, PodGroup, Shape
from kubeshare_py.domain.request import ContainerClaim, ContainerRef, GpuClaim, GpuRequest
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.scheduling.machine import LINGERING_S, Machine
from kubeshare_py.scheduling.pod_groups.gang_repair import RepairRules
from kubeshare_py.scheduling.queue.waiting_limit import QueueRules
from kubeshare_py.scheduling.reservation_policy import ReservationRules
from kubeshare_py.testing import GIB, MODEL, a_claim, a_gpu, a_node, a_shape, some_gpus, whole

__all__ = [
    "FREE",
    "GIB",
    "LOCK_KEY",
    "MODEL",
    "NO_PREEMPTION",
    "PREEMPTION",
    "a_claim",
    "a_cluster",
    "a_gpu",
    "a_group",
    "a_machine",
    "a_node",
    "a_pod",
    "a_shape",
    "a_share",
    "held_by",
    "members",
    "some_gpus",
    "whole",
]

NO_PREEMPTION = {"profiles": [{"plugins": {"postFilter": {"disabled": [{"name": "*"}]}}}]}
#: The configuration without any choice, which evicts pods for others.
PREEMPTION: dict[str, Any] = {}

LOCK_KEY = "example.com/lock"
#: A lock of a node that no pod has.
FREE = NodeLock(dialect="sharedgpu", key=LOCK_KEY)


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


def a_share(name: str = "p", milli: int = 1000, priority: int = 0, **fields: Any) -> Pod:
    """A pod that wants a share of one card."""
    return a_pod(name, a_shape(a_claim(milli)), priority=priority, **fields)


def a_group(minimum: int, name: str = "g", headcount: int = 0) -> PodGroup:
    """A group with this minimum."""
    return PodGroup(name=name, headcount=headcount or minimum, min_available=minimum)


def members(
    group: PodGroup, count: int, claim: GpuClaim | None = None, start: int = 0, **fields: Any
) -> list[Pod]:
    """Pods of a group, each with a whole card's share, named after it."""
    shape = a_shape(claim or a_claim(1000))
    numbers = range(start, start + count)
    return [a_pod(f"{group.name}-{number}", shape, group=group, **fields) for number in numbers]


def held_by(owner: str, key: str = LOCK_KEY) -> NodeLock:
    """The lock as this pod has it."""
    return replace(FREE, key=key, text=f"since,default,{owner}", owner=PodKey("default", owner))


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
