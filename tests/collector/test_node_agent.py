"""The node agent and Gemini's daemons as they run on a node, with a fake driver: processes only."""

import asyncio
import signal
import struct
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubeshare_py.dialects.allocation import write_allocation
from kubeshare_py.dialects.results import ALLOCATION
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.card_reading import Isolation, IsolationBackend
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.node_agent.agent_report import ANNOTATION
from tests.collector.conftest import NewBoard
from tests.edges.node.gemini.programs import ask, free_port, installed, runs, starts
from tests.edges.node.gemini.stand_in import MEM_LIMIT
from tests.embedded_cluster.embedded import PODS, cluster, create_pod
from tests.patience import PATIENCE_S

NODE = "/api/v1/nodes/n1"


@asynccontextmanager
async def running(
    module: str, environment: Mapping[str, str], *options: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program of ours on the node n1; ended in order, unless it has ended."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"kubeshare_cmd.{module}", "--node-name", "n1"),
        *("--interval", "0.2", *options),
        env=dict(environment),
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(PATIENCE_S):
            await process.wait()


async def expect_eventually(wanted: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if wanted():
                return
            await asyncio.sleep(0.02)


async def expect_enforced(client: KubeClient) -> None:
    """The Node says that Gemini works there."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            written = (await client.get(NODE))["metadata"].get("annotations") or {}
            if '"enforces":["gemini"]' in written.get(ANNOTATION, ""):
                return
            await asyncio.sleep(0.05)


async def bind(client: KubeClient, name: str, card: str, port: int) -> None:
    """A pod with half of a card."""
    await create_pod(client, name)
    allocation = Allocation(
        token=DecisionToken(name),
        cards=(CardCharge(GpuUuid(card), 500, 2**30),),
        port=port,
        isolation=Isolation(IsolationBackend.GEMINI, 1000),
    )
    metadata = {"name": name, "annotations": {ALLOCATION: write_allocation(allocation)}}
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    await client.create(f"{PODS}/{name}/binding", binding)


@pytest.mark.slow
async def test_pods_keep_their_pod_managers_while_the_agent_is_killed_and_comes_back(
    new_board: NewBoard, tmp_path: Path
) -> None:
    board, root, log = new_board("t4-box"), tmp_path / "node", tmp_path / "log"
    log.mkdir()
    programs = installed(root / "kubeshare/bin")
    (programs / "libgemhook.so.1").write_bytes(b"\x7fELF")
    a, b = free_port(), free_port()
    async with cluster(tmp_path) as (_, client):
        about = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        await client.create("/api/v1/nodes", about)
        environment = {
            **board.environment,
            "KUBECONFIG": str(tmp_path / "kubeconfig"),
            "GEMINI_LOG": str(log),
            "HOST_IP": "127.0.0.1",
        }
        here = ("--root", str(root))
        agent = ("--gemini", "--address", "127.0.0.1", "--port", "0", *here)
        async with running("gemini", environment, *here):
            async with running("node_agent", environment, *agent) as first:
                await bind(client, "a", board.uuid(2), a)
                await expect_eventually(lambda: starts(log, "pmgr-default/a"))
                await expect_enforced(client)
                first.send_signal(signal.SIGKILL)
                await first.wait()
            [manager] = starts(log, "pmgr-default/a")
            await bind(client, "b", board.uuid(2), b)
            memory = ask(a, "default/a", MEM_LIMIT)
            assert memory[:16] == struct.pack("@NN", 0, 2**30)
            async with running("node_agent", environment, *agent):
                await expect_eventually(lambda: starts(log, "pmgr-default/b"))
                assert starts(log, "pmgr-default/a") == [manager]
                assert runs(manager)
                assert len(starts(log, f"schd-{board.uuid(2)}")) == 1
                await client.delete(f"{PODS}/a", grace_period_s=0)
                await expect_eventually(lambda: not runs(manager))
        address = root / "kubeshare/library/schedulerIP.txt"
        assert address.read_text() == "127.0.0.1\n"
        assert not any(runs(pid) for pid in starts(log, "pmgr-default/b"))
