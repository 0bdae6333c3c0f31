"""From MIG instances as NVML shows them to pods on them."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kubeshare_py.domain.events import InventoryRead, NodesListed, PodSeen, PodsListed
from kubeshare_py.inventory.changes import next_reading
from kubeshare_py.inventory.sample_merge import Reading
from kubeshare_py.inventory.series import Series
from tests.collector.collectors import run
from tests.collector.conftest import NewBoard
from tests.fake_nvml.board import MIB
from tests.making import GIB, Driver, a_claim, a_node, a_pod, a_shape

TARGET = {"job": "kubeshare-collector", "instance": "n1:9004"}


def scraped(text: str) -> list[Series]:
    """The instant vector of a Prometheus that scraped this page."""
    found = [Series({"__name__": "up", **TARGET}, 1.0)]
    for family in text_string_to_metric_families(text):
        if family.name == "gpu_capacity":
            for sample in family.samples:
                labels = {"__name__": family.name, **TARGET, **sample.labels}
                found.append(Series(labels, sample.value))
    return found


async def a_scheduler(new_board: NewBoard) -> Driver:
    """One that was told of an A100 that is divided in seven."""
    board = new_board("a100-mig")
    _, text, _ = await run(board.environment, "--once", "-o", "prometheus", "--node-name", "n1")
    step = next_reading(Reading(), scraped(text), 0.0)
    assert not step.diagnostics
    driver = Driver({})
    driver.tell(PodsListed((), 0.0), NodesListed((a_node("n1"),)), InventoryRead(step.changed))
    return driver


@pytest.mark.slow
async def test_a_half_of_an_instance_fits_twice_on_each_of_the_seven(new_board: NewBoard) -> None:
    driver = await a_scheduler(new_board)
    binds = [bind for number in range(15) for bind in driver.seen(a_pod(f"p{number}", HALF))]
    held = [
        (card.uuid, card.milli, card.memory_bytes) for b in binds for card in b.allocation.cards
    ]
    assert len(held) == 14
    assert {uuid.partition("-")[0] for uuid, *_ in held} == {"MIG"}
    assert sorted(uuid for uuid, *_ in held) == sorted(2 * [*{uuid for uuid, *_ in held}])
    assert {(milli, memory) for _, milli, memory in held} == {(500, 4864 * MIB // 2)}


@pytest.mark.slow
async def test_more_memory_than_an_instance_has_fits_nowhere(new_board: NewBoard) -> None:
    driver = await a_scheduler(new_board)
    assert not driver.seen(a_pod("big", a_shape(a_claim(500, memory_bytes=5 * GIB))))
    driver.tell(PodSeen(a_pod("small", a_shape(a_claim(500, memory_bytes=4 * GIB)))))
    assert len(driver.decide()) == 1


HALF = a_shape(a_claim(500))
