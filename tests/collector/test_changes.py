"""What happens to cards and drivers while they are read."""

from collections.abc import Mapping

import pytest

from kubeshare_py.domain.card_reading import DriverError, JudgedCard, Unanswered
from kubeshare_py.domain.identity import GpuUuid
from tests.collector.conftest import NewBoard
from tests.collector.reading import Cards, reader

UNKNOWN, RM_MISMATCH = 999, 18
#: Long enough for a timer not to have done what an event does at once (s).
LONG = 60.0


def ill(cards: Cards) -> dict[GpuUuid, tuple[str, ...]]:
    return {uuid: card.faults for uuid, card in cards.items() if card.faults}


def test_a_card_falls_off_the_bus_and_comes_back(new_board: NewBoard) -> None:
    board = new_board("dgx-a100")
    with reader(board.environment) as process:
        process.reading()
        board.lose(3)
        cards = process.expect_eventually(ill)
        assert ill(cards) == {board.uuid(3): ("lost",)}
        assert not cards[board.uuid(3)].is_listed
        assert len([card for card in cards.values() if card.is_listed]) == 7
        board.restore(3)
        process.expect_eventually(lambda cards: not ill(cards))


def test_a_card_that_is_lost_while_it_is_asked_is_lost_too(new_board: NewBoard) -> None:
    board = new_board("dgx-a100")
    with reader(board.environment) as process:
        process.reading()
        board.set({"card.2.fail.nvmlDeviceGetMemoryInfo_v2": 15})
        assert ill(process.expect_eventually(ill)) == {board.uuid(2): ("lost",)}


def test_while_one_is_lost_the_library_is_opened_again(new_board: NewBoard) -> None:
    board = new_board("t4-box")
    with reader(board.environment, reopen_s=0.0) as process:
        process.reading()
        board.lose(0)
        process.expect_eventually(ill)
        # The library counts cards when it is opened.
        board.set({"count": 5})
        process.expect_eventually(lambda cards: board.uuid(5) in ill(cards))
        board.set({"count": 6, "card.0.lost": None})


def test_whatever_the_error_is_by_which_it_is_missed(new_board: NewBoard) -> None:
    board = new_board("t4-box")
    with reader(board.environment, reopen_s=0.0) as process:
        process.reading()
        board.set({"card.1.fail.nvmlDeviceGetHandleByIndex_v2": UNKNOWN})
        assert ill(process.expect_eventually(ill)) == {board.uuid(1): ("lost",)}
        board.set({"fail.nvmlInitWithFlags": UNKNOWN})
        process.expect_report(lambda report: report.failure == "Unknown")


def test_one_that_is_not_lost_is_not_reopened_for(new_board: NewBoard) -> None:
    board = new_board("t4-box")
    with reader(board.environment, reopen_s=0.0) as process:
        process.reading()
        board.set({"fail.nvmlInitWithFlags": UNKNOWN})
        assert {process.reading().driver for _ in range(5)} == {"450.51.06"}


@pytest.mark.slow
@pytest.mark.parametrize(("xid", "is_application"), [(79, False), (48, False), (31, True)])
def test_an_error_of_a_card_is_told_and_judged(
    new_board: NewBoard, xid: int, is_application: bool
) -> None:
    board = new_board("dgx-a100")
    with reader(board.environment) as process:
        process.reading()
        board.error(4, xid)
        process.expect_eventually(lambda _: bool(process.history.errors))
        assert process.history.errors == {(board.uuid(4), f"xid-{xid}"): 1}
        cards = process.history.cards()
        expected = {} if is_application else {board.uuid(4): (f"xid-{xid}",)}
        assert ill({card.reading.uuid: card for card in cards}) == expected


@pytest.mark.slow
def test_an_error_is_told_at_once_and_not_when_the_next_reading_is_due(
    new_board: NewBoard,
) -> None:
    board = new_board("dgx-a100")
    with reader(board.environment, interval_s=LONG) as process:
        process.reading()
        board.error(0, 79)
        assert process.reading().happened == (DriverError(uuid=board.uuid(0), code="xid-79"),)


@pytest.mark.slow
def test_an_error_of_an_instance_is_its_own(new_board: NewBoard) -> None:
    board = new_board("hgx-h100-mig")
    with reader(board.environment) as process:
        process.reading()
        board.error(0, 79, instance=9)
        assert ill(process.expect_eventually(ill)) == {board.part(0, 1): ("xid-79",)}


@pytest.mark.slow
def test_instances_come_and_go(new_board: NewBoard) -> None:
    board = new_board("a100-mig")
    with reader(board.environment) as process:
        process.reading()
        taken = {f"card.0.mig.6.{name}": None for name in ("uuid", "name", "memory", "gi")}
        board.set(taken)
        cards = process.expect_eventually(lambda cards: board.uuid(0) in cards and len(cards) == 7)
        assert not ill(cards)
        board.set({f"card.0.mig.{number}.uuid": None for number in range(6)})
        process.expect_eventually(lambda cards: [*cards] == [board.uuid(0)])
        board.set({"card.0.mig_mode": 0})
        process.expect_eventually(lambda cards: cards[board.uuid(0)].is_listed)


@pytest.mark.slow
def test_a_part_that_cannot_be_read_stays_and_takes_no_pods(new_board: NewBoard) -> None:
    board = new_board("a100-mig")
    with reader(board.environment) as process:
        process.reading()
        function = "card.0.mig.2.fail.nvmlDeviceGetMemoryInfo"
        board.set({function: UNKNOWN, f"{function}_v2": UNKNOWN})
        cards = process.expect_eventually(ill)
        assert ill(cards) == {board.part(0, 2): ("unreadable",)}
        assert cards[board.part(0, 2)].is_listed


@pytest.mark.slow
def test_a_call_that_hangs_is_waited_for_and_goes_on(new_board: NewBoard) -> None:
    board = new_board("dgx-1v")
    with reader(board.environment, interval_s=0.02) as process:
        process.reading()
        board.hang("nvmlDeviceGetPowerUsage")
        process.expect_it_waits()
        board.release("nvmlDeviceGetPowerUsage")
        assert process.reading().unanswered == ()


@pytest.mark.slow
def test_a_node_without_a_driver_has_no_cards_and_is_in_order(no_driver: Mapping[str, str]) -> None:
    with reader(no_driver) as process:
        reading = process.reading()
        assert (reading.cards, reading.unanswered) == ((), ())
        assert reading.no_driver == "LibraryNotFound"
        assert process.end() == 0


def test_a_driver_that_is_loaded_later_is_found(new_board: NewBoard) -> None:
    board = new_board("t4-box")
    board.set({"count": None})
    with reader(board.environment) as process:
        assert process.reading().no_driver == "DriverNotLoaded"
        board.set({"count": 6})
        process.expect_eventually(lambda cards: len(cards) == 6)


def test_a_driver_that_cannot_be_used_is_a_failure_and_asked_again(new_board: NewBoard) -> None:
    board = new_board("t4-box")
    board.set({"fail.nvmlInitWithFlags": RM_MISMATCH})
    with reader(board.environment) as process:
        assert process.report().failure == "LibRmVersionMismatch"
        board.set({"fail.nvmlInitWithFlags": None})
        process.expect_eventually(lambda cards: len(cards) == 6)


def test_cards_that_cannot_be_counted_are_a_failure_and_asked_again(new_board: NewBoard) -> None:
    board = new_board("t4-box")
    with reader(board.environment) as process:
        process.reading()
        board.set({"fail.nvmlDeviceGetCount_v2": UNKNOWN})
        failed = process.expect_report(lambda report: report.failure)
        assert failed.failure == "nvmlDeviceGetCount: Unknown"
        board.set({"fail.nvmlDeviceGetCount_v2": None})
        process.expect_eventually(lambda cards: len(cards) == 6)


def test_without_events_readings_go_on(new_board: NewBoard) -> None:
    board = new_board("dgx-1v")
    with reader(board.environment) as process:
        process.reading()
        board.set({"fail.nvmlEventSetWait_v2": UNKNOWN})
        said = Unanswered(card="", question="nvmlEventSetWait_v2", error="Unknown")
        process.expect_report(lambda report: report.reading and said in report.reading.unanswered)
        assert process.reading().unanswered == ()
        board.lose(0)
        process.expect_eventually(ill)


@pytest.mark.slow
def test_it_ends_with_its_standard_input(new_board: NewBoard) -> None:
    with reader(new_board("t4-box").environment, interval_s=LONG) as process:
        process.reading()
        assert process.end() == 0


def test_health_is_what_is_told_of_each_card(new_board: NewBoard) -> None:
    board = new_board("broken-card")
    with reader(board.environment) as process:
        process.reading()
        found: tuple[JudgedCard, ...] = process.history.cards()
        assert [card.faults for card in found] == [
            (),
            ("memory-errors", "remap-waits"),
            ("unreadable",),
            ("remap-failed", "repair-drain-and-reset"),
        ]


def test_what_no_driver_can_mean_is_not_said_and_the_other_cards_count(
    new_board: NewBoard,
) -> None:
    board = new_board("dgx-a100")
    board.set(
        {
            "card.0.memory": 2**64 - 1,
            "card.1.memory": 2**53,
            "card.2.generation": 2**32 - 1,
            "card.3.field.164": 2**63,
            "card.4.lanes": 2**32 - 1,
            "card.5.numa": 1000,
        }
    )
    with reader(board.environment) as process:
        reading = process.reading()
        assert {card.uuid for card in reading.unreadable} == {board.uuid(0), board.uuid(1)}
        assert {card.uuid for card in reading.cards} == {board.uuid(at) for at in range(2, 8)}
        said = {(one.card, one.question): one.error for one in reading.unanswered}
        assert said[board.uuid(1), "memory"] == f"{2**53} is not within 1…{2**48}"
        assert said[board.uuid(4), "speed of the bus"].endswith("is not within 0…1000000000")
