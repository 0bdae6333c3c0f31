"""Verdicts on devices are remembered, and a question takes only so many steps."""

import subprocess
import sys

import pytest

from kubeshare_py.devices.device_pools import DeviceTable
from kubeshare_py.devices.device_verdicts import (
    MAX_KEPT,
    CannotJudge,
    DeviceVerdicts,
    NotYet,
    TableVerdicts,
)
from kubeshare_py.devices.expressions import compiled
from kubeshare_py.domain.values import replace
from tests.kept_texts import kept_by_place, marked
from tests.making.devices import CLASSES, DRIVER, device, on_node, request, sliced

_MODEL = f'device.attributes["{DRIVER}"].model == "A"'


def test_a_changed_slice_is_judged_anew() -> None:
    verdicts, wanted = DeviceVerdicts(), request("r", 1, _MODEL)
    first = sliced(device("a", model="A"))
    (before,) = on_node(first).devices
    (after,) = on_node(replace(first, devices=(device("a", model="B"),))).devices

    assert verdicts.satisfies(before, wanted, CLASSES["any"])
    assert not verdicts.satisfies(after, wanted, CLASSES["any"])


def test_a_question_ends_when_it_takes_too_many_steps() -> None:
    expression = f'device.attributes["{DRIVER}"].at >= 0'
    verdicts = DeviceVerdicts(steps=7 * compiled(expression).steps)
    wanted = request("r", 1, expression)
    every = on_node(sliced(*(device(f"d{number}", at=number) for number in range(12)))).devices

    def judge_all() -> bool:
        return all(verdicts.satisfies(one, wanted, CLASSES["any"]) for one in every)

    for _ in range(2):  # parsing is paid for by the first question alone
        with pytest.raises(NotYet, match="some nodes were not looked at yet"):
            judge_all()
        verdicts.begin()

    assert judge_all()


def test_devices_that_an_expression_finds_alike_are_judged_once() -> None:
    verdicts, wanted = DeviceVerdicts(steps=40), request("r", 1, _MODEL)
    every = [device(f"d{number}", model="AB"[number % 2], uuid=f"{number}") for number in range(99)]

    pooled = on_node(sliced(*every)).devices
    verdicts.satisfies(pooled[0], wanted, CLASSES["any"])
    verdicts.begin()
    found = [verdicts.satisfies(one, wanted, CLASSES["any"]) for one in pooled]

    assert found == [True, False] * 49 + [True]


@pytest.mark.slow
def test_cel_is_not_imported_without_expressions() -> None:
    program = (
        "import sys, kubeshare_py.devices.allocator, kubeshare_plugins;"
        "sys.exit('celpy' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def kept_in(table: DeviceVerdicts | TableVerdicts) -> int:
    """How many characters it keeps of marked texts."""
    return sum(kept_by_place(table).values())


def test_verdicts_on_many_long_expressions_stay_within_their_bytes() -> None:
    verdicts = DeviceVerdicts()
    most = 0
    for number in range(2 * MAX_KEPT // 10_000):
        verdicts.begin()
        verdicts.verdict(f'"{marked("e", number, 10_000)}" == ""', DRIVER, device("a"))
        if number % 1000 == 0:
            most = max(most, kept_in(verdicts))
    assert MAX_KEPT / 4 < most < MAX_KEPT
    assert kept_in(verdicts) < MAX_KEPT


def test_nothing_is_kept_of_expressions_for_which_no_steps_are_left() -> None:
    verdicts = DeviceVerdicts(steps=0)
    for number in range(100):
        with pytest.raises(CannotJudge):
            verdicts.verdict(f'device.driver == "{marked("e", number, 100)}"', DRIVER, device("a"))
    assert kept_in(verdicts) == 0


@pytest.mark.slow
def test_sentences_that_quote_expressions_are_forgotten_with_their_verdicts() -> None:
    table = DeviceTable()
    table.put(sliced(*(device(f"d{number}", uuid=f"{number}") for number in range(4))))
    verdicts = DeviceVerdicts()
    known = TableVerdicts(verdicts)
    for number in range(600):
        verdicts.begin()
        name = marked("e", number, 100)
        known.all_of(table, (f'device.attributes["x.example.com"]["{name}"] == 1',))
    # An expression and its sentence, for each of the 128 that are kept at most.
    known._verdicts = DeviceVerdicts()  # their own texts are counted above
    assert 0 < kept_in(known) < 128 * 2 * 200
