"""The inventory through a real child process and the real Prometheus client."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from kubeshare_py.domain.events import InventoryFailed, InventoryRead
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.values import replace
from kubeshare_py.edges.inventory.inventory_child import NODES_AT_ONCE
from kubeshare_py.edges.inventory.inventory_reports import ScrapeAccess
from kubeshare_py.edges.inventory.prometheus import readings
from kubeshare_py.edges.kube.certificates import make_certificates
from kubeshare_py.edges.process.backoff import Backoff
from kubeshare_py.embedded_cluster.nodes.collectors import Collectors
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import SimulatedNode, read_cluster
from kubeshare_py.embedded_cluster.serving.simulated_collectors import SimulatedCollectors
from kubeshare_py.inventory.collector_page import NODES_A_PORTION
from kubeshare_py.inventory.series import SelectorProblem
from kubeshare_py.topology.wiring import Wiring, wired
from tests.edges.bare_server import NoSleep, serving
from tests.edges.inventory.children import children
from tests.patience import PATIENCE_S

CHILD = "kubeshare_py.edges.inventory.prometheus_child"
A, B = NodeName("a"), NodeName("b")
Inventory = AsyncGenerator[InventoryRead | InventoryFailed, None]


@pytest.fixture
async def simulated(nodes: tuple[SimulatedNode, ...]) -> AsyncIterator[SimulatedCollectors]:
    async with SimulatedCollectors(nodes) as collectors:
        yield collectors


def quick(url: str, **options: Any) -> Inventory:
    backoff = Backoff(sleep=NoSleep())
    return readings(url, interval_s=0.02, backoff=backoff, **options)


async def following(inventory: Inventory) -> InventoryRead | InventoryFailed:
    """What comes next; a test that waits in vain shall fail, not hang."""
    async with asyncio.timeout(PATIENCE_S):
        return await anext(inventory)


async def whole(inventory: Inventory) -> list[InventoryRead]:
    """All portions of what comes next."""
    portions: list[InventoryRead] = []
    while not portions or portions[-1].more:
        part = await following(inventory)
        assert isinstance(part, InventoryRead)
        assert len(part.changed) <= NODES_AT_ONCE
        portions.append(part)
    return portions


def cards_of(portions: Iterable[InventoryRead]) -> dict[NodeName, tuple[Gpu, ...]]:
    return {node: cards for portion in portions for node, cards in portion.changed}


@pytest.mark.slow
async def test_the_first_reading_has_every_card(
    simulated: SimulatedCollectors, nodes: tuple[SimulatedNode, ...]
) -> None:
    async with aclosing(quick(simulated.url)) as inventory:
        first = await following(inventory)
    assert first == InventoryRead(tuple((node.name, node.cards) for node in nodes))


@pytest.mark.slow
async def test_a_large_cluster_is_read_in_portions() -> None:
    many = read_cluster("nodes: [{name: 'n-{n}', count: 1101, gpus: [{model: T4, memory: 1GiB}]}]")
    async with SimulatedCollectors(many) as simulated, aclosing(quick(simulated.url)) as inventory:
        portions = await whole(inventory)
        assert cards_of(portions) == {node.name: node.cards for node in many}
        assert len(portions) == -(-len(many) // NODES_AT_ONCE)
        simulated.targets.take_down(many[0].name)
        assert await following(inventory) == InventoryRead((), (many[0].name,))


PAIR = """
nodes:
  - name: "n-{n}"
    count: COUNT
    gpus: [{model: T4, memory: 1GiB, count: 2}]
    topology: |
      GPU0 GPU1 CPU Affinity NUMA Affinity
      GPU0 X NV2 0-3 0
      GPU1 NV2 X 4-7 1
"""


@pytest.mark.slow
async def test_a_few_nodes_are_told_with_what_joins_their_cards() -> None:
    few = read_cluster(PAIR.replace("COUNT", "3"))
    assert few[0].cards[0].links
    async with SimulatedCollectors(few) as simulated, aclosing(quick(simulated.url)) as inventory:
        assert await following(inventory) == InventoryRead(tuple((n.name, n.cards) for n in few))
        simulated.targets.break_card(few[0].name, 0)
        ill = await following(inventory)
        assert isinstance(ill, InventoryRead)
        ((_, (broken, other)),) = ill.changed
        assert (broken.healthy, broken.links) == (False, few[0].cards[0].links)
        assert other == few[0].cards[1]


@pytest.mark.slow
async def test_of_many_nodes_the_cards_come_first_and_what_joins_them_in_portions() -> None:
    many = read_cluster(PAIR.replace("COUNT", str(2 * NODES_A_PORTION + 1)))
    bare = {node.name: wired(node.cards, Wiring()) for node in many}
    async with SimulatedCollectors(many) as simulated, aclosing(quick(simulated.url)) as inventory:
        assert cards_of(await whole(inventory)) == bare
        found: dict[NodeName, tuple[Gpu, ...]] = {}
        while len(found) < len(many):
            found |= cards_of(await whole(inventory))
        assert found == {node.name: node.cards for node in many}
        # A new process asks again, and has nothing new to tell.
        (child,) = children()
        os.kill(child, signal.SIGKILL)
        assert isinstance(await following(inventory), InventoryFailed)
        assert await following(inventory) == InventoryRead(())
        simulated.targets.take_down(many[0].name)
        assert await following(inventory) == InventoryRead((), (many[0].name,))


@pytest.mark.slow
async def test_a_card_in_another_s_place_is_joined_as_it_was() -> None:
    (node,) = read_cluster(PAIR.replace("COUNT", "1"))
    first, second = node.cards
    other = replace(node, cards=(first, replace(second, uuid=GpuUuid("GPU-new"))))
    async with SimulatedCollectors([node]) as simulated, aclosing(quick(simulated.url)) as told:
        await following(told)
        simulated.targets = Collectors([other])
        known: tuple[Gpu, ...] = ()
        while known != other.cards:
            news = await following(told)
            assert isinstance(news, InventoryRead)
            known = dict(news.changed)[node.name]


@pytest.mark.slow
async def test_links_that_cannot_be_asked_for_take_no_card_away() -> None:
    few = read_cluster(PAIR.replace("COUNT", "1"))
    (node,) = few
    async with SimulatedCollectors(few) as simulated, aclosing(quick(simulated.url)) as inventory:
        await following(inventory)
        simulated.targets.take_down(node.name)
        assert await following(inventory) == InventoryRead((), (node.name,))
        simulated.targets.bring_up(node.name)
        assert await following(inventory) == InventoryRead(())


@pytest.mark.slow
async def test_gone_and_down_are_told_apart(
    simulated: SimulatedCollectors, nodes: tuple[SimulatedNode, ...]
) -> None:
    async with aclosing(quick(simulated.url)) as inventory:
        await following(inventory)
        simulated.targets.remove_card(A, 0)
        assert await following(inventory) == InventoryRead(((A, nodes[0].cards[1:]),))
        simulated.targets.take_down(A)
        assert await following(inventory) == InventoryRead((), (A,))
        simulated.targets.stop_scraping(B)
        assert await following(inventory) == InventoryRead((), (A, B))
        simulated.targets.bring_up(B)
        assert await following(inventory) == InventoryRead((), (A,))
        simulated.targets.restore_card(A, 0)
        simulated.targets.bring_up(A)
        assert await following(inventory) == InventoryRead(((A, nodes[0].cards),))


@pytest.mark.slow
async def test_a_failing_prometheus_is_reported_once_and_so_is_its_return(
    simulated: SimulatedCollectors,
) -> None:
    async with aclosing(quick(simulated.url)) as inventory:
        await following(inventory)
        simulated.prometheus_answers = False
        failed = await following(inventory)
        assert isinstance(failed, InventoryFailed)
        assert "503" in failed.message
        simulated.prometheus_answers = True
        assert await following(inventory) == InventoryRead(())


@pytest.mark.slow
async def test_nobody_there_is_a_failure_not_an_error() -> None:
    async with aclosing(quick("http://127.0.0.1:1")) as inventory:
        failed = await following(inventory)
    assert isinstance(failed, InventoryFailed)
    assert failed.message == "ConnectionError: Connection refused"


@pytest.mark.slow
async def test_a_child_that_dies_is_replaced_and_remembers(
    simulated: SimulatedCollectors, nodes: tuple[SimulatedNode, ...]
) -> None:
    async with aclosing(quick(simulated.url)) as inventory:
        await following(inventory)
        (child,) = children()
        os.kill(child, signal.SIGKILL)
        failed = await following(inventory)
        assert isinstance(failed, InventoryFailed)
        # It goes while nobody asks: only what was known before tells that it is gone.
        simulated.targets.remove_card(B, 0)
        assert await following(inventory) == InventoryRead(((B, ()),))
        assert children() != [child]
    assert children() == []


@pytest.mark.slow
async def test_cancelling_ends_the_child(simulated: SimulatedCollectors) -> None:
    reading = asyncio.Event()

    async def consume() -> None:
        async with aclosing(quick(simulated.url)) as inventory:
            async for _ in inventory:
                reading.set()

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        task = group.create_task(consume())
        await reading.wait()
        assert len(children()) == 1
        task.cancel()
    assert children() == []


@pytest.mark.slow
async def test_a_child_whose_parent_is_gone_ends_by_itself(simulated: SimulatedCollectors) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", CHILD, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    start = (
        f'{{"url":"{simulated.url}","selector":"","interval_s":3600,"access":{{}},"known":{{}}}}\n'
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(start.encode())
    assert b'"reading"' in await process.stdout.readline()
    process.stdin.close()
    assert await process.wait() == 0


async def test_a_bad_selector_is_refused_before_anything_is_asked() -> None:
    async with aclosing(quick("http://127.0.0.1:1", selector="job=")) as inventory:
        with pytest.raises(SelectorProblem):
            await following(inventory)


@pytest.mark.slow
async def test_the_token_is_read_again_for_each_query(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    asked: asyncio.Queue[str] = asyncio.Queue()

    async def answer(request: web.Request) -> web.Response:
        asked.put_nowait(request.headers["Authorization"])
        return web.json_response({"data": {"result": []}})

    application = web.Application()
    application.router.add_get("/api/v1/query", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with aclosing(quick(url, access=ScrapeAccess(token_file=str(token)))) as inventory:
            assert await following(inventory) == InventoryRead(())
            assert await asked.get() == "Bearer first"
            token.write_text("second\n")
            async with asyncio.timeout(PATIENCE_S):
                while (found := await asked.get()) == "Bearer first":
                    pass
            assert found == "Bearer second"
    finally:
        await runner.cleanup()


@pytest.mark.slow
async def test_an_answer_that_is_not_prometheus_is_a_failure(tmp_path: Path) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({"data": [1, 2]})

    application = web.Application()
    application.router.add_get("/api/v1/query", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with aclosing(quick(f"http://127.0.0.1:{runner.addresses[0][1]}")) as inventory:
            failed = await following(inventory)
        assert isinstance(failed, InventoryFailed)
        assert failed.message.startswith("not an answer of Prometheus")
    finally:
        await runner.cleanup()


CARD = {
    "__name__": "gpu_capacity", "job": "kubeshare-collector", "instance": "a:9004", "node": "a",
    "uuid": "GPU-1", "model": "T4", "memory": "1", "index": "0",
}  # fmt: skip
UP = {"__name__": "up", "job": "kubeshare-collector", "instance": "a:9004"}


def vector(*labels: dict[str, str], **more: object) -> dict[str, object]:
    """An answer of Prometheus with these series, each with the value 1."""
    result = [{"metric": one, "value": [1.0, "1"]} for one in labels]
    return {"status": "success", "data": {"resultType": "vector", "result": result}, **more}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"warnings": ['store "b" did not answer']}, 'Prometheus says: store "b" did not answer'),
        ({"isPartial": True}, "Prometheus says: the answer is partial"),
    ],
)
async def test_an_answer_that_calls_itself_incomplete_is_used_and_told_of(
    more: dict[str, object], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [vector(CARD, UP), {**more, **vector(), **more}]

    async def answer(_request: web.Request) -> web.Response:
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return web.Response(body=msgspec.json.encode(found), content_type="application/json")

    async with serving(answer) as url, aclosing(quick(url)) as inventory:
        first = await following(inventory)
        assert isinstance(first, InventoryRead)
        assert len(first.changed) == 1
        assert await following(inventory) == InventoryRead((), (A,))
    assert said in caplog.text


@pytest.mark.slow
async def test_an_answer_that_is_cut_off_is_a_failure_and_nothing_is_gone() -> None:
    whole = msgspec.json.encode(vector(CARD, UP))

    async def answer(request: web.Request) -> web.Response:
        half = web.Response(body=whole[: len(whole) // 2], content_type="application/json")
        return half if asked else web.Response(body=whole, content_type="application/json")

    asked: list[int] = []
    async with serving(answer) as url, aclosing(quick(url)) as inventory:
        assert isinstance(await following(inventory), InventoryRead)
        asked.append(1)
        failed = await following(inventory)
        assert isinstance(failed, InventoryFailed)
        assert "JSONDecodeError" in failed.message
        asked.clear()
        assert await following(inventory) == InventoryRead(())


def answer_with(result: object) -> bytes:
    return json.dumps({"status": "success", "data": {"result": result}}).encode()


def one(metric: object = CARD, value: object = (1.0, "1")) -> bytes:
    return answer_with([{"metric": UP, "value": [1.0, "1"]}, {"metric": metric, "value": value}])


WRONG = {
    b"[]": "not an answer of Prometheus: no data.result in it",
    b"null": "not an answer of Prometheus: no data.result in it",
    b"{}": "not an answer of Prometheus: no data.result in it",
    b'{"data": "text"}': "not an answer of Prometheus: no data.result in it",
    b'{"data": {"result": null}}': "data.result: Expected `array`, got `null`",
    b'{"data": {"result": {"a": 1}}}': "data.result: Expected `array`, got `object`",
    b'{"data": {"result": [1, "2"]}}': "data.result[0]: Expected `object`",
    one(metric=["a"]): "data.result[1].metric: Expected `object`, got `array`",
    one(metric={"a": 5}): "data.result[1].metric[...]: Expected `str`, got `int`",
    one(metric={"node": "\ud800"}): "data.result[1].metric: is not Unicode",
    one(value=None): "data.result[1].value: Expected `array`, got `null`",
    one(value="1"): "data.result[1].value: Expected `array`, got `str`",
    one(value=[1.0]): "data.result[1].value: Expected `array` of length >= 2",
    one(value=[1.0, None]): "data.result[1].value[1]: Expected `float | str`, got `null`",
    one(value=[1.0, "many"]): "data.result[1].value: 'many' is not a number",
    answer_with([{"metric": UP}]): "data.result[0]: Object missing required field `value`",
    b"<html><body>Sign in</body></html>": "JSONDecodeError",
    b"[" * 200_000: "not an answer of Prometheus: RecursionError",
    b'{"data": ' + b"9" * 5000 + b"}": "not an answer of Prometheus: ",
    b'{"status":"error","errorType":"execution","error":"too many samples"}': (
        "AnswerRefused: execution: too many samples"
    ),
    b'{"status": "error", "error": 5}': "AnswerRefused: an error that cannot be read",
    b"\xff\xfe\x00": "",
    b"": "JSONDecodeError",
}


@pytest.mark.slow
async def test_no_answer_ends_the_child_and_each_is_told() -> None:
    good = msgspec.json.encode(vector(CARD, UP))
    bodies = [good]

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=bodies[-1], content_type="application/json")

    async with serving(answer) as url, aclosing(quick(url)) as inventory:
        assert isinstance(await following(inventory), InventoryRead)
        (child,) = children()
        for body, said in WRONG.items():
            bodies.append(body)
            failed = await following(inventory)
            assert isinstance(failed, InventoryFailed)
            assert said in failed.message
            assert len(failed.message) <= 600
            bodies.append(good)
            assert await following(inventory) == InventoryRead(())
        assert children() == [child]


@pytest.mark.slow
@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "1e400", 5, 1e300])
async def test_values_that_are_no_amounts_end_no_child(value: object) -> None:
    count = {**CARD, "__name__": "kubeshare_collector_cards"}
    odd = answer_with([{"metric": metric, "value": [1.0, value]} for metric in (CARD, UP, count)])
    asked, again = iter(range(9)), asyncio.Event()

    async def answer(_request: web.Request) -> web.Response:
        number = next(asked, 9)
        if number == 9:
            again.set()
        body = odd if number else msgspec.json.encode(vector(CARD, UP))
        return web.Response(body=body, content_type="application/json")

    async with serving(answer) as url, aclosing(quick(url)) as inventory:
        first = await following(inventory)
        assert isinstance(first, InventoryRead)
        (child,) = children()
        async with asyncio.timeout(PATIENCE_S):
            await again.wait()
        assert children() == [child]


@pytest.mark.slow
async def test_jobs_in_wrong_types_end_no_child() -> None:
    jobs: Iterator[object] = iter([{"a": 1}, None, ["\ud800"], [[1], None, {}], 5, "text"])
    again = asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/api/v1/query":
            return web.json_response(vector())
        found = next(jobs, again)
        if found is again:
            again.set()
        body = json.dumps({"data": [] if found is again else found}).encode()
        return web.Response(body=body, content_type="application/json")

    async with serving(answer) as url, aclosing(quick(url)) as inventory:
        assert await following(inventory) == InventoryRead(())
        (child,) = children()
        async with asyncio.timeout(PATIENCE_S):
            await again.wait()
        assert children() == [child]


@pytest.mark.slow
async def test_a_selector_that_leaves_out_all_cards_is_told_with_the_jobs_that_have_some(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/api/v1/query":
            return web.json_response(vector())
        assert request.path == "/api/v1/label/job/values"
        assert request.query["match[]"] == "gpu_capacity"
        return web.json_response({"status": "success", "data": ["monitoring/collector", "dcgm"]})

    async with serving(answer) as url, aclosing(quick(url)) as inventory:
        assert await following(inventory) == InventoryRead(())
    assert (
        'no gpu_capacity series matches {job="kubeshare-collector"}; there are some of these jobs: '
        "dcgm, monitoring/collector"
    ) in caplog.text


@pytest.mark.slow
async def test_tls_needs_the_right_authority(tmp_path: Path) -> None:
    made = make_certificates(tmp_path / "tls")

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response(vector(CARD, UP))

    application = web.Application()
    application.router.add_get("/api/v1/query", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=made.server_context()).start()
        url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        async with aclosing(quick(url)) as inventory:
            failed = await following(inventory)
            assert isinstance(failed, InventoryFailed)
            assert "CERTIFICATE_VERIFY_FAILED" in failed.message
        async with aclosing(
            quick(url, access=ScrapeAccess(ca_file=str(made.ca_file)))
        ) as inventory:
            assert isinstance(await following(inventory), InventoryRead)
    finally:
        await runner.cleanup()
