"""`driver`: the driver limits the memory of a container's cgroup, from r615 on."""

import os
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from kubeshare_py.domain.card_reading import NodeReading, NotReadyReason, not_ready_reason
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.isolation.backends import DRIVER
from kubeshare_py.node_agent.history import LIMITING_BRANCH, readiness
from tests.gpu.card import OUT_OF_MEMORY, cuda_process, variables
from tests.gpu.conftest import Figure

pytestmark = pytest.mark.gpu
MIB, GIB = 1 << 20, 1 << 30
_CGROUPS = Path("/sys/fs/cgroup")


def branch(reading: NodeReading) -> int:
    """Such as 580."""
    return int(reading.driver.partition(".")[0])


def test_whether_the_driver_is_new_enough_is_read_of_it(
    reading: NodeReading, figure: Figure
) -> None:
    report = readiness(reading.cards[0], reading.driver, reading.features)
    why = not_ready_reason(report, DRIVER.name)
    assert (why == NotReadyReason.OLD_DRIVER) == (branch(reading) < LIMITING_BRANCH)
    figure(f"driver: {reading.driver} is {why or 'new enough'}")


@pytest.fixture
def cgroup(reading: NodeReading) -> Iterator[Path]:
    """A cgroup for one process."""
    if branch(reading) < LIMITING_BRANCH:
        pytest.skip(f"driver {reading.driver} is older than r{LIMITING_BRANCH}")
    if os.geteuid() or not (_CGROUPS / "cgroup.controllers").exists():
        pytest.skip("it needs cgroup v2 and the right to make one")
    made = _CGROUPS / f"kubeshare-gpu-test-{os.getpid()}"
    made.mkdir()
    try:
        yield made
    finally:
        made.rmdir()


def test_a_container_has_the_memory_that_it_is_charged_and_no_more(
    uuid: GpuUuid, cgroup: Path, figure: Figure
) -> None:
    """The limit is set as the container toolkit's hook does, which needs a runtime around it."""
    given = variables(DRIVER, uuid, milli=500, memory_bytes=4 * GIB)
    limit = int(given["NVIDIA_GPU_MEMORY_LIMIT"]) * MIB
    pynvml.nvmlInit()
    try:
        limits = pynvml.c_nvmlSetMemoryLimits_v1_t(
            nameSpace=str(cgroup).encode(),
            softLimit=int(given["NVIDIA_GPU_MEMORY_REQUEST"]) * MIB,
            hardLimit=limit,
        )
        pynvml.nvmlDeviceSetMemoryLimits_v1(pynvml.nvmlDeviceGetHandleByUUID(uuid), limits)
    finally:
        pynvml.nvmlShutdown()
    join = ("sh", "-c", f'echo $$ > {cgroup}/cgroup.procs; exec "$@"', "sh")
    with cuda_process({"CUDA_VISIBLE_DEVICES": uuid}, before=join) as program:
        program.do("take", bytes=2 * GIB)
        assert program.ask("take", bytes=4 * GIB)["code"] == OUT_OF_MEMORY
        program.do("give")
        taken = program.most_bytes(64 * MIB)
    assert taken <= limit
    figure(f"driver: a container that is charged 4096 MiB took {taken // MIB} MiB, and no more")
