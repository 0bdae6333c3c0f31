"""What the chart's admission policies cost kube-apiserver: CPU for a write, without and with them.

    python -m benchmarks.apiserver_cost                          default values, and everything on
    python -m benchmarks.apiserver_cost --states default         default values alone
    python -m benchmarks.apiserver_cost --manifests before=/tmp/old.yaml --states default
    python -m benchmarks.apiserver_cost --each --states default  one binding at a time
    python -m benchmarks.apiserver_cost --containers 500 -o json pods of 500 containers as well

On a real control plane of its own (built with Go), in turn, medians over the rounds, in ms of user
and system time of kube-apiserver's process. `all` is the chart with its parts on (ALL).
Creations and updates are dry runs; Bindings and deletions are real. Nothing else asks the API
server; on a machine with other work the figures are up to twice as high, and differ by ± 1.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import uvloop
import yaml

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from kubeshare_py.manifests.binding import binding_annotations
from kubeshare_py.manifests.reports import ReportedEvent, event_body, regarding_pod
from tests.controlplane.build import NEEDED, build
from tests.controlplane.cleaning import ship_lease
from tests.controlplane.helm import PLAIN_FOR, template
from tests.controlplane.running import ControlPlane, control_plane
from tests.controlplane.shipped import MUTATING, POLICIES, RUNTIME_CLASS, shipped

#: What `all` switches on.
ALL = (
    "--set=admission.others=true,policies.forcedDeletion=true,mps.enabled=true,dialects=all",
    "--set=nodeAgent.enabled=true,collector.annotateNode=true,aggregator.enabled=true",
    "--set=config.inventory.source=annotation",
    '--set-json=config.profiles=[{"isolation": ["none", "mps"]}]',
)
WITHOUT = "without"
PODS = "/api/v1/namespaces/default/pods"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_PATHS = {
    kind: f"{_ADMISSION}/{kind[:-1].lower() + 'ies' if kind.endswith('y') else kind.lower() + 's'}"
    for kind in (*MUTATING, *POLICIES)
}
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
#: The API server's informers have a binding after about one second, and compile it then.
_IN_FORCE_S = 4.0
#: For pods with very many containers.
_PATIENT_S = 120.0
#: Writes before those that are counted.
_WARM = 5
#: Of the pods with very many containers.
_LARGE_WRITES = 4
_HALF = {"sharedgpu/gpu_request": "0.5"}

#: The Lease of leadership, and what a Binding of half a card brings.
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kubeshare-scheduler"
HOLDER = "scheduler-0_1a2b3c4d"
_ALLOCATION = Allocation(
    token=DecisionToken(f"{HOLDER}-1"),
    dialect="sharedgpu",
    cards=(CardCharge(GpuUuid("GPU-0aa6f2b1-1c4d-7f6e-1"), 500, 40 << 30, "NVIDIA-A100"),),
    port=50051,
)
_BIND = Bind(PodUid("u"), PodKey("default", "p"), NodeName("n1"), _ALLOCATION)
PLACEMENT = binding_annotations(_BIND, f"{HOLDER}/1")

Json = dict[str, Any]
Write = Callable[[int], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was asked for on the command line; `states` are manifests by their names."""

    states: dict[str, list[Json]]
    writes: int
    rounds: int
    containers: int


class Api:
    """Writes to one API server, and what they cost it."""

    def __init__(self, client: KubeClient, scheduler: KubeClient, plane: ControlPlane) -> None:
        """`scheduler` asks as the scheduler's account, `client` as an administrator."""
        self._client = client
        self._scheduler = scheduler
        self._plane = plane

    async def per_write_ms(self, write: Write, writes: int) -> float:
        """CPU of kube-apiserver for each of so many writes, in ms."""
        for number in range(min(_WARM, writes)):
            await write(-1 - number)
        before = self._cpu_s()
        for number in range(writes):
            await write(number)
        return 1000 * (self._cpu_s() - before) / writes

    async def send(self, method: str, path: str, body: object = None, **query: str) -> None:
        """Raises KubeError when it is refused."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = None if body is None else msgspec.json.encode(body)
        await self._client.request(
            method, path, query=query, body=data, content_type=kind, timeout_s=_PATIENT_S
        )

    async def place(self, path: str, body: object) -> None:
        """Create something as the scheduler. Raises KubeError when it is refused."""
        await self._scheduler.create(path, body)

    async def bind(self, objects: Sequence[Json]) -> None:
        """Put bindings of policies in force."""
        for one in objects:
            await self._client.create(_PATHS[one["kind"]], one)
        await asyncio.sleep(_IN_FORCE_S)

    async def unbind(self, objects: Sequence[Json]) -> None:
        """Take them away again."""
        for one in objects:
            await self._client.delete(f"{_PATHS[one['kind']]}/{one['metadata']['name']}")
        await asyncio.sleep(_IN_FORCE_S)

    @asynccontextmanager
    async def policies(self, objects: Sequence[Json]) -> AsyncIterator[None]:
        """Have policies while entered: nothing asks them without a binding."""
        for one in objects:
            await self._client.create(_PATHS[one["kind"]], one)
        yield
        await self.unbind(objects)

    def _cpu_s(self) -> float:
        stat = Path(f"/proc/{self._plane.server.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(stat[11]) + int(stat[12])) * _TICK_S


def pod(name: str, scheduler: str, containers: int, labels: dict[str, str]) -> Json:
    """A pod whose containers have ten variables each."""
    env = [{"name": f"E{number}", "value": "v"} for number in range(10)]
    many = [{"name": f"c{at}", "image": "x", "env": [*env]} for at in range(containers)]
    spec = {
        "schedulerName": scheduler,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": many,
    }
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def measure_round(api: Api, tag: str, writes: int, containers: int) -> dict[str, float]:
    """Each kind of write in turn; names of what is written begin with `tag`."""
    found: dict[str, float] = {}
    sizes = (1, 3, containers) if containers else (1, 3)
    for whose, scheduler, labels in (
        ("a pod without GPU", "default-scheduler", {}),
        ("half a card", "kubeshare-scheduler", _HALF),
    ):
        for size in sizes:
            one = pod("p", scheduler, size, labels)
            many = writes if size < 10 else _LARGE_WRITES
            what = f"create {whose}, {size} container{'s' * (size > 1)}"
            found[what] = await api.per_write_ms(partial(_try_creation, api, one), many)
        name = f"{tag}-{'half' if labels else 'plain'}"
        found |= await _updates(api, pod(name, scheduler, 3, labels), whose, writes)
    return found | await _placements(api, tag, writes)


async def _try_creation(api: Api, one: Json, _: int) -> None:
    await api.send("POST", PODS, one, dryRun="All")


async def _updates(api: Api, one: Json, whose: str, writes: int) -> dict[str, float]:
    path = f"{PODS}/{one['metadata']['name']}"
    await api.send("POST", PODS, one)

    async def status(number: int) -> None:
        condition = {"type": "X", "status": "True", "message": str(number)}
        body = {"status": {"conditions": [condition]}}
        await api.send("PATCH", f"{path}/status", body, dryRun="All")

    async def annotate(number: int) -> None:
        body = {"metadata": {"annotations": {"x": str(number)}}}
        await api.send("PATCH", path, body, dryRun="All")

    found = {
        f"status of {whose}": await api.per_write_ms(status, writes),
        f"annotation of {whose}": await api.per_write_ms(annotate, writes),
    }
    await api.send("DELETE", path, gracePeriodSeconds="0")
    return found


async def _placements(api: Api, tag: str, writes: int) -> dict[str, float]:
    """Bindings of others and of ours, our events, and deletions."""
    for whose in ("theirs", "ours"):
        for number in range(-_WARM, writes):
            await api.send("POST", PODS, pod(f"{tag}-{whose}-{number + _WARM}", "nobody", 1, {}))

    async def bind(number: int) -> None:
        name = f"{tag}-theirs-{number + _WARM}"
        await api.send("POST", f"{PODS}/{name}/binding", _binding(name, {}))

    async def place(number: int) -> None:
        name = f"{tag}-ours-{number + _WARM}"
        await api.place(f"{PODS}/{name}/binding", _binding(name, PLACEMENT))

    async def report(number: int) -> None:
        at = datetime.now(UTC)
        about = regarding_pod(PodUid("u"), PodKey("default", f"{tag}-ours-{number + _WARM}"))
        made = ReportedEvent(regarding=about, reason="Scheduled", note="to n1", at=at)
        body = event_body(made, "scheduler-0", 1, at)
        await api.place("/apis/events.k8s.io/v1/namespaces/default/events", body)

    async def delete(number: int) -> None:
        name = f"{tag}-theirs-{number + _WARM}"
        await api.send("DELETE", f"{PODS}/{name}", gracePeriodSeconds="0")

    found = {
        "Binding": await api.per_write_ms(bind, writes),
        "Binding of kubeshare-scheduler": await api.per_write_ms(place, writes),
        "event of kubeshare-scheduler": await api.per_write_ms(report, writes),
        "deletion": await api.per_write_ms(delete, writes),
    }
    for number in range(-_WARM, writes):
        path = f"{PODS}/{tag}-ours-{number + _WARM}"
        await api.send("DELETE", path, gracePeriodSeconds="0")
    return found


def _binding(name: str, annotations: dict[str, str]) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "annotations": annotations},
        "target": {"kind": "Node", "name": "n1"},
    }


async def measure(api: Api, chosen: Chosen) -> dict[str, dict[str, float]]:
    """Medians by state: without policies, and with those of each set of manifests."""
    rounds: dict[str, list[dict[str, float]]] = {}
    without: dict[str, list[Json]] = {WITHOUT: []}
    for number in range(chosen.rounds):
        for state, objects in (without | chosen.states).items():
            print(f"round {number + 1} of {chosen.rounds}: {state}", file=sys.stderr, flush=True)
            bindings = [one for one in objects if one["kind"].endswith("Binding")]
            policies = [one for one in objects if not one["kind"].endswith("Binding")]
            async with api.policies(policies):
                await api.bind(bindings)
                tag = f"r{number}-{len(rounds)}"
                rounds.setdefault(state, []).append(
                    await measure_round(api, tag, chosen.writes, chosen.containers)
                )
                await api.unbind(bindings)
    return {
        state: {what: statistics.median(one[what] for one in taken) for what in taken[0]}
        for state, taken in rounds.items()
    }


@asynccontextmanager
async def ground(folder: Path) -> AsyncIterator[Api]:
    """An API server with a node and all that policies look for."""
    with control_plane(
        build([*NEEDED, "helm"]), folder, controllers=False, identity=False
    ) as plane:
        async with KubeClient(load(str(plane.kubeconfig))) as client:
            account = {"metadata": {"name": "default"}}
            await client.create("/api/v1/namespaces/default/serviceaccounts", account)
            await client.create("/api/v1/nodes", {"metadata": {"name": "n1"}})
            await client.create("/apis/node.k8s.io/v1/runtimeclasses", RUNTIME_CLASS)
            await ship_lease(client)
            held = {"holderIdentity": HOLDER, "leaseTransitions": 1}
            await client.merge_patch(LEASE, {"spec": held})
            async with KubeClient(load(str(_as_scheduler(plane)))) as scheduler:
                yield Api(client, scheduler, plane)


def _as_scheduler(plane: ControlPlane) -> Path:
    """A kubeconfig of the administrator, who acts as the scheduler and may do all that he may."""
    config = yaml.safe_load(plane.kubeconfig.read_text())
    for one in config["users"]:
        one["user"] |= {"as": SCHEDULER, "as-groups": ["system:masters"]}
    path = plane.folder / "as-scheduler"
    path.write_text(yaml.safe_dump(config))
    return path


def manifests(state: str) -> list[Json]:
    """The policies and bindings of this state."""
    if state == "default":
        return shipped(*MUTATING, *POLICIES)
    return policies_in(template(*ALL, kubernetes=PLAIN_FOR))


def policies_in(text: str) -> list[Json]:
    """Those among YAML documents."""
    return [one for one in yaml.safe_load_all(text) if one and one["kind"] in _PATHS]


def one_at_a_time(states: dict[str, list[Json]]) -> dict[str, list[Json]]:
    """A state for each binding, with its policy."""
    found = {}
    for state, objects in states.items():
        for one in objects:
            if one["kind"].endswith("Binding"):
                name, kind = one["metadata"]["name"], one["kind"].removesuffix("Binding")
                wanted = {(kind, one["spec"]["policyName"]), (one["kind"], name)}
                key = f"{state} {kind.removesuffix('AdmissionPolicy').lower()} {name}"
                found[key] = [
                    other
                    for other in objects
                    if (other["kind"], other["metadata"]["name"]) in wanted
                ]
    return found


def table(medians: dict[str, dict[str, float]]) -> str:
    """As Markdown: what each state costs, and how much more than without."""
    states = list(medians)
    lines = [
        f"| ms of CPU of kube-apiserver a write | {' | '.join(states)} |",
        f"| --- |{' ---: |' * len(states)}",
    ]
    for what, bare in medians[WITHOUT].items():
        more = [
            f"{medians[one][what]:.1f} ({medians[one][what] - bare:+.1f})" for one in states[1:]
        ]
        lines.append(f"| {' | '.join([what, f'{bare:.1f}', *more])} |")
    return "\n".join(lines)


async def report(chosen: Chosen, output: str) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="kubeshare-apiserver-cost-") as folder:
        async with ground(Path(folder)) as api:
            medians = await measure(api, chosen)
    if output == "json":
        print(json.dumps({"writes": chosen.writes, "rounds": chosen.rounds, "ms": medians}))
    else:
        print(table(medians))


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    both = ("default", "all")
    parser.add_argument("--states", nargs="*", choices=both, default=both, help="of the chart")
    parser.add_argument(
        "--manifests", nargs="*", default=[], metavar="NAME=FILE", help="further states: YAML files"
    )
    parser.add_argument("--each", action="store_true", help="one binding at a time")
    parser.add_argument("--writes", type=int, default=60, metavar="N", help="of each kind")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="medians are of these")
    parser.add_argument("--containers", type=int, default=0, metavar="N", help="of large pods")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    given = parser.parse_args(arguments)
    states = {
        name: policies_in(Path(file).read_text())
        for name, _, file in (one.partition("=") for one in given.manifests)
    } | {state: manifests(state) for state in given.states}
    if given.each:
        states = one_at_a_time(states)
    uvloop.run(report(Chosen(states, given.writes, given.rounds, given.containers), given.output))
    return 0


if __name__ == "__main__":
    sys.exit(main())
