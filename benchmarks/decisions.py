"""How many decisions a second the machine takes, by cluster size.

    python benchmarks/decisions.py [--nodes N] [-o json]

Counted per pod: handle(pod added), the decision, handle(answer), handle(bound echo) and handle(pod
deleted). Nodes have 8 cards; the cluster is kept between 85 and 95 % of its cards by departures of
random pods; 20 shapes of 0.1 to 8 cards are mixed. `repeated`: shapes seen before; `new`: every pod
has a shape never seen in the run; `decoded`: repeated, with the msgspec decoding of the watch lines
included. Each figure is for one process on one core.
"""

import argparse
import json
import random
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

from kubeshare_plugins import IN_TREE
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import (
    BindAnswered,
    BindSlotsFree,
    Bound,
    InventoryRead,
    NodesListed,
    PodGone,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.domain.request import GpuClaim, GpuRequest
from kubeshare_py.framework.configuration import SCHEDULER_NAME, profiles, read
from kubeshare_py.scheduling.machine import Machine

GIB = 1 << 30
SIZES = (100, 1_000, 5_000, 20_000)
FRACTIONS = (100, 150, 200, 250, 300, 350, 400, 450, 500, 550, 600, 650, 700, 750, 800, 900, 1000)
COUNTS = (2, 4, 8)
FILL = 0.90


def shapes(salt: int = 0) -> list[Shape]:
    """The 20 shapes; another salt makes 20 others that ask the same of the cards."""
    claims = [GpuClaim(milli=milli) for milli in FRACTIONS]
    claims += [GpuClaim(count=count, milli=1000, exclusive=True) for count in COUNTS]
    return [
        Shape(
            resources=(("cpu", 500 + salt), ("memory", GIB)),
            claim=claim,
            needs_port=not claim.exclusive,
        )
        for claim in claims
    ]


MIXED = shapes()


def request_of(shape: Shape) -> GpuRequest:
    """The request behind a shape."""
    assert shape.claim is not None
    milli = shape.claim.milli * shape.claim.count
    return GpuRequest(claim=shape.claim, dialect="sharedgpu", limit_milli=milli)


def cluster(nodes: int) -> tuple[NodesListed, InventoryRead]:
    """Nodes of 128 cores and 1 TiB with 8 cards of 80 GiB."""
    names = [NodeName(f"node-{number:05d}") for number in range(nodes)]
    allocatable = (("cpu", 128_000), ("memory", 1024 * GIB), ("pods", 250))
    cards = tuple(
        (
            name,
            tuple(
                Gpu(
                    uuid=GpuUuid(f"GPU-{name}-{index}"),
                    index=index,
                    model="NVIDIA-A100-SXM4-80GB",
                    memory_bytes=80 * GIB,
                )
                for index in range(8)
            ),
        )
        for name in names
    )
    listed = NodesListed(tuple(Node(name=name, allocatable=allocatable) for name in names))
    return listed, InventoryRead(cards)


class Load:
    """Pods come, are placed, and go, so that the cluster stays at about the same fill."""

    def __init__(self, nodes: int, seed: int = 1) -> None:
        self.random = random.Random(seed)
        self.machine = Machine(profiles(read(None), IN_TREE), "bench")
        listed, inventory = cluster(nodes)
        self.machine.handle(PodsListed((), 0.0), 0.0)
        self.machine.handle(listed, 0.0)
        self.machine.handle(inventory, 0.0)
        self.capacity = nodes * 8 * 1000
        self.used = 0
        self.placed = 0
        self.now = 0.0
        self.pods: dict[PodUid, Pod] = {}
        self.running: list[PodUid] = []
        self.waiting: dict[PodUid, None] = {}
        self.count = 0

    def pod(self, shape: Shape) -> Pod:
        """The next pod."""
        self.count += 1
        uid = PodUid(f"uid-{self.count:09d}")
        return Pod(
            uid=uid,
            key=PodKey("default", f"pod-{self.count}"),
            shape=shape,
            scheduler_name=SCHEDULER_NAME,
            created=f"{self.count:012d}",
            request=request_of(shape),
        )

    def step(self, pod: Pod) -> None:
        """One pod arrives; whoever can be placed is; then some leave."""
        self.pods[pod.uid] = pod
        self.waiting[pod.uid] = None
        self.now += 1e-4
        self.machine.handle(PodSeen(pod), self.now)
        while True:
            effects = self.machine.handle(BindSlotsFree(64), self.now)
            binds = [effect for effect in effects if type(effect) is Bind]
            for bind in binds:
                self.bound(bind)
            if not binds:
                break
        while self.used > self.capacity * FILL:
            self.leave()
        if len(self.waiting) > 200:
            self.machine.handle(PodGone(self.give_up()), self.now)

    def bound(self, bind: Bind) -> None:
        """The API server answers, and the watch shows the pod."""
        uid = bind.uid
        self.machine.handle(BindAnswered(uid, bind.allocation.token, Bound()), self.now)
        echo = replace(self.pods[uid], node_name=bind.node, allocation=bind.allocation)
        self.machine.handle(PodSeen(echo), self.now)
        self.pods[uid] = echo
        del self.waiting[uid]
        self.running.append(uid)
        self.used += held(bind.allocation)
        self.placed += 1

    def leave(self) -> None:
        """A random running pod is deleted."""
        index = self.random.randrange(len(self.running))
        uid = self.running[index]
        self.running[index] = self.running[-1]
        self.running.pop()
        allocation = self.pods.pop(uid).allocation
        assert allocation is not None
        self.used -= held(allocation)
        self.machine.handle(PodGone(uid), self.now)

    def give_up(self) -> PodUid:
        """The pod that waits longest is deleted."""
        uid = next(iter(self.waiting))
        del self.waiting[uid]
        del self.pods[uid]
        return uid


def held(allocation: Allocation) -> int:
    """Thousandths of cards that an allocation holds."""
    return sum(card.milli for card in allocation.cards)


def fill(load: Load) -> None:
    """Bring the cluster to its fill."""
    while load.used < load.capacity * 0.89:
        load.step(load.pod(load.random.choice(MIXED)))


def arrivals(load: Load, kind: str, count: int) -> Iterator[Pod]:
    """Pods of the 20 shapes, or of shapes never seen."""
    for number in range(count):
        pool = shapes(number + 1) if kind == "new" else MIXED
        yield load.pod(load.random.choice(pool))


def measure(nodes: int, kind: str, count: int) -> dict[str, object]:
    """One row: fill, warm up, then time `count` arrivals."""
    load = Load(nodes)
    fill(load)
    for pod in arrivals(load, "repeated", 500):
        load.step(pod)
    pods = list(arrivals(load, kind, count))
    before = load.placed
    started = time.process_time()
    for pod in pods:
        load.step(pod)
    seconds = time.process_time() - started
    placed = load.placed - before
    return {
        "nodes": nodes,
        "shapes": kind,
        "decisions_per_s": round(placed / seconds),
        "us_per_decision": round(seconds / placed * 1e6, 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def main() -> None:
    """Parse and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, action="append", help="cluster size; repeatable")
    parser.add_argument("--kinds", default="repeated,new", help="which rows, commas between")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    arguments = parser.parse_args()
    for nodes in arguments.nodes or SIZES:
        for kind in arguments.kinds.split(","):
            count = 20_000 if kind != "new" else max(200, 2_000_000 // nodes)
            row = measure(nodes, kind, min(count, 20_000))
            if arguments.output == "json":
                print(json.dumps(row), flush=True)
            else:
                print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)


if __name__ == "__main__":
    sys.exit(main())
