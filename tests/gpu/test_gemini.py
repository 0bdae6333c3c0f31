"""`gemini`: Gemini's own programs by the files of the node agent. They are not of this project."""

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.card_reading import (
    Isolation,
    NodeReading,
    NotReadyReason,
    not_ready_reason,
)
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, PodKey, PodUid
from kubeshare_py.edges.node.gemini.gemini_folder import HOOK, GeminiFolder
from kubeshare_py.edges.node.gemini.gemini_launcher import GeminiLauncher, is_listened_on
from kubeshare_py.isolation.backends import GEMINI, LIBRARY
from kubeshare_py.node_agent.gemini import POD_MANAGER, SCHEDULER, gemini_files
from kubeshare_py.node_agent.history import readiness
from kubeshare_py.node_agent.tenants import NodeTenant
from tests.deploy.container import can_mount
from tests.edges.node.gemini.programs import free_port
from tests.gpu.card import OUT_OF_MEMORY, cuda_process
from tests.gpu.conftest import Figure
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.gpu
GIB = 1 << 30
#: Where an administrator puts Gemini's programs.
PROGRAMS = Path(os.environ.get("GEMINI_PROGRAMS", "/kubeshare/bin"))


def test_whether_the_library_is_there_is_read_of_the_node(reading: NodeReading) -> None:
    there = reading.features.gemini_library
    why = not_ready_reason(
        readiness(reading.cards[0], reading.driver, reading.features), GEMINI.name
    )
    assert why == {None: None, False: NotReadyReason.NO_LIBRARY, True: ""}[there]


async def expect_listening(port: int) -> None:
    """Wait until something listens there."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if is_listened_on(port):
                return
            await asyncio.sleep(0.05)


async def test_a_pod_has_the_memory_of_its_line_and_no_more(uuid: GpuUuid, figure: Figure) -> None:
    if missing := [
        name for name in (SCHEDULER, POD_MANAGER, HOOK) if not (PROGRAMS / name).exists()
    ]:
        pytest.skip(f"{PROGRAMS} has no {', '.join(missing)}")
    if not can_mount():
        pytest.skip("it needs the right to make mounts")
    port = free_port()
    pod = NodeTenant(
        uid=PodUid("u"),
        key=PodKey("default", "a"),
        allocation=Allocation(
            token=DecisionToken("t"),
            cards=(CardCharge(uuid, 500, 4 * GIB),),
            isolation=Isolation(GEMINI.name, 1000),
            port=port,
        ),
    )
    with tempfile.TemporaryDirectory(prefix="gemini-") as root:
        folder = GeminiFolder(Path(root))
        folder.programs.parent.mkdir()
        folder.programs.symlink_to(PROGRAMS)
        folder.put_hook()
        folder.put_address("127.0.0.1")
        folder.put(gemini_files([pod], {uuid: 8 * GIB}))
        launcher = GeminiLauncher(folder, PROGRAMS, Path(root) / "alive", free_port(2))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(launcher.run())
            launcher.listed([uuid])
            await expect_listening(port)
            mount = f'mkdir -p {LIBRARY}; mount --bind {folder.library} {LIBRARY}; exec "$@"'
            before = ("unshare", "--mount", "--propagation=private", "sh", "-c", mount, "sh", "env")
            given = {"POD_NAME": "default/a", "POD_MANAGER_PORT": str(port)}
            preload = f"LD_PRELOAD={GEMINI.preload}"
            with cuda_process(given, before=(*before, preload)) as program:
                await asyncio.to_thread(program.do, "take", bytes=2 * GIB)
                refused = await asyncio.to_thread(program.ask, "take", bytes=4 * GIB)
            task.cancel()
    assert refused["code"] == OUT_OF_MEMORY
    figure("gemini: a pod that is charged 4096 MiB was refused 6144 MiB")
