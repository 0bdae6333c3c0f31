"""Gemini's daemons as processes, with stand-ins that speak its files and sockets."""

import asyncio
import os
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.card_reading import Isolation, IsolationBackend
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, PodKey, PodUid
from kubeshare_py.edges.node.gemini.gemini_folder import GeminiFolder
from kubeshare_py.edges.node.gemini.gemini_launcher import GeminiLauncher
from kubeshare_py.edges.process.liveness import alive
from kubeshare_py.node_agent.gemini import gemini_files
from kubeshare_py.node_agent.tenants import NodeTenant
from tests.edges.node.gemini.programs import ask, free_port, installed, kill, logged, runs, starts
from tests.edges.node.gemini.stand_in import (
    MEM_LIMIT,
    MEM_UPDATE,
    QUOTA,
    grant_order,
    read_config,
)
from tests.patience import PATIENCE_S

X, Y = GpuUuid("GPU-x"), GpuUuid("GPU-y")
GIB = 2**30


def tenant(name: str, port: int, milli: int = 500, limit: int = 1000) -> NodeTenant:
    allocation = Allocation(
        token=DecisionToken(name),
        cards=(CardCharge(X, milli, GIB),),
        port=port,
        isolation=Isolation(IsolationBackend.GEMINI, limit),
    )
    return NodeTenant(uid=PodUid(name), key=PodKey("ml", name), allocation=allocation)


class Node:
    """A node's folders, with a launcher."""

    def __init__(self, root: Path) -> None:
        self.folder = GeminiFolder(root)
        self.log = root / "log"
        self.log.mkdir()
        self.alive = root / "alive"
        programs = installed(root / "programs")
        environ = {**os.environ, "GEMINI_LOG": str(self.log)}
        self.launcher = GeminiLauncher(
            self.folder, programs, self.alive, free_port(2), environ=environ
        )

    def holds(self, ports: Mapping[str, int]) -> None:
        """These pods hold half of card X each."""
        tenants = [tenant(name, port) for name, port in ports.items()]
        self.folder.put(gemini_files(tenants, {}, [X, Y]))

    def runs(self, name: str) -> list[int]:
        return [pid for pid in starts(self.log, name) if runs(pid)]

    async def expect_eventually(self, wanted: Callable[[], object]) -> None:
        """Look again and again: what another process does wakes nobody."""
        looks, loop = asyncio.Event(), asyncio.get_running_loop()
        async with asyncio.timeout(PATIENCE_S):
            while not wanted():
                looks.clear()
                loop.call_later(0.02, looks.set)
                await looks.wait()

    @asynccontextmanager
    async def launching(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.launcher.run())
            self.launcher.listed([X, Y])
            yield
            task.cancel()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.slow
async def test_each_card_has_a_scheduler_and_each_pod_a_manager_with_its_limits(node: Node) -> None:
    a, b = free_port(), free_port()
    node.holds({"a": a, "b": b})
    async with node.launching():
        await node.expect_eventually(lambda: node.runs("pmgr-ml/a") and node.runs("pmgr-ml/b"))
        await node.expect_eventually(lambda: alive(node.alive) == (X, Y))
        assert ask(a, "ml/a", MEM_LIMIT)[:16] == struct.pack("@NN", 0, GIB)
        [limits] = [line["limit"] for line in logged(node.log, "pmgr-ml/b")]
        assert limits == GIB
        pids = [*node.runs("pmgr-ml/a"), *node.runs("schd-GPU-x"), *node.runs("schd-GPU-y")]
    assert [pid for pid in pids if runs(pid)] == []
    assert alive(node.alive) == ()


@pytest.mark.slow
async def test_64_only_the_line_that_goes_ends_its_manager(node: Node) -> None:
    """It ends with what it started itself; the schedulers and the other managers run on."""
    a, b, c = free_port(), free_port(), free_port()
    node.holds({"a": a, "b": b})
    async with node.launching():
        await node.expect_eventually(lambda: node.runs("pmgr-ml/a") and node.runs("pmgr-ml/b"))
        [gone] = logged(node.log, "pmgr-ml/b")
        stays = [*node.runs("pmgr-ml/a"), *node.runs("schd-GPU-x"), *node.runs("schd-GPU-y")]
        node.holds({"a": a, "c": c})
        await node.expect_eventually(lambda: node.runs("pmgr-ml/c"))
        await node.expect_eventually(lambda: not runs(gone["pid"]) and not runs(gone["helper"]))
        assert all(map(runs, stays))
        node.holds({})
        await node.expect_eventually(
            lambda: not node.runs("pmgr-ml/a") and not node.runs("pmgr-ml/c")
        )
        assert len(starts(node.log, "pmgr-ml/a")) == 1
        assert len(starts(node.log, "schd-GPU-x")) == 1


@pytest.mark.slow
async def test_a_pod_of_the_same_name_at_another_port_is_another_line(node: Node) -> None:
    first, second = free_port(), free_port()
    node.holds({"a": first})
    async with node.launching():
        await node.expect_eventually(lambda: node.runs("pmgr-ml/a"))
        node.holds({"a": second})
        await node.expect_eventually(
            lambda: [one["listens"] for one in logged(node.log, "pmgr-ml/a")] == [first, second]
        )
        await node.expect_eventually(lambda: len(node.runs("pmgr-ml/a")) == 1)


@pytest.mark.slow
async def test_a_scheduler_reads_each_change_of_its_own_file_once_and_whole(node: Node) -> None:
    """Gemini's scheduler waits for IN_CLOSE_WRITE of the file's name."""
    a, b = free_port(), free_port()
    node.holds({"a": a})
    async with node.launching():
        await node.expect_eventually(lambda: node.runs("schd-GPU-x") and node.runs("schd-GPU-y"))
        node.holds({"a": a})
        node.holds({"a": a, "b": b})
        one, two = "ml/a 0.5 1.0 1073741824\n", "ml/b 0.5 1.0 1073741824\n"

        def texts(card: str) -> list[str]:
            return [line["read"] for line in logged(node.log, f"schd-{card}") if "read" in line]

        await node.expect_eventually(lambda: texts(X) == [f"1\n{one}", f"2\n{one}{two}"])
        assert texts(Y) == ["0\n"]


@pytest.mark.slow
async def test_daemons_that_die_are_started_again(node: Node) -> None:
    """KubeShare's launcher does not start them again, and pods hang from then on."""
    a = free_port()
    node.holds({"a": a})
    async with node.launching():
        await node.expect_eventually(lambda: node.runs("pmgr-ml/a"))
        kill(node.runs("pmgr-ml/a")[0])
        await node.expect_eventually(lambda: len(starts(node.log, "pmgr-ml/a")) == 2)
        assert len(starts(node.log, "schd-GPU-x")) == 1
        kill(node.runs("schd-GPU-x")[0])
        await node.expect_eventually(lambda: len(starts(node.log, "pmgr-ml/a")) == 3)
        # It connects once, when it starts: the old one could not have gone on.
        assert len(node.runs("pmgr-ml/a")) == 1
        assert len(starts(node.log, "schd-GPU-y")) == 1


@pytest.mark.slow
async def test_programs_that_are_not_there_yet_are_started_once_they_are(node: Node) -> None:
    node.holds({})
    program = node.folder.programs.parent.parent / "programs/gem-schd"
    program.rename(program.with_name("later"))
    async with node.launching():
        await node.expect_eventually(lambda: node.launcher.is_waiting)
        program.with_name("later").rename(program)
        await node.expect_eventually(lambda: alive(node.alive) == (X, Y))


@pytest.mark.slow
async def test_what_a_pod_may_use_is_what_its_allocation_says(node: Node) -> None:
    a = free_port()
    node.holds({"a": a})
    async with node.launching():
        await node.expect_eventually(lambda: node.runs("pmgr-ml/a"))

        def takes(size: int) -> bool:
            found = ask(a, "ml/a", MEM_UPDATE, struct.pack("@Ni", size, 1))
            return struct.unpack_from("@i", found) == (1,)

        assert [takes(GIB // 2), takes(GIB), takes(GIB // 2), takes(1)] == [
            True,
            False,
            True,
            False,
        ]


@pytest.mark.slow
async def test_62_quotas_follow_the_bursts(node: Node) -> None:
    """Bursts of 0, 100, 100 and 100 ms get 300, 200, 150 and 125 ms, by the launcher's options."""
    a = free_port()
    node.holds({"a": a})
    async with node.launching():
        await node.expect_eventually(lambda: node.runs("pmgr-ml/a"))
        quotas = [
            struct.unpack_from("@d", ask(a, "ml/a", QUOTA, struct.pack("@dd", 0.0, burst)))[0]
            for burst in (0, 100, 100, 100)
        ]
    assert quotas == [300, 200, 150, 125]


def test_61_pods_below_their_request_come_first_and_those_at_their_limit_wait() -> None:
    """What misses most of its request comes first; by KubeShare's order of fields A would wait."""
    pods = [
        tenant("a", 50051, 500, 1000),
        tenant("b", 50052, 200, 1000),
        tenant("c", 50053, 100, 1000),
        tenant("d", 50054, 300, 400),
    ]
    clients = read_config(gemini_files(pods, {}).config[X])
    used = {"ml/a": 2000.0, "ml/b": 400.0, "ml/c": 1500.0, "ml/d": 4100.0}
    assert grant_order(clients, used, 10_000) == ["ml/b", "ml/a", "ml/c"]
