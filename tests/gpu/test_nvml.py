"""Readings of NVIDIA's own driver, compared with nvidia-smi and with what a process does."""

import os
import re
import shutil
import subprocess

import pytest

from kubeshare_py.domain.card_reading import NodeReading
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.node_agent.devices import (
    KNOWN,
    MOST_BYTES,
    MemoryUnit,
    MigStrategy,
    chosen,
    device_lists,
)
from kubeshare_py.node_agent.history import History, given_away
from tests.collector.collectors import capacity, collector
from tests.collector.reading import Reader
from tests.each import each
from tests.gpu.card import cuda_process
from tests.gpu.conftest import Figure

pytestmark = pytest.mark.gpu
MIB, GIB = 1 << 20, 1 << 30
#: Figures that both tools round in their own way may differ by so much.
NEAR = 2


def smi(*fields: str) -> list[list[str]]:
    """What nvidia-smi says of each card."""
    program = shutil.which("nvidia-smi")
    if program is None:
        pytest.skip("nvidia-smi is not here")
    command = [program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [line.split(", ") for line in done.stdout.splitlines()]


def test_the_cards_are_those_that_nvidia_smi_shows(reading: NodeReading, figure: Figure) -> None:
    shown = smi("index", "uuid", "name", "memory.total", "driver_version", "pci.bus_id")
    whole = [card for card in reading.cards if card.parent is None]
    assert [
        [str(card.index), card.uuid, card.model, str(card.memory_bytes // MIB), reading.driver]
        for card in whole
    ] == [line[:5] for line in shown]
    for card, line in zip(whole, shown, strict=True):
        assert line[5].lower().endswith(card.bus.lower())
    figure(
        f"NVML: {len(whole)} x {whole[0].model}, driver {reading.driver}, {reading.took_s:.3f} s"
    )


def test_every_question_is_answered_or_not_supported(reading: NodeReading, figure: Figure) -> None:
    assert reading.unanswered == ()
    said = {name for name in reading.cards[0].__dataclass_fields__
            if getattr(reading.cards[0], name) not in (None, "", ())}  # fmt: skip
    figure(f"NVML: the card's fields are {', '.join(sorted(said))}")


def test_temperature_and_power_are_those_of_nvidia_smi(reading: NodeReading) -> None:
    [[degrees, watts], *_] = smi("temperature.gpu", "power.draw")
    card = reading.cards[0]
    assert card.temperature_celsius is not None
    assert abs(card.temperature_celsius - int(degrees)) <= 10 * NEAR
    assert card.power_milliwatts is not None
    assert card.power_milliwatts == pytest.approx(1000 * float(watts), rel=0.5)


def test_memory_that_a_process_takes_is_read_as_used(driver: Reader, uuid: GpuUuid) -> None:
    def used() -> int:
        [card] = [one for one in driver.reading().cards if one.uuid == uuid]
        return card.used_bytes or 0

    with cuda_process({"CUDA_VISIBLE_DEVICES": uuid}) as program:
        program.do("memory")
        before = used()
        program.do("take", bytes=2 * GIB)
        driver.expect_eventually(
            lambda cards: (cards[uuid].reading.used_bytes or 0) >= before + 2 * GIB
        )
        [card] = [one for one in driver.reading().cards if one.uuid == uuid]
        assert program.pid in {one.pid for one in card.processes or ()}
    driver.expect_eventually(lambda cards: (cards[uuid].reading.used_bytes or 0) < before)


def test_a_card_that_computes_is_read_as_busy(driver: Reader, uuid: GpuUuid) -> None:
    with cuda_process({"CUDA_VISIBLE_DEVICES": uuid}) as program:
        program.do("memory")
        program.send("work", blocks=20000, rounds=2000, seconds=5)
        driver.expect_eventually(lambda cards: (cards[uuid].reading.busy_percent or 0) > 50)
        assert program.answer()["code"] == 0


def test_a_programs_own_error_is_told_and_the_card_stays_healthy(
    driver: Reader, uuid: GpuUuid, figure: Figure
) -> None:
    driver.reading()
    with cuda_process({"CUDA_VISIBLE_DEVICES": uuid}) as program:
        assert program.ask("fault")["code"] != 0
    found = driver.expect_report(lambda report: report.reading and report.reading.happened)
    assert found.reading is not None
    codes = {error.code for error in found.reading.happened if error.uuid == uuid}
    assert codes
    assert all(error.is_application for error in found.reading.happened)
    assert [card.faults for card in driver.history.cards() if card.reading.uuid == uuid] == [()]
    figure(f"NVML: a write to no memory is {', '.join(sorted(codes))}")


async def test_the_collectors_page_has_the_card(reading: NodeReading, uuid: GpuUuid) -> None:
    card = next(one for one in reading.cards if one.uuid == uuid)
    async with collector(os.environ) as running:
        await running.expect_eventually(lambda page: any("gpu_capacity" in name for name in page))
        _, text = await running.get()
    [labels] = [one for one in capacity(text) if one["uuid"] == uuid]
    assert labels["model"] == card.model.replace(" ", "-")
    assert labels["memory"] == str(card.memory_bytes)
    assert labels["index"] == str(card.index)


def test_device_plugins_advertise_this_card_in_messages_that_kubelet_takes(
    reading: NodeReading, uuid: GpuUuid
) -> None:
    history = History()
    history.take(reading, 0.0)
    cards = given_away(history.cards())
    lists = device_lists(chosen(KNOWN, MemoryUnit.GIB), cards, MigStrategy.MIXED)
    assert [one.card for one in lists["nvidia.com/gpu"].cards if one.card == uuid] == [uuid]
    [memory] = [one for one in lists["elasticgpu.io/gpu-memory"].cards if one.card == uuid]
    [[total], *_] = smi("memory.total")
    assert memory.count == int(total)
    assert not any(one.refusal for one in lists.values()), MOST_BYTES


def test_the_bus_of_the_card_is_one_of_the_kernels(reading: NodeReading) -> None:
    for card in each(reading.cards):
        assert re.fullmatch(r"[0-9a-fA-F]+:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d", card.bus)


@pytest.mark.slow
def test_instances_of_a_divided_card_are_cards_of_their_own(reading: NodeReading) -> None:
    divided = [card for card in reading.cards if card.divided]
    if not divided:
        pytest.skip("no card is in MIG mode, and tests do not change that")
    parents = {card.parent for card in reading.cards if card.parent is not None}
    assert parents <= {card.uuid for card in divided}
    assert all(card.profile for card in reading.cards if card.parent is not None)
