"""Gemini's files follow what the agent knows of its node."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.card_reading import Isolation, IsolationBackend
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.edges.node.gemini.gemini_folder import GeminiFolder
from kubeshare_py.edges.node.gemini.gemini_part import GeminiPart
from kubeshare_py.edges.process.liveness import shown
from kubeshare_py.node_agent.tenants import AgentState, NodeTenant
from tests.making import a_gpu
from tests.patience import PATIENCE_S

X = GpuUuid("GPU-x")
CARDS = (a_gpu(X, memory_bytes=2**34),)


def tenant(name: str, port: int = 50051) -> NodeTenant:
    charge = CardCharge(X, 500, 2**30)
    isolation = Isolation(IsolationBackend.GEMINI, 1000)
    allocation = Allocation(
        token=DecisionToken(name), cards=(charge,), port=port, isolation=isolation
    )
    return NodeTenant(uid=PodUid(name), key=PodKey("ml", name), allocation=allocation)


def state(*tenants: NodeTenant) -> AgentState:
    return AgentState(CARDS, {one.uid: one for one in tenants})


class Agent:
    """A part that works, told by hand."""

    def __init__(self, root: Path) -> None:
        self.folder = GeminiFolder(root)
        self.alive = root / "alive"
        self.part = GeminiPart(NodeName("n1"), self.folder, self.alive, "10.0.0.7", look_s=0.02)
        self.reports = 0
        self.part.on_report = self.reported

    def reported(self) -> None:
        self.reports += 1

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.part.run())
            yield
            task.cancel()

    async def expect_eventually(self, wanted: Callable[[], object]) -> None:
        looks, loop = asyncio.Event(), asyncio.get_running_loop()
        async with asyncio.timeout(PATIENCE_S):
            while not wanted():
                looks.clear()
                loop.call_later(0.01, looks.set)
                await looks.wait()

    def has_library(self) -> None:
        self.folder.programs.mkdir(parents=True)
        (self.folder.programs / "libgemhook.so.1").write_bytes(b"\x7fELF")

    def config(self) -> str:
        path = self.folder.config / X
        return path.read_text() if path.exists() else ""

    def enforces(self) -> list[str] | None:
        report = self.part.report()
        return None if report is None else [*report.enforces]

    def value(self, name: str) -> object:
        return self.part.values().get(name, {}).get(("n1",))


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


async def test_56_before_the_pods_are_listed_the_files_stay_as_they_are(agent: Agent) -> None:
    """KubeShare empties them when Prometheus does not answer, which ends every pod manager."""
    agent.has_library()
    agent.folder.config.mkdir(parents=True)
    (agent.folder.config / X).write_text("1\nml/a 0.5 1.0 1073741824\n")
    async with agent.working():
        agent.part.take(AgentState(CARDS, None))
        address = agent.folder.library / "schedulerIP.txt"
        await agent.expect_eventually(address.exists)
        assert address.read_text() == "10.0.0.7\n"
        assert agent.config().startswith("1\n")
        assert agent.enforces() is None
        agent.part.take(state())
        await agent.expect_eventually(lambda: agent.config() == "0\n")


async def test_the_files_follow_the_pods(agent: Agent) -> None:
    async with agent.working():
        agent.part.take(state(tenant("a")))
        await agent.expect_eventually(lambda: agent.config().startswith("1\nml/a 0.5"))
        agent.part.take(state(tenant("a"), tenant("b", 50052)))
        await agent.expect_eventually(lambda: agent.config().startswith("2\n"))
        assert agent.value("kubeshare_gemini_pods") == 2
        agent.part.take(state())
        await agent.expect_eventually(lambda: agent.config() == "0\n")


async def test_a_pod_that_cannot_be_served_is_told_once_and_counted(
    agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    async with agent.working():
        agent.part.take(state(tenant("a" * 60)))
        await agent.expect_eventually(lambda: agent.value("kubeshare_gemini_unserved_pods") == 1)
        agent.part.take(state(tenant("a" * 60), tenant("b")))
        await agent.expect_eventually(lambda: agent.value("kubeshare_gemini_pods") == 1)
    said = [one for one in caplog.records if one.getMessage() == "gemini-unserved"]
    assert len(said) == 1


async def test_it_enforces_gemini_where_the_library_and_every_scheduler_are(agent: Agent) -> None:
    agent.has_library()
    agent.alive.mkdir()
    async with agent.working():
        agent.part.take(state())
        await agent.expect_eventually(lambda: agent.enforces() == [])
        with shown(agent.alive / X):
            await agent.expect_eventually(lambda: agent.enforces() == ["gemini"])
            assert agent.value("kubeshare_gemini_schedulers") == 1
        await agent.expect_eventually(lambda: agent.enforces() == [])
    assert agent.reports == 3


async def test_without_the_library_the_folder_that_pods_mount_is_not_made(agent: Agent) -> None:
    """A pod with this back-end then does not start, instead of running without limits."""
    async with agent.working():
        agent.part.take(state(tenant("a")))
        await agent.expect_eventually(lambda: agent.config().startswith("1\n"))
    assert not agent.folder.library.exists()


async def test_a_folder_that_cannot_be_written_is_a_problem_until_it_can(agent: Agent) -> None:
    obstacle = agent.folder.config.parent.parent
    obstacle.write_text("a file where the folder should be")
    async with agent.working():
        agent.part.take(state(tenant("a")))
        await agent.expect_eventually(agent.part.problem)
        assert "cannot be written" in agent.part.problem()
        assert agent.value("kubeshare_gemini_file_failures_total") == 1
        obstacle.unlink()
        await agent.expect_eventually(lambda: agent.config().startswith("1\n"))
        assert agent.part.problem() == ""
