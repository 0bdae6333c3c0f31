"""What questions about the whole cluster cost the scheduler, of people, of monitoring, of others.

    python -m benchmarks.questions [--nodes N] [--pods N] [--waiting N] [--memory]

The cluster has 5,000 nodes of 8 cards and 50,000 pods: a first pod on each card, and second ones
until there are as many. `alike`: the first holds half of its card, and the second a quarter.
`mixed`: both hold random parts, so that hardly two nodes lack the same. Each question is made as
the state's endpoints make it, a piece at a time. Printed is the CPU time in all; the longest turn,
that is the most CPU time that the event loop is kept for at once, to make a piece and to write it
as JSON; and the size of the answer. The garbage collector is off meanwhile, as in the scheduler
between its turns.

`first list`: the process has just begun, and takes in the list of pods; `next list`: the watch was
lost. Neither includes reading the pods, which is done a page at a time.

`why`: a pod that fits nowhere; `why bound`: one that is placed; `why gang`: a member of a gang of
64; `why urgent`: a pod that may evict others. `gpus` is what `top` asks too; `pods -n` are the pods
of one namespace of ten; `hidden` is what a reader gets who may name no pod. `table` is the form
that kubectl asks for. `snapshot` is what `what-if` asks for.

`metrics` is the page for Prometheus, `HAMi's page` that of HAMi's scheduler. `/filter` and
`/prioritize` are what kube-scheduler asks an extender about all nodes: first of a new shape,
then of the same. `other profiles`: the configuration was edited, with so many pods waiting
(`--waiting`).

`--memory` only builds the cluster, and says how much memory the process has then; the list of pods
that it was made of is freed before.
"""

import argparse
import gc
import os
import random
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import msgspec

from benchmarks.contest.usage import resident_mib
from benchmarks.decisions import GIB, cluster
from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME, read
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.events import BindSlotsFree, PodSeen, PodsListed
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod, PodGroup, Shape
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.domain.values import replace
from kubeshare_py.edges.process.run_until_signal import give_back
from kubeshare_py.edges.scheduler.endpoints import MetricsPage, hami_pieces
from kubeshare_py.edges.scheduler.process_health import ProcessHealth
from kubeshare_py.edges.scheduler.state_api import table_texts, view_texts
from kubeshare_py.event_log.records import LogHeader
from kubeshare_py.event_log.snapshot import snapshot_pieces
from kubeshare_py.exporters.client_metrics import RequestTallies
from kubeshare_py.exporters.scheduler_metrics import WriteFigures
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from kubeshare_py.manifests.events import PODS_A_PORTION, portions_of
from kubeshare_py.manifests.extender import ExtenderQuestion, filter_result, priorities
from kubeshare_py.manifests.state_group import GPU_LIST, POD_LIST
from kubeshare_py.scheduling.explain.explanation import cluster_portions, pod_portions, why_steps
from kubeshare_py.scheduling.explain.extender_answers import filtered, scored
from kubeshare_py.scheduling.machine import Machine, known_events
from kubeshare_py.views.view import WhyView

CARDS, NAMESPACES, MEMBERS = 8, 10, 64
MODEL = "NVIDIA-A100-SXM4-80GB"
#: The profile of pods that kube-scheduler places with this scheduler's help.
EXTENDER = "kube-scheduler"
CONFIGURATION = {"profiles": [{}, {"schedulerName": EXTENDER, "extender": True}]}


def pod(name: str, milli: int, namespace: str = "team", **fields: Any) -> Pod:
    """A pod that asks for a part of a card."""
    plain = Pod(
        key=PodKey(namespace, name),
        uid=PodUid(name),
        scheduler_name=SCHEDULER_NAME,
        shape=Shape(claims=(GpuClaim(milli=milli),)),
        created="2026-11-21T12:00:00Z",
    )
    return replace(plain, **fields)


def bound(number: int, nodes: int, milli: int) -> Pod:
    """A pod that holds a part of the card of this number, counted around."""
    node = NodeName(f"node-{number // CARDS % nodes:05d}")
    uuid = GpuUuid(f"GPU-{node}-{number % CARDS}")
    charge = CardCharge(uuid, milli, milli * 80 * GIB // 1000, MODEL)
    allocation = Allocation(token=DecisionToken(f"t-{number}"), cards=(charge,))
    place = {"node_name": node, "allocation": allocation}
    return pod(f"p-{number}", milli, f"team-{number % NAMESPACES}", **place)


def taken(machine: Machine, pods: tuple[Pod, ...]) -> Iterator[bytes]:
    """Take in a list of pods in the API server's order, a portion at a time."""
    listed = PodsListed(tuple(sorted(pods, key=lambda pod: str(pod.key))), 0.0)

    def take(portion: PodsListed) -> bytes:
        machine.handle(portion, 0.0)
        return b""

    return map(take, portions_of(listed, PODS_A_PORTION))


def placed(nodes: int, pods: int, *, mixed: bool) -> tuple[Pod, ...]:
    """The bound pods."""
    parts = random.Random(1)

    def part(number: int) -> int:
        second = number >= nodes * CARDS
        if mixed:
            return parts.randrange(10, 200) if second else parts.randrange(300, 800)
        return 250 if second else 500

    return tuple(bound(number, nodes, part(number)) for number in range(pods))


def empty(nodes: int) -> Machine:
    """A machine that knows nodes and cards."""
    machine = Machine(profiles(read(CONFIGURATION), IN_TREE), "bench")
    for event in cluster(nodes):
        machine.handle(event, 0.0)
    return machine


def add_waiting(machine: Machine) -> None:
    """Pods that find no place."""
    group = PodGroup(name="gang", headcount=MEMBERS, min_available=MEMBERS)
    waiting = [pod("big", 1000), pod("urgent", 1000, priority=10)]
    waiting += [pod(f"gang-{number}", 1000, group=group) for number in range(MEMBERS)]
    machine.handle(PodSeen(waiting[0]), 0.0)
    for one in waiting[1:]:
        machine.handle(PodSeen(one), 0.0)
    for turn in range(50):
        machine.handle(BindSlotsFree(64), turn / 100)


def why(machine: Machine, namespace: str, name: str) -> Iterator[bytes]:
    """The steps in which the answer is made; after the last one all of its text."""
    found: list[WhyView | None] = []

    def kept() -> Iterator[None]:
        found.append((yield from why_steps(machine, PodKey(namespace, name))))

    yield from (b"" for _ in kept())
    assert found[0] is not None
    yield msgspec.json.encode(found[0])


def metrics(machine: Machine) -> Iterator[bytes]:
    """The page, in the turns in which the endpoint makes it."""
    page = MetricsPage(
        ProcessHealth(machine, time.monotonic), WriteFigures, RequestTallies("bench"), lambda: None
    )
    made: Coroutine[None, None, list[bytes]] = page.chunks()
    while True:
        try:
            made.send(None)
        except StopIteration as end:
            yield from end.value
            return
        yield b""


def extender_answer(machine: Machine, milli: int, *, is_filter: bool) -> Iterator[bytes]:
    """An answer about all nodes, which is one turn."""
    asked = pod(f"delegated-{milli}", milli, scheduler_name=EXTENDER)
    names = tuple(machine.ledger.columns.row_of)
    if is_filter:
        found = filtered(machine, asked, names)
        assert not found.problem
        question = ExtenderQuestion(pod=asked, names=names)
        yield filter_result(question, found.fitting, found.failed, found.problem)
    else:
        yield priorities(scored(machine, asked, names))


def other_profiles(machine: Machine) -> Iterator[bytes]:
    """The same profiles once more, as after an edit."""
    machine.handle(ProfilesReplaced(tuple(profiles(read(CONFIGURATION), IN_TREE))), 1.0)
    yield b""


def snapshot(machine: Machine) -> Iterator[bytes]:
    """All that the machine knows, taken at once and written in pieces."""
    header = LogHeader(
        name="bench",
        version="",
        session="",
        file=0,
        now=0.0,
        wall=0.0,
        configuration=read(None),
    )
    events = [*known_events(machine, 0.0)]
    yield b""
    yield from snapshot_pieces(header, events)


def sees_none(_namespace: str) -> bool:
    """A reader who may name no pod."""
    return False


def questions(machine: Machine) -> dict[str, Callable[[], Iterator[bytes]]]:
    """Each question as pieces of its answer."""
    cards, pods = partial(cluster_portions, machine), partial(pod_portions, machine)
    return {
        "why": lambda: why(machine, "team", "big"),
        "why urgent": lambda: why(machine, "team", "urgent"),
        "why gang": lambda: why(machine, "team", "gang-7"),
        "why bound": lambda: why(machine, "team-7", "p-7"),
        "gpus": lambda: view_texts(cards(), {}),
        "gpus, topology": lambda: view_texts(cards(topology=True), {}),
        "gpus, hidden": lambda: view_texts(cards(sees=sees_none), {}),
        "gpus, table": lambda: table_texts(cards(), GPU_LIST),
        "pods": lambda: view_texts(pods(), {}),
        "pods -n": lambda: view_texts(pods("team-3"), {}),
        "pods, table": lambda: table_texts(pods(), POD_LIST),
        "metrics": lambda: metrics(machine),
        "HAMi's page": lambda: hami_pieces(machine, (), legacy=False),
        "/filter": lambda: extender_answer(machine, 310, is_filter=True),
        "/filter, again": lambda: extender_answer(machine, 310, is_filter=True),
        "/prioritize": lambda: extender_answer(machine, 320, is_filter=False),
        "/prioritize, again": lambda: extender_answer(machine, 320, is_filter=False),
        "snapshot": lambda: snapshot(machine),
    }


def measured(pieces: Iterator[bytes]) -> tuple[float, float, int]:
    """CPU time in all and of the longest piece, in seconds, and the bytes of the answer."""
    total_s = longest_s = 0.0
    size = 0
    gc.collect()
    gc.disable()
    while True:
        began_s = time.process_time()
        piece = next(pieces, None)
        took_s = time.process_time() - began_s
        total_s, longest_s = total_s + took_s, max(longest_s, took_s)
        if piece is None:
            gc.enable()
            return total_s, longest_s, size
        size += len(piece)


def main() -> None:
    """Print a line for each question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--waiting", type=int, default=50_000)
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    if options.memory:
        print(f"{resident_after(options.nodes, options.pods):.0f} MiB resident")
        return
    for name, mixed in (("alike", False), ("mixed", True)):
        machine, pods = empty(options.nodes), placed(options.nodes, options.pods, mixed=mixed)
        say(name, "first list", taken(machine, pods))
        add_waiting(machine)
        for question, made in questions(machine).items():
            say(name, question, made())
        waiting = tuple(one.pod for one in machine.records.values() if one.node is None)
        say(name, "next list", taken(machine, pods + waiting))
        for number in range(options.waiting):
            machine.handle(PodSeen(pod(f"w-{number}", 1000, f"team-{number % NAMESPACES}")), 1.0)
        say(name, "other profiles", other_profiles(machine))


def resident_after(nodes: int, pods: int) -> float:
    """Memory (MiB) of the process beside so many pods, by then bound."""
    machine = empty(nodes)
    for _ in taken(machine, placed(nodes, pods, mixed=True)):
        pass
    gc.collect()
    give_back()
    return resident_mib(os.getpid())


def say(name: str, question: str, pieces: Iterator[bytes]) -> None:
    """Print what it took."""
    total_s, longest_s, size = measured(pieces)
    print(
        f"{name:5}  {question:18} {total_s * 1e3:7.0f} ms of CPU, longest turn "
        f"{longest_s * 1e3:6.1f} ms, {size / 1024:8.0f} KiB",
        flush=True,
    )


if __name__ == "__main__":
    main()
