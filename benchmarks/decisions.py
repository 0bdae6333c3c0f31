"""How many decisions a second the machine takes, by cluster size.

    python benchmarks/decisions.py [--nodes N] [--kinds repeated,new] [-o json]

Counted per pod, inside `handle` alone: pod added, the decision, the answer, the bound echo and the
deletion. Nodes have 8 cards; the cluster is kept between 85 and 95 % of its cards by departures of
random pods; 20 shapes of 0.1 to 8 cards are mixed. `repeated`: shapes seen before; `unlinked`: the
same without the plugin Topology (nodes have three kinds of boards: cube mesh, NVSwitch, PCIe);
`new`: every pod has a shape never seen in the run; `two` and `new-two`: as `repeated` and `new`,
each pod with two claims of two containers that ask for half each; `decoded`: repeated, and decoding
the three watch lines of each pod is counted too; `plugins`: what each plugin's question costs. One
process, one core; peak_mb is the resident peak of that process.
"""

import argparse
import gc
import json
import random
import resource
import subprocess
import sys
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from kubeshare_plugins import IN_TREE
from kubeshare_py.cluster.rows import AllRows, Rows, SomeRows
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME, read
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.effects import Bind, Effect
from kubeshare_py.domain.events import (
    BindAnswered,
    BindSlotsFree,
    Bound,
    Event,
    InventoryRead,
    NodesListed,
    PodGone,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.gpu import Gpu, PeerLink
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.domain.request import ContainerClaim, ContainerRef, GpuClaim, GpuRequest
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.points import BestCards, CardPreselection, CardSetScore, RowScore
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.manifests.binding import binding_annotations
from kubeshare_py.manifests.events import POD_EVENTS
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.manifests.watch import Codec
from kubeshare_py.scheduling.machine import Machine

KINDS = ("repeated", "two", "unlinked", "new", "new-two", "decoded", "plugins")
NO_LINKS = {"disabled": [{"name": "Topology"}]}
WITHOUT_TOPOLOGY = {"profiles": [{"plugins": {"score": NO_LINKS, "cardScore": NO_LINKS}}]}
#: Links of a cube mesh, by pair.
MESH = ("03 04 12 15 23 47 56 67", "01 02 13 26 37 45 46 57")
MAX_WAITING = 200
CODEC = Codec(PodFields)
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
            claims=(claim,),
            needs_port=not claim.exclusive,
        )
        for claim in claims
    ]


def in_two(mixed: list[Shape]) -> list[Shape]:
    """The shapes with two claims of half each; odd thousandths and single cards are rounded."""
    return [replace(shape, claims=halves(shape.claims[0])) for shape in mixed]


def halves(claim: GpuClaim) -> tuple[GpuClaim, GpuClaim]:
    """Two claims that ask for half each, as different containers do: not quite alike."""
    if claim.count > 1:
        half = replace(claim, count=claim.count // 2)
        return half, half
    return replace(claim, milli=claim.milli // 2 - 1), replace(claim, milli=claim.milli // 2 + 1)


MIXED = shapes()
MIXED_IN_TWO = in_two(MIXED)


def request_of(shape: Shape) -> GpuRequest:
    """The request behind a shape."""
    if shape.claim is None:
        claims = tuple(
            ContainerClaim(claim=claim, container=ContainerRef(False, index), limit_milli=1000)
            for index, claim in enumerate(shape.claims)
        )
        return GpuRequest(claims=claims, dialect="sharedgpu", needs_port=shape.needs_port)
    milli = shape.claim.milli * shape.claim.count
    return GpuRequest.of_pod(shape.claim, dialect="sharedgpu", limit_milli=milli)


def links(board: int, index: int) -> tuple[PeerLink, ...]:
    """What a card says of the other seven: of a cube mesh, of cards behind NVSwitch, on the bus."""
    doubles, singles = (set(pairs.split()) for pairs in MESH)
    kinds = []
    for other in range(8):
        pair = "".join(sorted(f"{index}{other}"))
        near, socket = index // 2 == other // 2, index // 4 == other // 4
        kind = "PIX" if near else "NODE" if socket else "SYS"
        if board == 0:
            kind = "NV2" if pair in doubles else "NV1" if pair in singles else kind
        kinds.append((other, "NV18" if board == 1 else kind))
    return tuple(PeerLink(other, kind, 0) for other, kind in kinds if other != index)


def cluster(nodes: int) -> tuple[NodesListed, InventoryRead]:
    """Nodes of 128 cores and 1 TiB with 8 cards of 80 GiB."""
    boards = [[links(board, index) for index in range(8)] for board in range(3)]
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
                    links=boards[number % 3][index],
                    numa_node=index // 4,
                )
                for index in range(8)
            ),
        )
        for number, name in enumerate(names)
    )
    listed = NodesListed(tuple(Node(name=name, allocatable=allocatable) for name in names))
    return listed, InventoryRead(cards)


class Load:
    """Pods come, are placed, and go, so that the cluster stays at about the same fill."""

    def __init__(self, nodes: int, seed: int = 1, document: object = None) -> None:
        self.random = random.Random(seed)
        self.machine = Machine(profiles(read(document), IN_TREE), "bench")
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
        self.seconds = 0.0
        self.decoding = False

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

    def handle(self, event: Event) -> list[Effect]:
        """Hand an event to the machine, on the clock."""
        started = time.perf_counter()
        effects = self.machine.handle(event, self.now)
        self.seconds += time.perf_counter() - started
        return effects

    def seen(self, pod: Pod, change: str) -> None:
        """The watch shows a pod; decoding its line is on the clock too, if lines are asked for."""
        if not self.decoding:
            self.handle(PodSeen(pod))
            return
        line = watch_line(pod, change)
        started = time.perf_counter()
        decoded = CODEC.line(line)
        event = POD_EVENTS.event(decoded.type, decoded.item) if decoded.item else None
        self.seconds += time.perf_counter() - started
        assert isinstance(event, PodSeen)
        self.handle(event)

    def gone(self, pod: Pod) -> None:
        """The watch shows that a pod was deleted, after its kubelet had reported its end."""
        if self.decoding:
            line = watch_line(pod, "DELETED")
            started = time.perf_counter()
            decoded = CODEC.line(line)
            event = POD_EVENTS.event(decoded.type, decoded.item) if decoded.item else None
            self.seconds += time.perf_counter() - started
            assert event == PodGone(pod.uid)
        self.handle(PodGone(pod.uid, stopped=True))

    def step(self, pod: Pod) -> None:
        """One pod arrives; whoever can be placed is; then some leave."""
        self.pods[pod.uid] = pod
        self.waiting[pod.uid] = None
        self.now += 1e-4
        self.seen(pod, "ADDED")
        while True:
            effects = self.handle(BindSlotsFree(64))
            binds = [effect for effect in effects if type(effect) is Bind]
            for bind in binds:
                self.bound(bind)
            if not binds:
                break
        while self.used > self.capacity * FILL:
            self.leave()
        if len(self.waiting) > MAX_WAITING:
            self.gone(self.give_up())

    def bound(self, bind: Bind) -> None:
        """The API server answers, and the watch shows the pod."""
        uid = bind.uid
        self.handle(BindAnswered(uid, bind.allocation.token, Bound()))
        echo = replace(self.pods[uid], node_name=bind.node, allocation=bind.allocation)
        self.seen(echo, "MODIFIED")
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
        pod = self.pods.pop(uid)
        assert pod.allocation is not None
        self.used -= held(pod.allocation)
        self.gone(pod)

    def give_up(self) -> Pod:
        """The pod that waits longest."""
        uid = next(iter(self.waiting))
        del self.waiting[uid]
        return self.pods.pop(uid)


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
        pool = shapes(number + 1) if kind.startswith("new") else MIXED
        if kind.endswith("two"):
            pool = in_two(pool) if kind == "new-two" else MIXED_IN_TWO
        yield load.pod(load.random.choice(pool))


def watch_line(pod: Pod, change: str) -> bytes:
    """A pod as the API server's watch shows it, with what it adds to each pod."""
    shape = pod.shape
    assert shape.claim is not None
    share = f"{shape.claim.milli * shape.claim.count / 1000:g}"
    labels = {"sharedgpu/gpu_request": share, "sharedgpu/gpu_limit": share, "app": "bench"}
    annotations: dict[str, str] = {}
    spec: dict[str, object] = {}
    if pod.allocation is not None and pod.node_name is not None:
        bind = Bind(pod.uid, pod.key, pod.node_name, pod.allocation)
        annotations, spec = binding_annotations(bind, ""), {"nodeName": pod.node_name}
    amounts = dict(shape.resources)
    requests = {"cpu": f"{amounts['cpu']}m", "memory": str(amounts["memory"])}
    container = {
        "name": "main",
        "image": "example.com/train:1",
        "resources": {"requests": requests},
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets", "readOnly": True}],
        "imagePullPolicy": "IfNotPresent",
    }
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
        for key in ("not-ready", "unreachable")
    ]
    spec |= {
        "schedulerName": SCHEDULER_NAME,
        "containers": [container],
        "volumes": [{"name": "token", "projected": {"sources": [{"downwardAPI": {}}]}}],
        "tolerations": tolerations,
        "restartPolicy": "Always",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
    }
    metadata = {
        "name": pod.key.name,
        "namespace": pod.key.namespace,
        "uid": pod.uid,
        "resourceVersion": "123456",
        "creationTimestamp": "2026-11-21T10:00:00Z",
        "labels": labels,
        "annotations": annotations,
    }
    body = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
    return json.dumps({"type": change, "object": {"kind": "Pod", **body}}).encode()


def measure(nodes: int, kind: str) -> dict[str, object]:
    """One row: fill, warm up, then time what the machine does for some thousand arrivals."""
    count = max(200, min(20_000, 2_000_000 // nodes)) if kind.startswith("new") else 20_000
    load = Load(nodes, document=WITHOUT_TOPOLOGY if kind == "unlinked" else None)
    fill(load)
    load.decoding = kind == "decoded"
    for pod in arrivals(load, "two" if kind.endswith("two") else "repeated", 500):
        load.step(pod)
    pods = list(arrivals(load, kind, count))
    gc.collect()
    gc.freeze()  # as the scheduler does after its first list
    before, load.seconds = load.placed, 0.0
    for pod in pods:
        load.step(pod)
    placed = load.placed - before
    return {
        "nodes": nodes,
        "shapes": kind,
        "decisions_per_s": round(placed / load.seconds),
        "us_per_decision": round(load.seconds / placed * 1e6, 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def plugin_costs(nodes: int) -> Iterator[dict[str, object]]:
    """What each plugin's question costs, for 40 rows and for all."""
    load = Load(nodes)
    fill(load)
    columns = load.machine.ledger.columns
    profile = load.machine.profiles[SCHEDULER_NAME]
    shape = MIXED[8]
    few = np.random.default_rng(1).integers(0, nodes, 40)
    for name, ask in questions(profile, shape):
        few_us = best_of(ask, lambda: SomeRows(columns, few), 500)
        all_us = best_of(ask, lambda: AllRows(columns), 5)
        row = {"us_40_rows": round(few_us, 1), "us_all_rows": round(all_us, 1)}
        yield {"nodes": nodes, "plugin": name, **row}


def questions(profile: Profile, shape: Shape) -> Iterator[tuple[str, Callable[[Rows], object]]]:
    """Each plugin's question about a shape that it minds."""
    reasons = ReasonTable()
    for plugin in profile.filters:
        question = plugin.filter(shape, reasons)
        if question is not None:
            yield f"{plugin.name} filter", question
    for card_plugin in profile.card_filters:
        card_question = card_plugin.card_filter(shape, reasons)
        if card_question is not None:
            yield f"{card_plugin.name} cardFilter", card_question.fits
    for ranker, _ in profile.card_scores:
        rank = ranker.card_score(shape)
        if rank is not None and not isinstance(rank, CardSetScore | CardPreselection):
            yield f"{ranker.name} cardScore", rank
    for scorer, _ in profile.scores:
        score = scorer.score(shape)
        if score is not None:
            yield f"{scorer.name} score", partial(ask_score, score)


def first_cards(rows: Rows) -> BestCards:
    """The first card of each row, as if it were the best."""
    slot = np.zeros(len(rows.index), np.int64)
    return BestCards(slot, np.arange(len(slot)) * rows.flags.shape[1])


def ask_score(score: RowScore, rows: Rows) -> object:
    """A score's question, with any card as the best."""
    return score(rows, first_cards(rows))


def best_of(ask: Callable[[Rows], object], rows: Callable[[], Rows], times: int) -> float:
    """Microseconds of one question: the best of five rounds."""
    return min(timeit.repeat(lambda: ask(rows()), number=times, repeat=5)) / times * 1e6


def rows(sizes: Sequence[int], kinds: Sequence[str]) -> Iterator[dict[str, object]]:
    """All rows asked for, each in a process of its own so that peaks are its own."""
    for nodes in sizes:
        for kind in kinds:
            command = [sys.executable, __file__, "--row", f"{nodes}:{kind}"]
            answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            yield from (json.loads(line) for line in answer.stdout.splitlines())


def main() -> None:
    """Parse and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, action="append", help="cluster size; repeatable")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of {','.join(KINDS)}")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.row:
        nodes, kind = arguments.row.split(":")
        one = plugin_costs(int(nodes)) if kind == "plugins" else [measure(int(nodes), kind)]
        for row in one:
            print(json.dumps(row))
        return
    for row in rows(arguments.nodes or SIZES, arguments.kinds.split(",")):
        plain = "  ".join(f"{name} {value}" for name, value in row.items())
        print(json.dumps(row) if arguments.output == "json" else plain, flush=True)


if __name__ == "__main__":
    main()
