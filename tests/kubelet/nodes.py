"""One node: an API server, kubelet's device manager, a fake driver, and the node agent."""

import asyncio
import json
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kubeshare_py.dialects.allocation import write_allocation
from kubeshare_py.dialects.results import ALLOCATION
from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.node_agent.agent_report import ANNOTATION
from tests.embedded_cluster.embedded import PODS, cluster
from tests.fake_nvml.board import Board
from tests.kubelet.device_managers import (
    DeviceManager,
    DeviceManagerRefused,
    Given,
    device_manager,
)
from tests.patience import PATIENCE_S

Json = dict[str, Any]
NODE = "/api/v1/nodes/n1"
GPU_MEM, GPU_COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"
CORE, MEMORY = "elasticgpu.io/gpu-core", "elasticgpu.io/gpu-memory"
NVIDIA = "nvidia.com/gpu"
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_LOOK_S = 0.05


class KubeletNode:
    """The node n1; its agent serves `devices`."""

    def __init__(
        self,
        client: KubeClient,
        manager: DeviceManager,
        board: Board,
        kubeconfig: Path,
        arguments: Sequence[str],
    ) -> None:
        self.client = client
        self.manager = manager
        self.board = board
        self._arguments = ("--kubeconfig", str(kubeconfig), *arguments)
        self._agent: Process | None = None

    async def start_agent(self) -> None:
        """Start kubeshare-node-agent."""
        log = (self.manager.root / "agent.log").open("ab")
        self._agent = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "kubeshare_cmd.node_agent", "--node-name", "n1",
            "--address", "127.0.0.1", "--port", "0", "--interval", "0.2",
            "--root", str(self.manager.root), *self._arguments,
            env=self.board.environment, stdin=asyncio.subprocess.DEVNULL, stderr=log,
        )  # fmt: skip
        log.close()

    async def kill_agent(self) -> None:
        """As kill -9."""
        if self._agent is not None and self._agent.returncode is None:
            self._agent.kill()
            await self._agent.wait()

    async def bind(
        self,
        asking: Json,
        cards: Sequence[GpuUuid] = (),
        claims: Mapping[int, Sequence[GpuUuid]] | None = None,
        annotations: Mapping[str, str] = MappingProxyType({}),
        allocation: Allocation | None = None,
    ) -> Json:
        """Create the pod, bound with an allocation of these cards; as the server stored it."""
        metadata = {**asking["metadata"], "annotations": {**annotations}}
        if allocation is not None:
            metadata["annotations"][ALLOCATION] = write_allocation(allocation)
        if cards or claims:
            metadata["annotations"] = {**annotations, ALLOCATION: _allocation(cards, claims or {})}
        metadata.pop("uid", None)
        spec = {**asking["spec"], "nodeName": "n1"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        return await self.client.create(PODS, body)

    async def admit(self, stored: Json) -> None:
        """kubelet admits the pod. Raises DeviceManagerRefused."""
        await self.manager.ask(op="admit", pod=stored)

    async def delete(self, stored: Json) -> None:
        """The pod ends."""
        about = stored["metadata"]
        await self.client.delete(f"{PODS}/{about['name']}", grace_period_s=0)
        await self.manager.ask(op="remove", uid=about["uid"])

    async def sees(self, stored: Json, container: str = "main") -> dict[str, str]:
        """The variables of a container that starts: the plugin's, then those of its claims."""
        given = await self.manager.started(stored, container)
        return {**given.variables, **self.claimed(given)}

    async def sees_at_last(self, stored: Json, container: str = "main") -> dict[str, str]:
        """The same as kubelet does it: it tries again what was refused."""
        last_look = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            try:
                return await self.sees(stored, container)
            except DeviceManagerRefused:
                if asyncio.get_running_loop().time() > last_look:
                    raise
            await asyncio.sleep(_LOOK_S)

    async def mounts(self, stored: Json, container: str = "main") -> dict[str, tuple[str, bool]]:
        """The mounts of its claims: the node's path and whether it may write, by its own path."""
        given = await self.manager.started(stored, container)
        return {
            one["containerPath"]: (one["hostPath"], "rw" in one["options"])
            for edits in self._edits(given)
            for one in edits.get("mounts", ())
        }

    def claimed(self, given: Given) -> dict[str, str]:
        """The variables that a runtime reads of the CDI devices."""
        lines = [line for edits in self._edits(given) for line in edits["env"]]
        return dict(line.split("=", 1) for line in lines)

    def _edits(self, given: Given) -> list[Json]:
        known: dict[str, Json] = {}
        for path in (self.manager.root / "var/run/cdi").glob("*.json"):
            document = json.loads(path.read_text())
            for device in document["devices"]:
                known[f"{document['kind']}={device['name']}"] = device["containerEdits"]
        return [known[name] for name in given.cdi]

    async def report(self) -> Json:
        """The agent's annotation; {} if there is none."""
        annotations = (await self.client.get(NODE))["metadata"].get("annotations") or {}
        found: Json = json.loads(annotations.get(ANNOTATION, "{}"))
        return found

    async def expect_enforced(self, *backends: str) -> None:
        """Wait until the agent says that these back-ends work because of it."""
        last_look = asyncio.get_running_loop().time() + PATIENCE_S
        while (await self.report()).get("enforces") != [*backends]:
            assert asyncio.get_running_loop().time() < last_look, f"not enforced: {backends}"
            await asyncio.sleep(_LOOK_S)

    async def expect_names(self, wanted: Sequence[str], folder: Path, pattern: str) -> None:
        """Wait until a folder has these names and no others: the agent removes old ones later."""
        last_look = asyncio.get_running_loop().time() + PATIENCE_S
        while (found := _names(folder, pattern)) != [*wanted]:
            assert asyncio.get_running_loop().time() < last_look, f"there is {found}"
            await asyncio.sleep(_LOOK_S)

    async def expect_held(self, **wanted: Sequence[str]) -> None:
        """Wait until these pods hold these cards, and no others hold any."""
        last_look = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            report = await self.report()
            held = {one["pod"]: one["cards"] for one in report.get("held", [])}
            if report and held == {name: sorted(cards) for name, cards in wanted.items()}:
                return
            assert asyncio.get_running_loop().time() < last_look, f"held: {held}"
            await asyncio.sleep(_LOOK_S)


def _names(folder: Path, pattern: str) -> list[str]:
    return sorted(str(one.relative_to(folder)) for one in folder.glob(pattern))


def _allocation(cards: Sequence[GpuUuid], claims: Mapping[int, Sequence[GpuUuid]]) -> str:
    of = {at: tuple(CardCharge(one, 100, 1 << 30) for one in each) for at, each in claims.items()}
    parts = tuple(
        ClaimCharge(container=ContainerRef(init=False, index=at), cards=each)
        for at, each in of.items()
    )
    whole = tuple(CardCharge(one, 100, 1 << 30) for one in cards)
    every = whole or summed(card for each in of.values() for card in each)
    return write_allocation(Allocation(token=DecisionToken("t"), cards=every, claims=parts))


@asynccontextmanager
async def kubelet_node(
    folder: Path, board: Board, *devices: str, **options: str
) -> AsyncIterator[KubeletNode]:
    """A node whose agent runs, once kubelet knows its resources, or those in `awaits`.

    Without `devices` it only asks kubelet what others gave.
    """
    awaited = options.pop("awaits", ",".join(name.partition("=")[0] for name in devices))
    async with cluster(folder) as (_, client), device_manager() as manager:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        await client.create("/api/v1/nodes", node)
        arguments = ["--devices", ",".join(devices)] if devices else ["--pod-resources"]
        for name, value in options.items():
            arguments += [f"--{name.replace('_', '-')}", *([value] if value else [])]
        made = KubeletNode(client, manager, board, folder / "kubeconfig", arguments)
        await made.start_agent()
        try:
            await manager.expect_capacity(
                lambda capacity, free: all(free.get(name) for name in awaited.split(",") if name)
            )
            yield made
        finally:
            await made.kill_agent()
