"""`mps`: kubeshare-mps runs NVIDIA's own daemon, and limits hold for what the variables say."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.edges.node.mps_launcher import PROGRAM, MpsLauncher, proofs_of
from kubeshare_py.edges.process.liveness import alive
from kubeshare_py.isolation.backends import MPS
from tests.deploy.container import can_mount
from tests.gpu.card import OUT_OF_MEMORY, CudaProcess, cuda_process, variables
from tests.gpu.conftest import Figure
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.gpu
MIB, GIB = 1 << 20, 1 << 30
#: Work that fills every multiprocessor of the largest card many times over.
WORK = {"blocks": 20000, "rounds": 2000}
#: The mounts that a container gets: arguments are pairs of folder and place, and then a command.
_IN_MOUNTS = """
while [ "$1" != -- ]; do mkdir -p "$2" && mount --bind "$1" "$2" || exit 1; shift 2; done
shift; exec "$@"
"""
NewPod = Callable[[int, int], AbstractContextManager[CudaProcess]]


@pytest.fixture(autouse=True)
def control(turn: None) -> None:
    """NVIDIA's daemon, and the right to start it as kubeshare-mps does."""
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"{PROGRAM} is not here")
    if not can_mount():
        pytest.skip("it needs the right to make mounts")


async def expect_soon(wanted: Callable[[], bool], folder: Path) -> None:
    """Wait for what a daemon does, or show its log."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if wanted():
                    return
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(_logs(folder)) from None


def _logs(folder: Path) -> str:
    logs = [f"{path}:\n{path.read_text()[-3000:]}" for path in folder.glob("*/log/*.log")]
    return "\n".join(logs) or f"no logs below {folder}"


@asynccontextmanager
async def daemons(uuid: GpuUuid) -> AsyncIterator[Path]:
    """A daemon for the card, from its first answer; the folder that pods mount."""
    # Paths of sockets are short, and pytest's folders are not.
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        cards = Path(folder) / "mps"
        launcher = MpsLauncher(cards)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(launcher.run())
            launcher.listed([uuid])
            try:
                await expect_soon(lambda: alive(proofs_of(cards)) == (uuid,), cards)
                yield cards
            finally:
                task.cancel()


def new_pod(folder: Path, uuid: GpuUuid) -> NewPod:
    """Make processes as containers of pods with so much time (milli) and memory (bytes)."""

    @contextmanager
    def made(milli: int, memory_bytes: int) -> Iterator[CudaProcess]:
        given = variables(MPS, uuid, milli=milli, memory_bytes=memory_bytes)
        mounts = []
        for one in MPS.mounts:
            part = one.sub_path_expr.replace("$(NVIDIA_VISIBLE_DEVICES)", uuid)
            mounts += [str(folder / part), one.path]
        before = ["unshare", "--mount", "--propagation=private", "sh", "-c", _IN_MOUNTS, "sh"]
        with cuda_process(given, before=(*before, *mounts, "--")) as program:
            yield program

    return made


async def test_a_pod_has_the_memory_that_it_is_charged_and_no_more(
    uuid: GpuUuid, figure: Figure
) -> None:
    async with daemons(uuid) as folder:
        with new_pod(folder, uuid)(500, 4 * GIB) as program:
            program.do("take", bytes=2 * GIB)
            assert program.ask("take", bytes=4 * GIB)["code"] == OUT_OF_MEMORY
            program.do("give")
            taken = program.most_bytes(64 * MIB)
    assert 3 * GIB < taken <= 4 * GIB
    figure(f"mps: a pod that is charged 4096 MiB took {taken // MIB} MiB, and no more")


async def test_a_pod_computes_on_its_part_of_the_multiprocessors(
    uuid: GpuUuid, figure: Figure
) -> None:
    with cuda_process({"CUDA_VISIBLE_DEVICES": uuid}) as program:
        every = program.do("processors")["processors"]
        program.do("work", **WORK)
        alone = program.do("work", seconds=2, **WORK)
    async with daemons(uuid) as folder:
        with new_pod(folder, uuid)(250, 4 * GIB) as program:
            own = program.do("processors")["processors"]
            program.do("work", **WORK)
            found = program.do("work", seconds=2, **WORK)
    assert own == pytest.approx(every / 4, abs=3)
    part = (found["times"] / found["seconds"]) / (alone["times"] / alone["seconds"])
    assert part == pytest.approx(0.25, abs=0.05)
    figure(f"mps: gpu_limit 0.25 has {own} of {every} multiprocessors, {part:.1%} of the work")


async def test_two_pods_compute_beside_each_other(uuid: GpuUuid, figure: Figure) -> None:
    async with daemons(uuid) as folder:
        pod = new_pod(folder, uuid)
        with pod(500, 4 * GIB) as one, pod(500, 4 * GIB) as other:
            for program in (one, other):
                program.do("work", **WORK)
            alone = one.do("work", seconds=2, **WORK)
            for program in (one, other):
                program.send("work", seconds=3, **WORK)
            together = [one.answer(), other.answer()]
    rates = [each["times"] / each["seconds"] for each in together]
    kept = min(rates) / (alone["times"] / alone["seconds"])
    assert kept > 0.8
    figure(f"mps: of two pods with gpu_limit 0.5 each does {kept:.0%} of what it does alone")


async def test_a_daemon_that_is_killed_comes_back_and_serves_new_containers(
    uuid: GpuUuid, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with daemons(uuid) as folder:
        pod = new_pod(folder, uuid)
        with pod(500, 4 * GIB) as program:
            program.do("take", bytes=GIB)
            told = [getattr(record, "fields", {}) for record in caplog.records]
            [pid] = [fields["pid"] for fields in told if "pid" in fields]
            os.kill(pid, 9)
            await expect_soon(lambda: "mps-died" in caplog.text, folder)
        await expect_soon(lambda: alive(proofs_of(folder)) == (uuid,), folder)
        with pod(500, 4 * GIB) as program:
            program.do("take", bytes=2 * GIB)
            assert program.ask("take", bytes=4 * GIB)["code"] == OUT_OF_MEMORY
