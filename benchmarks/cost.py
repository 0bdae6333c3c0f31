"""What a decision costs, counted: function calls, Python's and C's, without any clock.

    python -m benchmarks.cost [--nodes N] [--pods N] [-o json]
    make cost AGAINST=COMMIT    both counts, and both commits timed in turn

Each pod comes as the watch lines that an API server sends: added, bound by us, deleted. `decided`
are the calls inside `Machine.handle`: seen, decision, answer, our own Binding seen again, deletion.
`read` are those of decoding the three lines. `rows` are the nodes that plugins are asked about for
a pod. The first pods of a kind, which meet what is done once for a shape, are not counted; the
cluster is half full. Counts hardly depend on the machine, and tests/cost.toml has a ceiling for
each.
"""

import argparse
import cProfile
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from benchmarks.decisions import cluster
from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME, read
from kubeshare_py.domain.cluster_objects import WatchedKind
from kubeshare_py.domain.effects import Bind, Effect
from kubeshare_py.domain.events import (
    AnyObject,
    BindAnswered,
    BindSlotsFree,
    Bound,
    Event,
    NodeSeen,
    NodesListed,
    ObjectsListed,
    PodsListed,
)
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.storage import ClaimReference, PersistentVolume, PersistentVolumeClaim
from kubeshare_py.edges.process.plugin_entry_points import configured
from kubeshare_py.manifests.binding import binding_annotations
from kubeshare_py.manifests.events import pod_events
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.node import to_domain as to_node
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.manifests.watch import Codec
from kubeshare_py.scheduling.machine import configured_machine

R = TypeVar("R")
Json = dict[str, Any]
Row = dict[str, str | int]

CONFIGURATION = read({"profiles": [{"dialects": [{"name": "all"}]}]})
DIALECTS = configured(CONFIGURATION)
CODEC = Codec(PodFields)
#: Pods of a kind before the count begins, and pods that run at any time.
WARM_UP, RUNNING = 50, 40
ROOT = Path(__file__).parents[1]
#: What the pods with a volume mount.
DATA = PersistentVolumeClaim(
    namespace="ml", name="data", uid="uid-data", volume="pv-data", bind_completed=True
)
OBJECTS: Sequence[AnyObject] = (
    DATA,
    PersistentVolume(
        namespace="",
        name="pv-data",
        claim=ClaimReference(DATA.namespace, DATA.name, DATA.uid),
        phase="Bound",
    ),
)
#: What is counted for each placed pod.
COUNTED = ("decided", "read", "rows")
#: Kinds of benchmarks/decisions.py that `--against` times.
TIMED = ("repeated", "decoded")
#: What the API server adds to each pod.
_ADDED: Json = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "serviceAccountName": "default",
    "serviceAccount": "default",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
    "priority": 0,
    "tolerations": [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
        for key in ("not-ready", "unreachable")
    ],
    "volumes": [{"name": "token", "projected": {"sources": [{"downwardAPI": {}}]}}],
}


def _half(**others: str) -> Json:
    return {"labels": {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_limit": "1", **others}}


def _asking(limits: Mapping[str, str], number: int = 1) -> Json:
    names = ("main", "sidecar")[:number]
    asked = {"limits": limits, "requests": limits}
    return {"containers": [{"name": name, "resources": asked} for name in names]}


#: Kinds of pods: labels, annotations and containers, beside what all have.
KINDS: Mapping[str, Json] = {
    "half a card": _half(),
    "without GPU": {},
    "gang of 4": _half(**{"sharedgpu/group_name": "g{gang}", "sharedgpu/group_headcount": "4",
                          "sharedgpu/group_threshold": "1.0"}),
    "two containers": _half() | {"containers": [{"name": "main"}, {"name": "sidecar"}]},
    "two claims": _asking({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}, number=2),
    "a volume": _half() | {"claim": DATA.name},
    "HAMi": _asking({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}),
    "gpushare": _asking({"aliyun.com/gpu-mem": "8"}),
}  # fmt: skip


def _node(name: str) -> Node:
    """A node with the device plugins of gpushare and of HAMi."""
    allocatable = {"cpu": "128", "memory": "1Ti", "pods": "250", "nvidia.com/gpu": "80"}
    shown = {
        "metadata": {"name": name, "annotations": {"hami.io/node-nvidia-register": "[]"}},
        "status": {"allocatable": allocatable | {"aliyun.com/gpu-mem": "640"}},
    }
    line = Codec(NodeFields).line(json.dumps({"type": "ADDED", "object": shown}).encode())
    assert line.item is not None
    return to_node(line.item, DIALECTS)


class Count:
    """Calls of functions while something runs."""

    def __init__(self) -> None:
        self.calls = 0
        self.is_on = False

    def of(self, run: Callable[[], R]) -> R:
        """Run it; count its calls, if the count is on."""
        if not self.is_on:
            return run()
        profile = cProfile.Profile()
        profile.enable()
        result = run()
        profile.disable()
        self.calls += sum(entry.callcount for entry in profile.getstats()) - 1  # `disable`
        return result


class Pods:
    """Pods of one kind, which come one after the other and go in the same order."""

    def __init__(self, nodes: int, kind: Mapping[str, Any]) -> None:
        self.machine = configured_machine(CONFIGURATION, IN_TREE, "scheduler-0-1a2b3c4d")
        self.events = pod_events(DIALECTS)
        self.kind = kind
        self.decided, self.read = Count(), Count()
        self.placed = self.count = 0
        self.now = 1000.0
        self._waiting: dict[str, Json] = {}
        self._running: deque[Json] = deque()
        listed, inventory = cluster(nodes)
        nodes_seen = [NodeSeen(_node(node.name)) for node in listed.nodes]
        objects = [
            ObjectsListed(kind, tuple(one for one in OBJECTS if one.kind is kind))
            for kind in WatchedKind
        ]
        events: list[Event] = [PodsListed((), self.now), NodesListed(()), *nodes_seen, inventory]
        for event in (*objects, *events):
            self.machine.handle(event, self.now)

    def rows(self) -> int:
        """How many rows plugins were asked about so far."""
        works = {id(one.work): one.work for one in self.machine.evaluators.values()}
        return sum(one.rows for one in works.values())

    def come(self) -> None:
        """One pod comes; what can be placed is; the oldest of too many running pods goes."""
        pod = self._pod()
        self._waiting[pod["metadata"]["uid"]] = pod
        self.now += 0.01
        self._seen("ADDED", pod)
        while binds := [one for one in self._handle(BindSlotsFree(64)) if isinstance(one, Bind)]:
            for bind in binds:
                self._bound(bind)
        while len(self._running) > RUNNING:
            gone = self._running.popleft()
            gone["status"]["phase"] = "Succeeded"
            self._seen("DELETED", gone)

    def _bound(self, bind: Bind) -> None:
        self.placed += 1
        self._handle(BindAnswered(bind.uid, bind.allocation.token, Bound()))
        pod = self._waiting.pop(bind.uid)
        of_dialect = DIALECTS.results(bind.allocation, bind.decided, 0.0)
        assert not isinstance(of_dialect, str)
        written = binding_annotations(bind, "", of_dialect)
        pod["metadata"]["annotations"] = pod["metadata"]["annotations"] | written
        pod["metadata"]["labels"] |= DIALECTS.labels(bind.allocation, of_dialect)
        pod["spec"]["nodeName"] = bind.node
        self._seen("MODIFIED", pod)
        self._running.append(pod)

    def _seen(self, change: str, pod: Json) -> None:
        line = json.dumps({"type": change, "object": pod}).encode()
        event = self.read.of(lambda: self._event(line))
        assert event is not None
        self._handle(event)

    def _event(self, line: bytes) -> Event | None:
        decoded = CODEC.line(line)
        return self.events.event(decoded.type, decoded.item) if decoded.item else None

    def _handle(self, event: Event) -> list[Effect]:
        return self.decided.of(lambda: self.machine.handle(event, self.now))

    def _pod(self) -> Json:
        self.count += 1
        gang = self.count // 4
        labels = {key: text.format(gang=gang) for key, text in self.kind.get("labels", {}).items()}
        containers = [
            {
                "name": "main",
                "image": "example.com/train:1",
                "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
                "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets"}],
                "imagePullPolicy": "IfNotPresent",
                **one,
            }
            for one in self.kind.get("containers", [{}])
        ]
        spec = {"schedulerName": SCHEDULER_NAME, "containers": containers, **_ADDED}
        if claim := self.kind.get("claim"):
            data = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
            spec["volumes"] = [*_ADDED["volumes"], data]
        return {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "name": f"train-{self.count}",
                "namespace": "ml",
                "uid": f"6f9619ff-8b86-d011-b42d-{self.count:012d}",
                "resourceVersion": str(self.count),
                "creationTimestamp": "2026-11-21T10:00:00Z",
                "labels": {"app": "train", **labels},
                "annotations": dict(self.kind.get("annotations", {})),
            },
            "spec": spec,
            "status": {"phase": "Pending", "qosClass": "Burstable"},
        }


def counts(nodes: int, pods: int, kinds: Iterable[str] = tuple(KINDS)) -> Iterator[Row]:
    """A row for each kind: calls, and rows asked about, for each placed pod."""
    for name in kinds:
        load = Pods(nodes, KINDS[name])
        for _ in range(WARM_UP):
            load.come()
        before, asked = load.placed, load.rows()
        load.decided.is_on = load.read.is_on = True
        for _ in range(pods):
            load.come()
        placed = load.placed - before
        assert placed >= pods - 4, f"{name}: {placed} of {pods} pods were placed"
        decided, decoded = (round(one.calls / placed) for one in (load.decided, load.read))
        rows = round((load.rows() - asked) / placed)
        yield {"pod": name, "nodes": nodes, "decided": decided, "read": decoded, "rows": rows}


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """That commit's files, in a folder that is gone afterwards."""
    with TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        run = partial(subprocess.run, cwd=ROOT, check=True)
        run(["git", "worktree", "add", "--quiet", "--detach", str(tree), commit])
        try:
            yield tree
        finally:
            run(["git", "worktree", "remove", "--force", str(tree)])


def lines_of(tree: Path, module: str, *arguments: str) -> list[dict[str, Any]]:
    """What a benchmark of these files prints as JSON; nothing if they do not have it."""
    if not (tree / f"{module.replace('.', '/')}.py").exists():
        return []
    paths = ":".join(str(tree / part) for part in ("", "cmd", "plugins"))
    answer = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in answer.stdout.splitlines()]


def pairs(commit: str, nodes: int, pods: int, rounds: int) -> Iterator[str]:
    """Both commits' counts, then the times of both, taken in turn: medians and spreads."""
    size = ("--nodes", str(nodes), "--pods", str(pods), "-o", "json")
    with worktree(commit) as tree:
        before = {row["pod"]: row for row in lines_of(tree, "benchmarks.cost", *size)}
        for row in counts(nodes, pods):
            then = before.get(str(row["pod"]), {})
            both = (f"{part} {then.get(part, '-')} -> {row[part]}" for part in COUNTED)
            yield f"{row['pod']:14} {'  '.join(both)}"
        for kind in TIMED:
            taken: tuple[list[float], list[float]] = ([], [])
            for _ in range(rounds):
                for times, place in zip(taken, (tree, ROOT), strict=True):
                    [row] = lines_of(place, "benchmarks.decisions", "--row", f"{nodes}:{kind}")
                    times.append(float(row["us_per_decision"]))
            shown = [f"{median(one):.0f} ({min(one):.0f} to {max(one):.0f})" for one in taken]
            ratio = median(taken[1]) / median(taken[0])
            yield f"{kind:14} {shown[0]} -> {shown[1]} us a decision, {ratio:.2f} times"


def main() -> None:
    """Parse and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--pods", type=int, default=200, help="of each kind, that are counted")
    parser.add_argument("--against", metavar="COMMIT", help="compare with this commit")
    parser.add_argument("--rounds", type=int, default=3, help="of times, for --against")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    arguments = parser.parse_args()
    nodes, pods = arguments.nodes, arguments.pods
    if arguments.against:
        for line in pairs(arguments.against, nodes, pods, arguments.rounds):
            print(line, flush=True)
        return
    for row in counts(nodes, pods):
        plain = "{pod:14} {nodes:6} nodes {decided:6} decided {read:6} read {rows:6} rows"
        print(json.dumps(row) if arguments.output == "json" else plain.format(**row), flush=True)


if __name__ == "__main__":
    main()
