"""The collector as Prometheus, the kubelet and people meet it."""

import json
import os
import select
import socket
from collections.abc import Mapping

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kubeshare_py.exporters.collector_metrics import CATALOGUE, PATH
from kubeshare_py.inventory.series import CardOfNode, read_series
from tests.collector.collectors import (
    EACH_BOARD,
    Page,
    capacity,
    collector,
    run,
    series,
)
from tests.collector.conftest import NewBoard
from tests.patience import PATIENCE_S

#: Long enough for a busy machine to answer, short enough to wait for (s).
STALE_S = 1.0
#: Nothing is read twice (s).
ONCE_S = 50.0
OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.7,text/plain;version=0.0.4;q=0.3"
SLOW = "nvmlDeviceGetPowerUsage"
METRICS = {one.name for one in CATALOGUE}
HUNG = "kubeshare_collector_readings_total{hung}"
FAILED = "kubeshare_collector_readings_total{failed}"


def listed(page: Page) -> set[str]:
    """The uuids in gpu_capacity."""
    return {name[:-1].split(",")[-1] for name in page if name.startswith("gpu_capacity")}


def healthy(page: Page) -> set[float]:
    """What is told of the health of cards."""
    return {value for name, value in page.items() if name.startswith("kubeshare_gpu_healthy")}


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH_BOARD)
async def test_both_formats_tell_the_same_of_every_board(new_board: NewBoard, name: str) -> None:
    async with collector(new_board(name).environment, ONCE_S, 2 * ONCE_S) as found:
        page = await found.expect_eventually(bool)
        _, text = await found.get(Accept=OPENMETRICS)
    told = series(text, text_string_to_metric_families)
    of_cards = {name: value for name, value in page.items() if name.startswith("kubeshare_gpu")}
    assert len(of_cards) > 10
    assert {name.partition("{")[0] for name in of_cards} <= METRICS
    assert of_cards.items() <= told.items()


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH_BOARD)
async def test_the_inventory_reads_what_the_collector_writes(
    new_board: NewBoard, name: str
) -> None:
    board = new_board(name)
    code, text, errors = await run(board.environment, "--once", "-o", "prometheus")
    _, document, _ = await run(board.environment, "--once", "-o", "json")
    assert (code, errors) == (0, "")
    said = {
        card["reading"]["uuid"]: card["reading"]
        for card in json.loads(document)["cards"]
        if not card["reading"]["divided"] and card["reading"]["memory_bytes"]
    }
    found = [read_series(labels) for labels in capacity(text)]
    cards = {one.card.uuid: one.card for one in found if isinstance(one, CardOfNode)}
    assert len(found) == len(cards) == len(said)
    for uuid, card in cards.items():
        assert card.memory_bytes == said[uuid]["memory_bytes"]
        assert card.model == said[uuid]["model"].replace(" ", "-")
        assert card.index == said[uuid]["index"]


@pytest.mark.slow
async def test_a_card_that_falls_off_the_bus_is_gone_from_the_list(new_board: NewBoard) -> None:
    board = new_board("dgx-a100")
    async with collector(board.environment) as found:
        await found.expect_eventually(lambda page: len(listed(page)) == 8)
        board.lose(3)
        page = await found.expect_eventually(lambda page: len(listed(page)) == 7)
        assert page[f"kubeshare_gpu_fault{{lost,{board.uuid(3)}}}"] == 1
        board.restore(3)
        await found.expect_eventually(lambda page: len(listed(page)) == 8 and healthy(page) == {1})
    health = [line for line in found.log if line["event"] == "health"]
    assert [(line["card"], line["faults"]) for line in health] == [
        (board.uuid(3), ["lost"]),
        (board.uuid(3), []),
    ]


@pytest.mark.slow
async def test_a_driver_that_hangs_blocks_no_scrape_and_is_seen(new_board: NewBoard) -> None:
    board = new_board("dgx-a100")
    async with collector(board.environment, 0.1, 3 * STALE_S) as found:
        await found.expect_eventually(lambda page: healthy(page) == {1})
        board.hang(SLOW)
        assert "[-]cards failed: last reading 3" in await found.expect_answer("/readyz", 500)
        page = await found.page()
        assert healthy(page) == {0}
        assert len(listed(page)) == 8
        assert page["kubeshare_collector_reading_age_seconds{}"] > 3 * STALE_S
        assert (await found.get("/livez"))[0] == 200
        board.release(SLOW)
        await found.expect_answer("/readyz", 200)
        assert healthy(await found.page()) == {1}


@pytest.mark.slow
async def test_one_that_hangs_for_long_is_asked_by_another_process(new_board: NewBoard) -> None:
    board = new_board("t4-box")
    async with collector(board.environment, 0.1, STALE_S) as found:
        await found.expect_eventually(lambda page: healthy(page) == {1})
        board.hang(SLOW)
        await found.expect_eventually(lambda page: page[HUNG] == 2)
        board.release(SLOW)
        await found.expect_eventually(lambda page: healthy(page) == {1})
    said = [line["message"] for line in found.log if "message" in line]
    assert said == ["the driver gave no answer for 2 s"]


@pytest.mark.slow
async def test_one_that_hangs_from_the_start_is_told_by_the_probes(new_board: NewBoard) -> None:
    board = new_board("t4-box")
    board.hang("nvmlInitWithFlags")
    async with collector(board.environment, 0.1, STALE_S) as found:
        assert "gave no answer for 2 s" in await found.expect_answer(PATH, 503, "gave no answer")
        assert (await found.get("/readyz"))[0] == 500
        assert (await found.get("/livez"))[0] == 200
        board.release("nvmlInitWithFlags")
        await found.expect_answer("/readyz", 200)


@pytest.mark.slow
async def test_a_driver_that_takes_the_process_with_it_is_asked_again(new_board: NewBoard) -> None:
    board = new_board("t4-box")
    async with collector(board.environment) as found:
        await found.expect_eventually(lambda page: healthy(page) == {1})
        board.set({f"crash.{SLOW}": 1})
        await found.expect_eventually(lambda page: page[FAILED] >= 1)
        board.set({f"crash.{SLOW}": None})
        page = await found.page()
        reads = page["kubeshare_collector_readings_total{read}"]
        await found.expect_eventually(
            lambda page: page["kubeshare_collector_readings_total{read}"] > reads
        )
    assert any("ended with -6" in line.get("message", "") for line in found.log)


@pytest.mark.slow
async def test_errors_of_the_driver_are_a_metric_and_a_line(new_board: NewBoard) -> None:
    async with collector(new_board("broken-card").environment) as found:
        counted = "kubeshare_collector_driver_failures_total{Unknown,nvmlDeviceGetTemperatureV}"
        await found.expect_eventually(lambda page: page[counted] > 2)
    lines = [line for line in found.log if line["event"] == "unanswered"]
    assert sorted(line["question"] for line in lines) == [
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetTemperatureV",
    ]


@pytest.mark.slow
async def test_a_node_without_gpus_is_in_order(no_driver: Mapping[str, str]) -> None:
    async with collector(no_driver) as found:
        page = await found.expect_eventually(bool)
        assert not listed(page)
        assert page["kubeshare_collector_cards{}"] == 0
        assert (await found.get("/readyz"))[0] == 200
    assert [line["driver"] for line in found.log if line["event"] == "driver"] == [
        "LibraryNotFound"
    ]


@pytest.mark.slow
async def test_it_ends_in_order_even_while_the_driver_hangs(new_board: NewBoard) -> None:
    board = new_board("t4-box")
    async with collector(board.environment) as found:
        await found.expect_eventually(lambda page: healthy(page) == {1})
        board.hang(SLOW)
        assert await found.end() == 0


async def test_nothing_is_left_of_one_that_is_killed_while_the_driver_hangs(
    new_board: NewBoard,
) -> None:
    board = new_board("t4-box")
    async with collector(board.environment) as found:
        await found.expect_eventually(lambda page: healthy(page) == {1})
        (child,) = found.children()
        board.hang(SLOW)
        await found.expect_eventually(
            lambda page: page["kubeshare_collector_reading_age_seconds{}"] > 1
        )
        ended = os.pidfd_open(child)
        await found.end(by_force=True)
        assert select.select([ended], [], [], PATIENCE_S)[0], "it still runs"
        os.close(ended)


@pytest.mark.slow
async def test_once_is_a_table_for_people(new_board: NewBoard) -> None:
    board = new_board("hgx-h100-mig")
    board.error(2, 79)
    code, text, errors = await run(board.environment, "--once", "--node-name", "n1")
    assert (code, errors) == (0, "")
    lines = text.splitlines()
    assert lines[0] == "n1: driver 570.124.06, 11 cards and instances"
    assert lines[3].split() == [
        *("0", board.uuid(0), "NVIDIA", "H100", "80GB", "HBM3", "79.6", "GiB", "0.0", "GiB"),
        *("-", "0", "0000:07:00.0", "divided"),
    ]
    assert lines[-1].split() == ["7", "SYS", "SYS", "SYS", "SYS", "NODE", "NODE", "NODE", "X"]


@pytest.mark.slow
async def test_once_without_gpus_is_in_order_too(no_driver: Mapping[str, str]) -> None:
    code, text, _ = await run({**no_driver, "NODE_NAME": "n7"}, "--once")
    assert (code, text) == (0, "n7: no driver, 0 cards and instances\n")


@pytest.mark.slow
async def test_once_a_driver_that_cannot_be_used_is_1(new_board: NewBoard) -> None:
    board = new_board("t4-box")
    board.set({"fail.nvmlInitWithFlags": 18})
    told = await run(board.environment, "--once")
    assert told == (1, "", "kubeshare-collector: LibRmVersionMismatch\n")


@pytest.mark.slow
async def test_once_a_driver_that_hangs_is_1(new_board: NewBoard) -> None:
    board = new_board("t4-box")
    board.hang(SLOW)
    told = await run(board.environment, "--once", "--interval", "0.1", "--stale-after", "2")
    assert told == (1, "", "kubeshare-collector: the driver gave no answer for 2 s\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["-o", "json"],
        ["--interval", "60"],
        *(
            pytest.param(wrong, marks=pytest.mark.long)
            for wrong in (
                ["--once", "-o", "yaml"],
                ["--interval", "0"],
                ["--port", "70000"],
                ["--port", "http"],
            )
        ),
    ],
)
async def test_wrong_usage_is_2(no_driver: Mapping[str, str], arguments: list[str]) -> None:
    code, _, errors = await run(no_driver, *arguments)
    assert code == 2
    assert errors.startswith("usage: kubeshare-collector")


async def test_a_port_that_is_taken_is_3(no_driver: Mapping[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _, errors = await run(no_driver, "--address", "127.0.0.1", "--port", port)
    assert code == 3
    assert f"cannot listen on 127.0.0.1:{port}" in errors
