"""A real Prometheus between the collectors and the scheduler."""

from pathlib import Path

import pytest

from kubeshare_py.domain.identity import NodeName
from tests.controlplane.prometheus import NOT_HERE, find, prometheus
from tests.stories.conftest import Json, Stage, bound, gpu, scheduled_condition

pytestmark = pytest.mark.real_only("it needs a Prometheus, which `make e2e` finds or fetches")
N1, N2 = NodeName("n1"), NodeName("n2")
CLUSTER = 'nodes: [{name: "n{n}", count: 2, gpus: [{model: T4, count: 1, memory: 16GiB}]}]'


@pytest.fixture
def program() -> Path:
    found = find()
    if found is None:
        pytest.skip(NOT_HERE)
    return found


async def test_cards_come_and_go_as_a_real_prometheus_scrapes_them(
    empty_stage: Stage, program: Path, tmp_path: Path
) -> None:
    stage, collectors = empty_stage, empty_stage.cluster.collectors
    here, there = ({"nodeSelector": {"kubernetes.io/hostname": node}} for node in (N1, N2))
    scraped = {str(node): collectors.collector_url(node) for node in (N1, N2)}
    collectors.targets.remove_card(N1, 0)
    async with prometheus(program, scraped, tmp_path) as url:
        collectors.url = url
        async with stage.scheduler():
            await stage.create("there", gpu("0.5"), **there)
            await stage.expect_running("there")
            await stage.create("here", gpu("0.5"), **here)
            assert "no GPU" in await stage.expect_waiting("here")
            collectors.targets.restore_card(N1, 0)
            await stage.expect_running("here")
            collectors.targets.remove_card(N1, 0)
            collectors.targets.take_down(N2)
            await expect_nothing_placed(stage, here)
            # That the collector of n2 is silent is no news.
            await stage.create("there-too", gpu("0.5"), **there)
            await stage.expect_running("there-too")


async def expect_nothing_placed(stage: Stage, where: Json) -> None:
    """Try with one small pod after the other; each asks for something else."""
    for number in range(1, 100):
        name = f"small-{number}"
        await stage.create(name, gpu(f"0.{number:03}"), **where)
        pod = await stage.expect_eventually(name, lambda pod: bool(scheduled_condition(pod)))
        if not bound([pod]):
            return
        await stage.expect_deleted(name)
    raise AssertionError("the card is still there")
