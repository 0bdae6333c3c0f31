"""What one tenant may do to the scheduler while another one only wants its pods placed.

Each kind is what happens before the measurement, and what happens in it so many times a second.
The events are those that a scheduler's watches would make of what the API server shows.
"""

import random
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from benchmarks.decisions import GIB, request_of
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.cluster_objects import Requirement, WatchedKind
from kubeshare_py.domain.events import (
    AnyObject,
    Event,
    NodeSeen,
    ObjectSeen,
    ObjectsListed,
    PodGone,
    PodSeen,
)
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import NodeTerm, Pod, PodClaim, PodGroup, PodVolumes, Shape
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.domain.storage import PersistentVolumeClaim, StorageClass
from kubeshare_py.domain.values import replace

SMALL = Shape(
    resources=(("cpu", 100), ("memory", GIB)), claims=(GpuClaim(milli=100),), needs_port=True
)
WHOLE = GpuClaim(count=8, milli=1000, exclusive=True)
TERMS, EDITED, GANG = 200, 30, 3
LARGE_TERMS, LARGE_VALUES, LARGE_PODS = 20, 2_000, 80
CROWD, CROWD_SHAPES = 50_000, 2_000
#: Claims of a class that is never answered, and pods with one each.
CLAIMS = 500
NEVER = StorageClass(name="never", provisioner="example.com/never-answers", waits=True)
#: Pods that the tenant has at once: with each one more the oldest is deleted.
MAX_PODS = 2_000


@dataclass(slots=True)
class Tenant:
    """The other tenant, which does the same to every cluster of so many nodes."""

    kind: str
    nodes: int
    number: int = 0
    rng: random.Random = field(default_factory=lambda: random.Random(7))
    pods: deque[PodUid] = field(default_factory=deque)
    #: The selected nodes of claims, and how often claims were written.
    selected: dict[int, str] = field(default_factory=dict)
    versions: int = 0

    def before(self) -> Iterator[Event]:
        """What is there when the measurement begins."""
        match self.kind:
            case "edits":
                yield from (PodSeen(self._edited(name)) for name in range(EDITED))
            case "preemptors":
                for node in range(self.nodes):
                    yield PodSeen(self.bound(f"top-{node}", node, 0, priority=1_000))
                    for card in range(1, 4):
                        yield PodSeen(self.bound(f"low-{node}-{card}", node, card))
            case "events":
                for node in range(self.nodes):
                    yield PodSeen(self.bound(f"bound-{node}", node, 0))
                yield from (PodSeen(self.pod(f"w{one}", self.large(one))) for one in range(2_000))
            case _:
                yield from self._waiting()

    def _waiting(self) -> Iterator[Event]:
        """Pods that wait, for the kinds that are about these."""
        match self.kind:
            case "large":
                terms = [self.heavy(one) for one in range(LARGE_PODS)]
                yield from (PodSeen(self.pod(f"h{one}", of)) for one, of in enumerate(terms))
                yield from (PodSeen(self.bound(f"bound-{one}", one, 0)) for one in range(50))
            case "crowd":
                for one in range(CROWD):
                    yield PodSeen(self.pod(f"c{one}", self.large(one % CROWD_SHAPES)))
                yield from (PodSeen(self.bound(f"bound-{one}", one, 0)) for one in range(50))
            case "claims":
                yield from _storage(self.claim(one) for one in range(CLAIMS))
                yield from (PodSeen(self.mounting(one)) for one in range(CLAIMS))
            case _:
                return

    def next(self) -> Iterator[Event]:
        """What the tenant does next."""
        self.number += 1
        number = self.number
        match self.kind:
            case "rest":
                return
            case "shapes":
                yield from self._created(self.pod(f"o{number}", self.large(number)))
            case "costly":
                yield from self._created(self.pod(f"o{number}", self.with_terms(number)))
            case "edits":
                yield PodSeen(self._edited(number % EDITED))
            case "gangs":
                yield from self._created(self._member(number))
            case "preemptors":
                resources = (("cpu", 1_000 + number), ("memory", GIB))
                shape = replace(SMALL, resources=resources, claims=(WHOLE,), needs_port=False)
                one = replace(self.pod(f"o{number}", shape), priority=100)
                yield from self._created(one)
            case "claims":
                # One pod goes and comes again, and the status of another's claim changes.
                one = self.mounting(number % CLAIMS)
                yield PodGone(one.uid)
                yield PodSeen(one)
                yield ObjectSeen(self.claim(self.rng.randrange(CLAIMS)))
            case _:
                yield from self._change(number)

    def _created(self, one: Pod) -> Iterator[Event]:
        self.pods.append(one.uid)
        yield PodSeen(one)
        if len(self.pods) > MAX_PODS:
            yield PodGone(self.pods.popleft())

    def _change(self, number: int) -> Iterator[Event]:
        """A change of the cluster, or of a pod that nothing follows from."""
        # Of the large pods and the crowd it is always the bound ones that come and go.
        what = number % 4 if self.kind == "events" else number % 2
        node = number // 4 % (self.nodes if self.kind == "events" else 50)
        match what:
            case 0:
                yield PodGone(PodUid(f"bound-{node}"))
            case 1:
                yield PodSeen(self.bound(f"bound-{node}", node, 0))
            case 2:
                allocatable = (("cpu", 128_000 - number % 2), ("memory", 1024 * GIB), ("pods", 250))
                yield NodeSeen(Node(name=NodeName(f"node-{node:05d}"), allocatable=allocatable))
            case _:
                one = self.rng.randrange(2_000)
                pod = self.pod(f"w{one}", self.large(one))
                yield PodSeen(replace(pod, labels=(("touched", str(number)),)))

    def claim(self, number: int) -> PersistentVolumeClaim:
        """A claim as it is after a write: it waits for the node of its pod, or for its volume."""
        self.versions += 1
        return PersistentVolumeClaim(
            namespace="other",
            name=f"c{number}",
            uid=f"claim-{number}",
            version=str(self.versions),
            class_name=NEVER.name,
            requested=GIB,
            selected_node=self.selected.get(number),
        )

    def mounting(self, number: int) -> Pod:
        """A pod that mounts the claim of this number."""
        volumes = PodVolumes(namespace="other", claims=(PodClaim(f"c{number}"),))
        return self.pod(f"mounts-{number}", replace(SMALL, volumes=volumes))

    def large(self, number: int) -> Shape:
        """Asks for more than any node has, as no other number does."""
        return replace(SMALL, resources=(("cpu", 200_000 + number), ("memory", GIB)))

    def with_terms(self, number: int) -> Shape:
        """The same with a required node affinity of many terms."""
        return replace(self.large(number), terms=MANY_TERMS)

    def heavy(self, number: int) -> Shape:
        """The same with as many values as 330 KB hold."""
        return replace(self.large(number), terms=_terms(str(number), LARGE_TERMS, LARGE_VALUES))

    def _edited(self, name: int) -> Pod:
        return self.pod(f"e{name}", self.with_terms(self.number))

    def _member(self, number: int) -> Pod:
        """Of every other gang a member is missing; those that are complete fit nowhere."""
        gang, member = divmod(number, GANG)
        name = gang if gang % 2 or member else number
        group = PodGroup(name=f"g{name}", headcount=GANG, min_available=GANG)
        return replace(self.pod(f"m{number}", self.with_terms(number)), group=group)

    def pod(self, name: str, shape: Shape) -> Pod:
        """A pod that waits, older than all of the victim's."""
        return pod("other", name, shape, "2026-01-01T00:00:00Z")

    def bound(self, name: str, node: int, card: int, priority: int = 0) -> Pod:
        """A pod that holds most of a card."""
        where = NodeName(f"node-{node:05d}")
        uuid = GpuUuid(f"GPU-{where}-{card}")
        charge = CardCharge(uuid, 600, 8 * GIB, "NVIDIA-A100-SXM4-80GB")
        allocation = Allocation(
            token=DecisionToken(f"before-{name}"), dialect="sharedgpu", cards=(charge,)
        )
        shape = replace(SMALL, claims=(GpuClaim(milli=600),), needs_port=False)
        return replace(
            self.pod(name, shape), node_name=where, allocation=allocation, priority=priority
        )


def _storage(claims: Iterable[PersistentVolumeClaim]) -> Iterator[Event]:
    """All kinds of objects are listed: one class and these claims."""
    listed: dict[WatchedKind, tuple[AnyObject, ...]] = {
        WatchedKind.CLAIM: tuple(claims),
        WatchedKind.STORAGE_CLASS: (NEVER,),
    }
    for kind in WatchedKind:
        yield ObjectsListed(kind, listed.get(kind, ()))


def _terms(name: str, terms: int, values: int) -> tuple[NodeTerm, ...]:
    return tuple(
        NodeTerm(
            labels=(
                Requirement("zone", "In", tuple(f"{name}-{term}-{one}" for one in range(values))),
            )
        )
        for term in range(terms)
    )


#: Whether they are the same in all shapes makes no difference to what the shapes cost.
MANY_TERMS = _terms("many", TERMS, 1)
#: How many times a second the other tenant does it.
KINDS = {
    "rest": 0.0,
    "shapes": 500.0,
    "costly": 500.0,
    "edits": 136.0,
    "gangs": 500.0,
    "preemptors": 200.0,
    "events": 2_000.0,
    "large": 20.0,
    "crowd": 100.0,
    "claims": 100.0,
}


def pod(namespace: str, name: str, shape: Shape, created: str) -> Pod:
    """A pod of a tenant."""
    return Pod(
        uid=PodUid(name),
        key=PodKey(namespace, name),
        shape=shape,
        scheduler_name=SCHEDULER_NAME,
        request=request_of(shape),
        created=created,
    )
