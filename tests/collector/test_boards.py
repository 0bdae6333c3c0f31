"""What is read of each board through the real pynvml."""

from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest

from kubeshare_py.domain.card_reading import (
    CardReading,
    Fabric,
    FarEnd,
    MemoryErrors,
    NodeReading,
    Repair,
    Unanswered,
)
from kubeshare_py.node_agent.history import History, given_away
from kubeshare_py.node_agent.links import card_links
from tests.collector.reading import reader
from tests.fake_nvml.board import MIB, Board

Read = Callable[[str], tuple[Board, NodeReading]]


@pytest.fixture(scope="module")
def read(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Read:
    """Read a board once for all tests."""
    known: dict[str, tuple[Board, NodeReading]] = {}

    def first_reading(name: str) -> tuple[Board, NodeReading]:
        if name not in known:
            board = Board(name, tmp_path_factory.mktemp(name), library)
            with reader(board.environment) as process:
                known[name] = board, process.reading()
        return known[name]

    return first_reading


def matrix(reading: NodeReading) -> list[str]:
    """As `nvidia-smi topo -m` shows it."""
    whole = [card for card in reading.cards if card.parent is None]
    kinds = {(link.uuid, link.peer): link.kind for link in card_links(reading.cards)}
    return [
        " ".join("X" if a is b else kinds.get((a.uuid, b.uuid), "-") for b in whole) for a in whole
    ]


def of(reading: NodeReading, uuid: str) -> CardReading:
    (found,) = (card for card in (*reading.cards, *reading.unreadable) if card.uuid == uuid)
    return found


def listed(reading: NodeReading) -> dict[str, bool]:
    """Health of the cards that pods may get."""
    history = History()
    history.take(reading, 0.0)
    return {card.uuid: card.healthy for card in given_away(history.cards())}


def test_the_matrix_of_a_dgx_1v(read: Read) -> None:
    assert matrix(read("dgx-1v")[1]) == [
        "X NV1 NV1 NV2 NV2 SYS SYS SYS",
        "NV1 X NV2 NV1 SYS NV2 SYS SYS",
        "NV1 NV2 X NV2 SYS SYS NV1 SYS",
        "NV2 NV1 NV2 X SYS SYS SYS NV1",
        "NV2 SYS SYS SYS X NV1 NV1 NV2",
        "SYS NV2 SYS SYS NV1 X NV2 NV1",
        "SYS SYS NV1 SYS NV1 NV2 X NV2",
        "SYS SYS SYS NV1 NV2 NV1 NV2 X",
    ]


def test_direct_links_add_up_to_what_a_v100_moves(read: Read) -> None:
    board, reading = read("dgx-1v")
    links = [link for link in card_links(reading.cards) if link.uuid == board.uuid(0)]
    assert sum(link.speed for link in links if link.kind.startswith("NV")) == 300_000
    assert {link.speed for link in links if link.kind == "SYS"} == {32_000}


def test_an_old_card_says_what_it_can(read: Read) -> None:
    board, reading = read("dgx-1v")
    card = of(reading, board.uuid(5))
    assert (card.index, card.model, card.bus) == (5, "Tesla V100-SXM2-16GB", "0000:2f:00.0")
    assert (card.memory_bytes, card.reserved_bytes) == (16384 * MIB, 226 * MIB)
    assert (card.numa_node, card.bus_speed) == (1, 32_000)
    assert (card.divided, card.fabric, card.repair) == (None, None, None)
    assert card.errors == MemoryErrors(corrected=0, uncorrected=0, retirement_waits=False)
    assert (card.temperature_celsius, card.power_milliwatts) == (34, 42_500)
    assert reading.driver == "470.223.02"


@pytest.mark.slow
def test_everybody_reaches_everybody_over_switches(read: Read) -> None:
    assert matrix(read("dgx-2")[1]) == [
        " ".join("X" if a == b else "NV6" for b in range(16)) for a in range(16)
    ]


@pytest.mark.slow
def test_links_that_are_down_make_a_card_slower_to_reach(read: Read) -> None:
    board, reading = read("dgx-a100")
    speeds = {(link.uuid, link.peer): link.speed for link in card_links(reading.cards)}
    assert matrix(reading)[0] == "X NV12 NV12 NV10 NV12 NV12 NV12 NV12"
    assert speeds[board.uuid(0), board.uuid(1)] == 600_000
    assert speeds[board.uuid(3), board.uuid(1)] == 500_000


def test_processes_of_every_kind_are_counted_once(read: Read) -> None:
    board, reading = read("dgx-a100")
    processes = of(reading, board.uuid(0)).processes
    assert processes is not None
    assert [(one.pid, one.memory_bytes) for one in processes] == [
        (12345, 30000 * MIB),
        (12346, None),
        (12347, 512 * MIB),
    ]


def test_instances_of_a_divided_card_are_cards(read: Read) -> None:
    board, reading = read("hgx-h100-mig")
    parts = [card for card in reading.cards if card.parent == board.uuid(0)]
    assert [card.uuid for card in parts] == [board.part(0, number) for number in (0, 1, 3)]
    assert [card.profile for card in parts] == ["3g.40gb", "1g.10gb", "1g.10gb"]
    assert [card.memory_bytes for card in parts] == [40448 * MIB, 9984 * MIB, 9984 * MIB]
    assert {card.index for card in parts} == {0}
    assert parts[0].model == "NVIDIA H100 80GB HBM3 MIG 3g.40gb"
    assert parts[0].processes == ()
    assert [one.pid for one in parts[2].processes or ()] == [991]


def test_a_divided_card_is_not_given_away_with_or_without_instances(read: Read) -> None:
    board, reading = read("hgx-h100-mig")
    assert [*listed(reading)] == [
        *sorted(board.part(0, number) for number in (0, 1, 3)),
        *(board.uuid(index) for index in range(2, 8)),
    ]
    assert of(reading, board.uuid(1)).divided


def test_cards_that_are_divided_or_not_in_the_fabric_are_reached_over_the_bus(read: Read) -> None:
    board, reading = read("hgx-h100-mig")
    assert matrix(reading)[2] == "NODE NODE X NV18 NV18 NV18 NV18 SYS"
    assert matrix(reading)[0] == "X NODE NODE NODE SYS SYS SYS SYS"
    assert matrix(reading)[7] == "SYS SYS SYS SYS NODE NODE NODE X"
    assert of(reading, board.uuid(2)).fabric == Fabric(cluster="", clique=0, is_ready=True)


def test_every_word_of_the_matrix(read: Read) -> None:
    assert matrix(read("t4-box")[1])[0] == "X PIX PXB PHB NODE SYS"


def test_one_link_that_is_refused_loses_no_other(library: Path, tmp_path: Path) -> None:
    board = Board("hgx-h100", tmp_path, library)
    board.set({"card.0.link.3.fail": 999})
    with reader(board.environment) as process:
        reading = process.reading()
    assert [len(card.links) for card in reading.cards[:2]] == [17, 18]


def test_a_total_that_changes_between_two_ways_of_asking_does_not_change_the_card(
    library: Path, tmp_path: Path
) -> None:
    board = Board("t4-box", tmp_path, library)
    with reader(board.environment) as process:
        first = process.reading().cards[0].memory_bytes
        board.set({"card.0.memory": first - MIB, "card.0.temperature": 77})
        report = process.expect_report(
            lambda report: (
                report.reading is not None and report.reading.cards[0].temperature_celsius == 77
            )
        )
    assert report.reading is not None
    assert report.reading.cards[0].memory_bytes == first


def test_cards_that_use_the_memory_of_the_node_say_so(library: Path, tmp_path: Path) -> None:
    board = Board("hgx-h100", tmp_path, library)
    function = "card.0.fail.nvmlDeviceGetMemoryInfo"
    board.set({"count": 1, "card.0.name": "NVIDIA GB10", function: 3, f"{function}_v2": 3})
    with reader(board.environment) as process:
        [card] = process.reading().unreadable
    assert (card.model, card.memory_bytes, card.shares_memory) == ("NVIDIA GB10", 0, True)


def test_an_old_driver_is_asked_the_old_way(read: Read) -> None:
    board, reading = read("t4-box")
    card = of(reading, board.uuid(0))
    assert (card.memory_bytes, card.reserved_bytes) == (15109 * MIB, None)
    assert (card.used_bytes, card.temperature_celsius) == (3 * MIB, 41)
    assert reading.unanswered == ()


def test_a_card_that_says_hardly_anything_is_a_card(read: Read) -> None:
    board, reading = read("t4-box")
    assert listed(reading)[board.uuid(5)]
    card = of(reading, board.uuid(5))
    assert {field for field in card.__dataclass_fields__ if getattr(card, field) is not None} == {
        *("uuid", "index", "model", "memory_bytes", "used_bytes", "shares_memory", "hides_parts"),
        *("profile", "bus", "paths", "links", "rdma", "errors"),
    }
    assert (card.profile, card.bus, card.links, card.rdma) == ("", "", (), ())
    assert card.errors == MemoryErrors()


@pytest.mark.slow
def test_a_broken_card_takes_no_pods_and_the_others_do(read: Read) -> None:
    board, reading = read("broken-card")
    assert listed(reading) == {
        board.uuid(0): True,
        board.uuid(1): False,
        board.uuid(3): False,
    }
    assert of(reading, board.uuid(2)) in reading.unreadable
    assert of(reading, board.uuid(3)).repair is Repair.DRAIN_AND_RESET


def test_what_the_driver_fails_to_say_is_known(read: Read) -> None:
    board, reading = read("broken-card")
    assert of(reading, board.uuid(0)).temperature_celsius is None
    assert {*reading.unanswered} == {
        Unanswered(card=board.uuid(index), question=question, error="Unknown")
        for index, question in (
            (0, "nvmlDeviceGetTemperatureV"),
            (0, "nvmlDeviceGetTemperature"),
            (2, "nvmlDeviceGetMemoryInfo"),
        )
    }


def test_seven_instances_have_their_own_memory(read: Read) -> None:
    board, reading = read("a100-mig")
    assert listed(reading) == {board.part(0, number): True for number in range(7)}
    assert {card.memory_bytes for card in reading.cards if card.parent} == {4864 * MIB}


@pytest.mark.parametrize("name", ["dgx-1v", "dgx-2", "dgx-a100", "t4-box"])
def test_a_board_in_order_answers_everything(read: Read, name: str) -> None:
    board, reading = read(name)
    assert (reading.unanswered, reading.unreadable) == ((), ())
    assert all(listed(reading).values())
    assert len(reading.cards) == board.lines["count"]


@pytest.mark.parametrize("name", ["dgx-1v", "dgx-2", "dgx-a100", "hgx-h100-mig", "t4-box"])
def test_links_are_known_of_every_ordered_pair(read: Read, name: str) -> None:
    reading = read(name)[1]
    whole = [card.uuid for card in reading.cards if card.parent is None]
    links = card_links(reading.cards)
    assert sorted((link.uuid, link.peer) for link in links) == sorted(permutations(whole, 2))
    there = {(link.uuid, link.peer): (link.kind, link.speed) for link in links}
    assert all(there[link.peer, link.uuid] == (link.kind, link.speed) for link in links)


def test_a_link_that_leads_to_a_switch_is_one(read: Read) -> None:
    board, reading = read("dgx-a100")
    links = of(reading, board.uuid(0)).links
    assert {link.far_end for link in links} == {FarEnd.SWITCH}
