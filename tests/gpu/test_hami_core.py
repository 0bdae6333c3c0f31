"""`hami-core`: HAMi-core's own library holds a process to what the node agent gives a container.

KUBESHARE_LIBVGPU is the path of libvgpu.so, built from https://github.com/Project-HAMi/HAMi-core by
its build.sh: a build of another type has no functions to call.
"""

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodUid
from kubeshare_py.edges.node.hami_core.hami_folder import HamiFolder
from kubeshare_py.edges.node.hami_core.hami_part import HamiPart, region_of
from kubeshare_py.node_agent.hami_core import (
    PRIORITY,
    CardUse,
    HamiContainer,
    HamiCoreSettings,
    SharedRegion,
    edits,
)
from tests.gpu.card import OUT_OF_MEMORY, CudaProcess, cuda_process
from tests.gpu.conftest import Figure
from tests.making import a_gpu

pytestmark = pytest.mark.gpu
MIB, GIB = 1 << 20, 1 << 30
#: Work that fills every multiprocessor of the largest card many times over.
WORK = {"blocks": 20000, "rounds": 2000}


@pytest.fixture
def library(turn: None) -> Path:
    """HAMi-core's library."""
    path = os.environ.get("KUBESHARE_LIBVGPU", "")
    if not path:
        pytest.skip("KUBESHARE_LIBVGPU does not say where libvgpu.so is")
    return Path(path)


class Container:
    """What a container gets, with the node's paths instead of mounts."""

    def __init__(self, hook: Path, library: Path, uuid: GpuUuid) -> None:
        settings = HamiCoreSettings(hook=str(hook), feedback=True)
        self._folder = HamiFolder(Path("/"), settings)
        self._settings = settings
        self._uuid = uuid
        vgpu = hook / "vgpu"
        vgpu.mkdir()
        shutil.copy(library, vgpu / "libvgpu.so")

    @contextmanager
    def feedback(self) -> Iterator[None]:
        """What the agent's part does, on a thread, while entered."""
        part, is_over = HamiPart(NodeName("n1"), self._folder), threading.Event()

        def look() -> None:
            while not is_over.wait(0.2):
                part.look()

        looking = threading.Thread(target=look)
        looking.start()
        try:
            yield
        finally:
            is_over.set()
            looking.join()

    @contextmanager
    def process(
        self, mib: int, milli: int, name: str = "main", priority: str = ""
    ) -> Iterator[CudaProcess]:
        """A process of a container with so much of the card."""
        files = self._folder.of_container(PodUid("uid"), name, "claim")
        charge = CardCharge(self._uuid, milli, mib * MIB)
        container = HamiContainer((charge,), milli, amounts={PRIORITY: priority})
        found = edits(container, self._settings, files, [a_gpu(self._uuid)]).variables
        region = f"{files.folder}/{files.region}"
        variables = {
            **found,
            "CUDA_DEVICE_MEMORY_SHARED_CACHE": region,
            "LD_PRELOAD": files.library,
            # It opens itself once more, at /usr/local/vgpu/libvgpu.so unless this says where.
            "CUDA_REDIRECT": files.library,
            "NVIDIA_VISIBLE_DEVICES": self._uuid,
        }
        with cuda_process(variables) as program:
            yield program

    def use(self, name: str = "main") -> CardUse:
        """What its region says of the card."""
        region = self.region(name)
        return next(one for one in region.cards if one.uuid == self._uuid)

    def region(self, name: str = "main") -> SharedRegion:
        """Its region now."""
        [folder] = [one for one in self._folder.regions() if one.container == name]
        found = region_of(folder.path)
        assert isinstance(found, SharedRegion), found
        return found


@pytest.fixture
def container(library: Path, uuid: GpuUuid) -> Iterator[Container]:
    """One on the card."""
    with tempfile.TemporaryDirectory(prefix="hami-") as hook:
        yield Container(Path(hook), library, uuid)


def test_a_container_gets_no_more_memory_than_its_limit(
    container: Container, figure: Figure
) -> None:
    with container.process(4096, 0) as program:
        assert program.do("memory")["total"] == 4096 * MIB
        taken = program.most_bytes(64 * MIB)
        assert program.ask("take", bytes=5 * GIB)["code"] == OUT_OF_MEMORY
    assert GIB < taken <= 4 * GIB
    figure(f"hami-core: a container with a limit of 4096 MiB took {taken // MIB} MiB, and no more")


def test_its_region_says_what_it_uses(container: Container, figure: Figure) -> None:
    with container.process(4096, 300) as program:
        program.do("memory")
        before = container.use()
        program.do("take", bytes=GIB)
        after = container.use()
        assert (after.limit_bytes, after.core_limit) == (4096 * MIB, 30)
        assert before.used_bytes is not None
        assert after.used_bytes is not None
        assert after.buffer_bytes is not None
        assert after.used_bytes - before.used_bytes == GIB
        assert GIB <= after.buffer_bytes <= after.used_bytes
        region = container.region()
        program.do("give")
        given_back = container.use().used_bytes
    assert (region.version, region.processes) == ("1.2", 1)
    assert given_back == before.used_bytes
    figure(
        f"hami-core: region {region.version}, {before.used_bytes // MIB} MiB before any is taken"
    )


def test_a_container_gets_about_its_part_of_the_time(container: Container, figure: Figure) -> None:
    with container.process(4096, 0, "free") as program:
        program.do("work", **WORK, seconds=1.0)
        alone = program.do("work", **WORK, seconds=5.0)
    with container.process(4096, 300, "held") as program:
        program.do("work", **WORK, seconds=5.0)
        held = program.do("work", **WORK, seconds=15.0)
        busy = container.use("held").busy_percent
    part = held["times"] / held["seconds"] / (alone["times"] / alone["seconds"])
    figure(f"hami-core: with a limit of 30 hundredths it does {part:.0%}; its region says {busy}")
    if busy is None:
        pytest.skip("the library does not find its process on the node, and limits no time then")
    assert part < 0.9


def test_a_container_that_is_alone_on_the_card_may_have_all_of_its_time_c7(
    container: Container, figure: Figure
) -> None:
    with container.process(4096, 0, "free") as program:
        program.do("work", **WORK, seconds=1.0)
        alone = program.do("work", **WORK, seconds=5.0)
    with container.process(4096, 300, "held") as program, container.feedback():
        program.do("work", **WORK, seconds=5.0)
        held = program.do("work", **WORK, seconds=5.0)
        assert not container.region("held").is_limiting
    part = held["times"] / held["seconds"] / (alone["times"] / alone["seconds"])
    figure(f"hami-core: alone on the card, with feedback, 30 hundredths do {part:.0%}")
    assert part > 0.9


def test_a_container_waits_while_one_of_higher_priority_works_c7(
    container: Container, figure: Figure
) -> None:
    with (
        container.process(4096, 300, "high", "0") as high,
        container.process(4096, 300, "low", "1") as low,
    ):
        for program in (high, low):
            program.do("work", **WORK, seconds=1.0)
        with container.feedback():
            high.send("work", **WORK, seconds=12.0)
            waited = low.do("work", **WORK, seconds=3.0)["seconds"]
            assert high.answer()["code"] == 0
    figure(
        f"hami-core: work of 3 s of low priority took {waited:.0f} s beside 12 s of high priority"
    )
    assert waited > 10
