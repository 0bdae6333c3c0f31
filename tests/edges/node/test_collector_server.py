"""The collector's page and probes, on a clock by hand."""

import gzip

import pytest

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.node.card_sampler import CardSampler
from kubeshare_py.edges.node.collector_server import CannotListen, CollectorPage, serve
from kubeshare_py.exporters.collector_metrics import PATH
from tests.edges.served_app import asking
from tests.node_agent.readings import a_reading

OPENMETRICS = "application/openmetrics-text;version=1.0.0"


class Ward:
    """A collector that reads when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.sampler = CardSampler(
            node=NodeName("n1"),
            stale_after_s=30.0,
            clock=lambda: self.now,
            unix_clock=lambda: 1_700_000_000 + self.now,
        )
        self.page = CollectorPage(self.sampler)

    def reads(self, *uuids: str) -> None:
        self.sampler.took(a_reading(*uuids))

    async def get(self, path: str = PATH, **headers: str) -> tuple[int, str, str]:
        """Status, content type and text."""
        async with (
            asking(self.page.routes()) as client,
            client.get(path, headers={"Accept-Encoding": "identity", **headers}) as answer,
        ):
            return answer.status, answer.headers["Content-Type"], await answer.text()

    async def text(self) -> str:
        status, _, text = await self.get()
        assert status == 200
        return text


@pytest.fixture
def ward() -> Ward:
    return Ward()


def capacity(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("gpu_capacity{")]


async def test_before_the_first_reading_there_is_no_page(ward: Ward) -> None:
    assert await ward.get() == (503, "text/plain; charset=utf-8", "no reading yet\n")
    assert (await ward.get("/readyz"))[0] == 500
    assert (await ward.get("/livez"))[0] == 200


async def test_without_cards_the_page_is_in_order(ward: Ward) -> None:
    ward.reads()
    text = await ward.text()
    assert capacity(text) == []
    assert text.count("\nkubeshare_build_info{") == 1
    assert (await ward.get("/readyz"))[0] == 200


async def test_cards_are_there_at_the_time_of_the_scrape(ward: Ward) -> None:
    ward.reads("GPU-1")
    ward.now += 7
    assert capacity(await ward.text()) == [
        'gpu_capacity{node="n1",uuid="GPU-1",model="A100",memory="42949672960",index="0"}'
        " 1700001007"
    ]


async def test_what_was_read_too_long_ago_is_not_healthy_and_its_time_stands_still(
    ward: Ward,
) -> None:
    ward.reads("GPU-1")
    ward.now += 30
    assert 'kubeshare_gpu_healthy{node="n1",uuid="GPU-1"} 1' in await ward.text()
    ward.now += 1
    text = await ward.text()
    assert capacity(text)[0].endswith(" 1700001000")
    assert 'kubeshare_gpu_healthy{node="n1",uuid="GPU-1"} 0' in text
    assert 'kubeshare_gpu_fault{node="n1",uuid="GPU-1",fault="stale"} 1' in text
    assert 'kubeshare_collector_reading_age_seconds{node="n1"} 31.0' in text


async def test_then_it_is_live_and_not_ready_until_the_next_reading(ward: Ward) -> None:
    ward.reads("GPU-1")
    ward.now += 31
    status, _, text = await ward.get("/readyz")
    assert (status, text.splitlines()[1]) == (500, "[-]cards failed: last reading 31 s ago")
    assert (await ward.get("/livez"))[0] == 200
    ward.reads("GPU-1")
    assert (await ward.get("/readyz"))[0] == 200
    assert 'kubeshare_gpu_healthy{node="n1",uuid="GPU-1"} 1' in await ward.text()


async def test_each_reading_makes_a_new_page(ward: Ward) -> None:
    ward.reads("GPU-1")
    await ward.text()
    ward.now += 1
    ward.reads("GPU-2")
    assert "GPU-2" in capacity(await ward.text())[0]
    assert 'kubeshare_gpu_fault{node="n1",uuid="GPU-1",fault="lost"} 1' in await ward.text()


async def test_openmetrics_is_given_to_who_prefers_it(ward: Ward) -> None:
    ward.reads("GPU-1")
    _, content_type, text = await ward.get(Accept=OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")
    assert (await ward.get())[1] == "text/plain; version=0.0.4; charset=utf-8"


async def test_it_is_compressed_for_who_can_read_that(ward: Ward) -> None:
    ward.reads("GPU-1")
    async with (
        asking(ward.page.routes()) as client,
        client.get(PATH, headers={"Accept-Encoding": "gzip"}) as answer,
    ):
        assert answer.headers["Content-Encoding"] == "gzip"
        assert capacity(gzip.decompress(await answer.read()).decode())


async def test_the_process_itself_is_there(ward: Ward) -> None:
    ward.reads()
    assert "process_resident_memory_bytes " in await ward.text()


async def test_a_taken_port_is_told(ward: Ward) -> None:
    async with serve(ward.sampler, "127.0.0.1", 0) as url:
        port = int(url.split(":")[2].partition("/")[0])
        with pytest.raises(CannotListen, match=f"127.0.0.1:{port}: "):
            await serve(ward.sampler, "127.0.0.1", port).__aenter__()
