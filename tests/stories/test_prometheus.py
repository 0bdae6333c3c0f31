"""A real Prometheus between the collectors and the scheduler."""

from pathlib import Path

import pytest

from kubeshare_py.domain.identity import NodeName
from tests.controlplane.prometheus import find, prometheus
from tests.stories.conftest import Stage, gpu

pytestmark = pytest.mark.real_only("it needs a Prometheus, which `make e2e` finds or fetches")
N1, N2 = NodeName("n1"), NodeName("n2")


@pytest.fixture
def nodes() -> str:
    return 'nodes: [{name: "n{n}", count: 2, gpus: [{model: T4, count: 1, memory: 16GiB}]}]'


@pytest.fixture
def program() -> Path:
    found = find()
    if found is None:
        pytest.skip("neither a prometheus on the PATH nor an apt-get that brings Debian's")
    return found


async def test_cards_come_and_go_as_a_real_prometheus_scrapes_them(
    empty_stage: Stage, program: Path, tmp_path: Path
) -> None:
    stage, collectors = empty_stage, empty_stage.cluster.collectors
    here, there = ({"nodeSelector": {"kubernetes.io/hostname": node}} for node in (N1, N2))
    scraped = {str(node): collectors.collector_url(node) for node in (N1, N2)}
    async with prometheus(program, scraped, tmp_path) as url:
        collectors.url = url
        async with stage.scheduler():
            await stage.create("first", gpu("1"), **here)
            await stage.running("first")
            await stage.create("second", gpu("1"), **here)
            await stage.waiting("second", "1 Insufficient GPU")
            collectors.targets.remove_card(N1, 0)
            collectors.targets.take_down(N2)
            await stage.waiting("second", "1 no GPU")
            await stage.create("third", gpu("1"), **there)
            await stage.running("third")
            collectors.targets.restore_card(N1, 0)
            await stage.gone("first")
            await stage.running("second")
