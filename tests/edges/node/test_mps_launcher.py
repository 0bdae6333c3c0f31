"""MPS daemons as processes: a stand-in for NVIDIA's, in mount namespaces as on a node."""

import asyncio
import os
import signal
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.edges.node.mps_launcher import MpsLauncher, proofs_of
from kubeshare_py.edges.process.liveness import alive
from kubeshare_py.isolation.backends import ALIVE, DAEMONS, MPS
from tests.deploy.container import can_mount
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.skipif(not can_mount(), reason="it needs the right to make mounts")

CONTROL = Path(__file__).with_name("mps_control.sh")
A, B = GpuUuid("GPU-a"), GpuUuid("MIG-b")


@asynccontextmanager
async def launching(
    folder: Path, program: str = str(CONTROL), end_s: float = 30
) -> AsyncIterator[MpsLauncher]:
    launcher = MpsLauncher(folder, program, end_s=end_s)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(launcher.run())
        yield launcher
        task.cancel()


async def expect_eventually(wanted: Callable[[], object]) -> None:
    """Look again and again: what a script writes wakes nobody."""
    looks = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(PATIENCE_S):
        while not wanted():
            looks.clear()
            loop.call_later(0.02, looks.set)
            await looks.wait()


def lines(folder: Path, card: GpuUuid) -> list[str]:
    """What this card's daemons logged."""
    log = folder / card / "log/control.log"
    return log.read_text().splitlines() if log.exists() else []


async def test_each_card_has_a_daemon_in_the_folders_that_its_pods_mount(tmp_path: Path) -> None:
    async with launching(tmp_path) as launcher:
        launcher.listed([A, B])
        await expect_eventually(lambda: lines(tmp_path, A) and lines(tmp_path, B))
        for card in (A, B):
            pipes = tmp_path / card / "pipe"
            assert lines(tmp_path, card) == [f"-f -multiuser-server {card} {pipes}"]
            found = {
                one.sub_path_expr.replace("$(NVIDIA_VISIBLE_DEVICES)", card) for one in MPS.mounts
            }
            assert found == {f"{card}/pipe", f"{card}/shm"}
            assert all((tmp_path / one).is_dir() for one in found)
            # Its /dev/shm is its card's folder, and nobody else's.
            shared = tmp_path / card / "shm"
            assert [one.name for one in shared.iterdir()] == [card]
            assert card not in os.listdir("/dev/shm")
            assert stat.S_IMODE(shared.stat().st_mode) == 0o1777
    for card in (A, B):
        assert lines(tmp_path, card)[-1] == "told to quit"


@pytest.mark.skipif(os.geteuid() != 0, reason="files of other users are root's to make")
async def test_a_container_that_gives_its_folder_to_another_user_keeps_no_daemon_from_starting(
    tmp_path: Path,
) -> None:
    shared = [tmp_path / A / name for name in ("pipe", "shm")]
    for folder in shared:
        folder.mkdir(parents=True)
        os.chown(folder, 12345, 12345)
        folder.chmod(0)
    async with launching(tmp_path) as launcher:
        launcher.listed([A])
        await expect_eventually(lambda: lines(tmp_path, A))
    assert [(one.stat().st_uid, one.stat().st_gid) for one in shared] == [(0, 0)] * 2
    assert [stat.S_IMODE(one.stat().st_mode) for one in shared] == [0o755, 0o1777]


async def test_the_daemon_of_a_card_that_is_gone_is_told_to_end(tmp_path: Path) -> None:
    async with launching(tmp_path) as launcher:
        launcher.listed([A, B])
        await expect_eventually(lambda: lines(tmp_path, A) and lines(tmp_path, B))
        launcher.listed([B])
        await expect_eventually(lambda: lines(tmp_path, A)[1:] == ["told to quit"])
        assert len(lines(tmp_path, B)) == 1


async def test_a_daemon_that_dies_is_started_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with launching(tmp_path) as launcher:
        caplog.set_level("INFO")
        launcher.listed([A])
        await expect_eventually(lambda: lines(tmp_path, A))
        told = [getattr(record, "fields", {}) for record in caplog.records]
        [pid] = [fields["pid"] for fields in told if "pid" in fields]
        os.kill(pid, signal.SIGKILL)
        await expect_eventually(lambda: len(lines(tmp_path, A)) == 2)
    assert lines(tmp_path, A)[2:] == ["told to quit"]


async def test_a_daemon_is_shown_from_its_first_answer_until_it_dies(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert str(proofs_of(Path(DAEMONS))) == ALIVE
    folder, proofs = tmp_path / "cards", proofs_of(tmp_path / "cards")
    async with launching(folder) as launcher:
        caplog.set_level("INFO")
        assert alive(proofs) is None
        launcher.listed([A, B])
        await expect_eventually(lambda: alive(proofs) == (A, B))
        told = [getattr(record, "fields", {}) for record in caplog.records]
        [pid] = [fields["pid"] for fields in told if fields.get("card") == A and "pid" in fields]
        os.kill(pid, signal.SIGKILL)
        await expect_eventually(lambda: alive(proofs) == (B,))
        await expect_eventually(lambda: alive(proofs) == (A, B))
        launcher.listed([A])
        await expect_eventually(lambda: alive(proofs) == (A,))
    assert alive(proofs) == ()


async def test_a_daemon_that_runs_and_does_not_answer_is_not_shown(tmp_path: Path) -> None:
    deaf = tmp_path / "control"
    deaf.write_text(CONTROL.read_text().replace("read -r word\n", "exit 1\n", 1))
    deaf.chmod(0o755)
    folder, proofs = tmp_path / "cards", proofs_of(tmp_path / "cards")
    async with launching(folder, str(deaf), end_s=0.2) as launcher:
        launcher.listed([A])
        await expect_eventually(lambda: lines(folder, A))
        deaf.write_text(CONTROL.read_text())
        await expect_eventually(lambda: alive(proofs) == (A,))


async def test_where_nothing_can_be_shown_the_daemons_run_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "cards"
    proofs_of(folder).touch()
    async with launching(folder) as launcher:
        launcher.listed([A])
        await expect_eventually(lambda: "mps-not-shown" in caplog.text)
        assert len(lines(folder, A)) == 1


async def test_without_the_driver_it_is_said_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "control"
    async with launching(tmp_path / "cards", str(program)) as launcher:
        launcher.listed([A])
        await expect_eventually(lambda: "mps-died" in caplog.text)
        program.symlink_to(CONTROL)
        await expect_eventually(lambda: lines(tmp_path / "cards", A))


async def test_one_that_does_not_end_is_killed(tmp_path: Path) -> None:
    stubborn = tmp_path / "control"
    text = CONTROL.read_text().replace('echo "$word" > "$pipe"', ":")
    stubborn.write_text(text)
    stubborn.chmod(0o755)
    async with launching(tmp_path / "cards", str(stubborn), end_s=0.2) as launcher:
        launcher.listed([A])
        await expect_eventually(lambda: lines(tmp_path / "cards", A))
    assert lines(tmp_path / "cards", A)[1:] == []
