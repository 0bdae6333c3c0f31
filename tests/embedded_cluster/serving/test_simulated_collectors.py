"""The simulated collectors and their Prometheus over HTTP, asked by the real client."""

import asyncio
import datetime
import errno
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_client.parser import text_string_to_metric_families

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import read_cluster
from kubeshare_py.embedded_cluster.serving.simulated_collectors import SimulatedCollectors

DEMO = (Path(__file__).parents[3] / "config" / "demo-cluster.yaml").read_text()
T4 = NodeName("t4-1")


@pytest.fixture
async def simulated() -> AsyncIterator[SimulatedCollectors]:
    async with SimulatedCollectors(read_cluster(DEMO)) as collectors:
        yield collectors


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_each_node_with_cards_has_a_collector(simulated: SimulatedCollectors) -> None:
    status, text = await get(simulated.collector_url(T4))
    families = {family.name: family for family in text_string_to_metric_families(text)}
    family = families["gpu_capacity"]
    assert status == 200
    assert [sample.labels["index"] for sample in family.samples] == ["0", "1", "2", "3"]
    assert (await get(simulated.collector_url(NodeName("cpu-1"))))[0] == 503


async def test_prometheus_api_client_reads_it(simulated: SimulatedCollectors) -> None:
    def ask() -> tuple[Any, ...]:
        now = datetime.datetime.fromtimestamp(1700000000, datetime.UTC)
        earlier = now - datetime.timedelta(minutes=1)
        with PrometheusConnect(url=simulated.url) as client:
            return (
                client.check_prometheus_connection(),
                client.get_current_metric_value("gpu_capacity", {"node": "rtx-1"}),
                client.get_series(earlier, now, params={"match[]": "gpu_capacity"}),
                client.custom_query_range('up{instance="rtx-1:9004"}', earlier, now, "30"),
            )

    connected, current, series, ranges = await asyncio.to_thread(ask)
    assert connected is True
    assert {found["metric"]["model"] for found in current} == {"NVIDIA-GeForce-RTX-4090"}
    assert len(series) == 26
    assert [value for _, value in ranges[0]["values"]] == ["1", "1", "1"]


async def test_a_query_may_be_posted(simulated: SimulatedCollectors) -> None:
    def ask() -> Any:
        with PrometheusConnect(url=simulated.url, method="POST") as client:
            return client.custom_query('up{job="kubeshare-collector"}')

    assert len(await asyncio.to_thread(ask)) == 5


async def test_a_bad_query_is_a_400(simulated: SimulatedCollectors) -> None:
    def ask() -> None:
        with PrometheusConnect(url=simulated.url) as client:
            client.custom_query("sum(gpu_capacity)")

    with pytest.raises(PrometheusApiClientException, match=r"400.*bad_data"):
        await asyncio.to_thread(ask)


async def test_prometheus_can_be_made_to_fail(simulated: SimulatedCollectors) -> None:
    assert (await get(f"{simulated.url}/-/ready"))[0] == 200
    simulated.prometheus_answers = False
    assert (await get(f"{simulated.url}/-/ready"))[0] == 503
    assert (await get(f"{simulated.url}/api/v1/query?query=up"))[0] == 503


async def test_a_taken_port_is_an_os_error(simulated: SimulatedCollectors) -> None:
    port = int(simulated.url.rpartition(":")[2])
    with pytest.raises(OSError, match=f"Errno {errno.EADDRINUSE}"):
        await SimulatedCollectors((), port=port).__aenter__()
