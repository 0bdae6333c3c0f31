"""What is lost when the driver refuses one question about one handle: that alone, and no neighbour.

The tables say for each function of NVML which fields of the card then differ. A question that is
not in a table loses nothing of that handle, or is not asked about it.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path

import msgspec
import pytest

from kubeshare_py.domain.card_reading import CardReading, NodeReading
from kubeshare_py.edges.node.card_reports import CardReport
from tests.each import each
from tests.fake_nvml.board import Board

NOT_SUPPORTED, NO_PERMISSION, GPU_IS_LOST, UNKNOWN = 3, 4, 15, 999
REFUSALS = (NO_PERMISSION, UNKNOWN)
SOURCE = Path(__file__).parents[1] / "fake_nvml" / "library.c"
FUNCTIONS = each(re.findall(r"^int (nvmlDevice\w+)\(", SOURCE.read_text(), re.MULTILINE))
#: The card itself is not seen: without a handle or a uuid it has no name.
GONE = "gone"
MEMORY = "model memory_bytes reserved_bytes used_bytes"
#: Card 2 of the board is whole, card 0 is divided, 1 is its second instance.
WHOLE, PARENT, INSTANCE = "card.2", "card.0", "card.0.mig.1"

OF_ANY_CARD: Mapping[str, str] = {
    "nvmlDeviceGetHandleByIndex_v2": GONE,
    "nvmlDeviceGetUUID": GONE,
    "nvmlDeviceGetName": MEMORY,
    "nvmlDeviceGetMemoryInfo_v2": "reserved_bytes used_bytes",
    "nvmlDeviceGetPciInfo_v3": "bus",
    "nvmlDeviceGetMaxPcieLinkGeneration": "bus_speed",
    "nvmlDeviceGetMaxPcieLinkWidth": "bus_speed",
    "nvmlDeviceGetMemoryAffinity": "numa_node",
    "nvmlDeviceGetTopologyCommonAncestor": "paths",
    "nvmlDeviceGetNvLinkState": "links",
    "nvmlDeviceGetNvLinkVersion": "links",
    "nvmlDeviceGetNvLinkRemoteDeviceType": "links",
    "nvmlDeviceGetGpuFabricInfoV": "fabric",
    "nvmlDeviceGetFieldValues": "repair",
    "nvmlDeviceGetTotalEccErrors": "errors",
    "nvmlDeviceGetRemappedRows": "errors",
    "nvmlDeviceGetPowerUsage": "power_milliwatts",
}
LOSSES: Mapping[str, Mapping[str, str]] = {
    WHOLE: {
        **OF_ANY_CARD,
        "nvmlDeviceGetMigMode": "divided",
        "nvmlDeviceGetUtilizationRates": "busy_percent copying_percent",
    },
    # The mode is seen by the instances, which only a divided card has.
    PARENT: {**OF_ANY_CARD, "nvmlDeviceGetMigDeviceHandleByIndex": "hides_parts"},
    INSTANCE: {
        "nvmlDeviceGetUUID": GONE,
        "nvmlDeviceGetName": MEMORY,
        "nvmlDeviceGetMemoryInfo_v2": "reserved_bytes",
        "nvmlDeviceGetComputeRunningProcesses_v3": "processes",
        "nvmlDeviceGetGraphicsRunningProcesses_v3": "processes",
        "nvmlDeviceGetMPSComputeRunningProcesses_v3": "processes",
    },
}
#: Fields of an instance that are its card's, and of the other end of a path.
INHERITED = {"bus", "numa_node"}
#: A card is not lost by these: they are asked when the session begins, about pairs, or instances.
NOT_OF_THE_CARD = re.compile(
    "Event|Ancestor|MigDeviceHandle|MaxMig|Instance|Attributes|Remote.*Pci"
)

Reread = Callable[[], NodeReading]


@pytest.fixture(scope="module")
def board(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Board:
    return Board("hgx-h100-mig", tmp_path_factory.mktemp("refused"), library)


@pytest.fixture(scope="module")
def reread(board: Board) -> Iterator[Reread]:
    """Read the board in a new session."""
    command = [sys.executable, "-m", "tests.collector.fresh_readings"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=board.environment) as process:

        def read() -> NodeReading:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
            report = msgspec.json.decode(process.stdout.readline(), type=CardReport)
            assert report.reading is not None, report.failure
            return report.reading

        yield read
        assert process.stdin is not None
        process.stdin.close()


def uuid_of(board: Board, handle: str) -> str:
    return str(board.lines[f"{handle}.uuid"])


def by_uuid(reading: NodeReading) -> dict[str, CardReading]:
    return {card.uuid: card for card in (*reading.cards, *reading.unreadable)}


def differing(one: CardReading, other: CardReading) -> set[str]:
    names = (field.name for field in fields(one))
    return {name for name in names if getattr(one, name) != getattr(other, name)}


def expect_losses(
    before: NodeReading, now: NodeReading, uuid: str, lost: set[str], *, with_parts: bool
) -> None:
    """Of this card these fields differ, or it is gone; of others only what was about it."""
    cards, left = by_uuid(before), by_uuid(now)
    for other, card in cards.items():
        if other == uuid:
            assert (differing(card, left[other]) if other in left else {GONE}) == lost
        elif card.parent == uuid:
            is_gone = GONE in lost or with_parts
            assert (other not in left) == is_gone
            assert is_gone or differing(card, left[other]) <= INHERITED & lost
        else:
            hides = {"hides_parts"} if other == cards[uuid].parent and GONE in lost else set()
            assert differing(card, left[other]) <= {"paths"} | hides


@pytest.mark.slow
@pytest.mark.parametrize("handle", [WHOLE, PARENT, INSTANCE])
def test_a_refused_question_loses_its_own_answer(board: Board, reread: Reread, handle: str) -> None:
    before, uuid = reread(), uuid_of(board, handle)
    for function in FUNCTIONS:
        lost = {*LOSSES[handle].get(function, "").split()}
        with_parts = handle == PARENT and function == "nvmlDeviceGetMigDeviceHandleByIndex"
        for code in REFUSALS:
            board.set({f"{handle}.fail.{function}": code})
            now = reread()
            board.set({f"{handle}.fail.{function}": None})
            expect_losses(before, now, uuid, lost, with_parts=with_parts)
            assert not lost or now.unanswered, function


@pytest.mark.parametrize("handle", [WHOLE, PARENT, INSTANCE])
def test_an_unsupported_question_loses_its_own_answer(
    board: Board, reread: Reread, handle: str
) -> None:
    before, uuid = reread(), uuid_of(board, handle)
    for function in FUNCTIONS:
        with_parts = handle == PARENT and function == "nvmlDeviceGetMigDeviceHandleByIndex"
        # A driver that does not support a question says: no instances, no processes of this kind.
        lost = {*LOSSES[handle].get(function, "").split()} - {"hides_parts"}
        if re.search("Graphics|MPS", function):
            lost.clear()
        board.set({f"{handle}.fail.{function}": NOT_SUPPORTED})
        now = reread()
        board.set({f"{handle}.fail.{function}": None})
        cards = by_uuid(now)
        if handle == INSTANCE and GONE in lost:
            assert uuid not in cards
        else:
            expect_losses(before, now, uuid, lost, with_parts=with_parts)


def test_a_card_that_is_lost_in_the_middle_is_lost_alone(board: Board, reread: Reread) -> None:
    before, uuid = reread(), uuid_of(board, WHOLE)
    for function in FUNCTIONS:
        board.set({f"{WHOLE}.fail.{function}": GPU_IS_LOST})
        now = reread()
        board.set({f"{WHOLE}.fail.{function}": None})
        if not now.unanswered or NOT_OF_THE_CARD.search(function):
            continue
        expect_losses(before, now, uuid, {GONE}, with_parts=False)


@pytest.mark.slow
def test_instances_are_read_though_the_memory_of_their_card_is_refused(
    board: Board, reread: Reread
) -> None:
    before, uuid = reread(), uuid_of(board, PARENT)
    refused = [f"{PARENT}.fail.nvmlDeviceGetMemoryInfo{version}" for version in ("", "_v2")]
    board.set(dict.fromkeys(refused, NO_PERMISSION))
    now = reread()
    board.set(dict.fromkeys(refused))
    lost = {"memory_bytes", "reserved_bytes", "used_bytes"}
    expect_losses(before, now, uuid, lost, with_parts=False)
    assert not now.unreadable
