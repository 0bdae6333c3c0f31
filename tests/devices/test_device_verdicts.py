"""Verdicts on devices are remembered, and a question takes only so many steps."""

import gc
import subprocess
import sys
from dataclasses import replace

import pytest

from kubeshare_py.devices.device_table import DeviceTable
from kubeshare_py.devices.device_verdicts import MAX_KEPT, CannotJudge, DeviceVerdicts
from kubeshare_py.devices.expressions import compiled
from kubeshare_py.devices.table_verdicts import TableVerdicts
from kubeshare_py.domain.remembered import MAX_BYTES
from tests.devices.made import CLASSES, DRIVER, device, on_node, request, sliced

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

    with pytest.raises(CannotJudge, match="some nodes were not looked at yet"):
        judge_all()
    verdicts.begin()

    assert judge_all()


def test_devices_that_an_expression_finds_alike_are_judged_once() -> None:
    verdicts, wanted = DeviceVerdicts(steps=40), request("r", 1, _MODEL)
    every = [device(f"d{number}", model="AB"[number % 2], uuid=f"{number}") for number in range(99)]

    found = [
        verdicts.satisfies(one, wanted, CLASSES["any"]) for one in on_node(sliced(*every)).devices
    ]

    assert found == [True, False] * 49 + [True]


def test_cel_is_not_imported_without_expressions() -> None:
    program = (
        "import sys, kubeshare_py.devices.allocator, kubeshare_plugins;"
        "sys.exit('celpy' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


MARK = "expression-of-this-test"


def kept_characters() -> int:
    """How many characters the texts with MARK have, in dicts of this process."""
    found = {
        id(text): len(text)
        for table in gc.get_objects()
        if type(table) is dict
        for item in table.items()
        for text in item
        if isinstance(text, str) and MARK in text and text != MARK
    }
    return sum(found.values())


def test_verdicts_on_many_long_expressions_stay_within_their_bytes() -> None:
    verdicts = DeviceVerdicts()
    long = "y" * 10_000
    most = 0
    for number in range(2 * MAX_KEPT // len(long)):
        verdicts.begin()
        verdicts.verdict(f'"{MARK}{number}" == "{long}"', DRIVER, device("a"))
        if number % 1000 == 0:
            most = max(most, kept_characters())
    assert MAX_KEPT / 4 < most < MAX_KEPT
    assert kept_characters() < MAX_KEPT


def test_nothing_is_kept_of_expressions_for_which_no_steps_are_left() -> None:
    verdicts = DeviceVerdicts(steps=0)
    for number in range(100):
        with pytest.raises(CannotJudge):
            verdicts.verdict(f'device.driver == "{MARK}{number}"', DRIVER, device("a"))
    assert kept_characters() == 0


def test_sentences_that_quote_expressions_are_forgotten_with_their_verdicts() -> None:
    table = DeviceTable()
    table.put(sliced(*(device(f"d{number}", uuid=f"{number}") for number in range(4))))
    verdicts = DeviceVerdicts()
    known = TableVerdicts(verdicts)
    kept = []
    for number in range(1200):
        verdicts.begin()
        named = f"a{number:05}{MARK}{'z' * 200}"
        known.all_of(table, (f'device.attributes["x.example.com"]["{named}"] == 1',))
        if number % 600 == 599:
            # Those of the verdicts are counted apart: see above.
            verdicts = known._verdicts = DeviceVerdicts()
            gc.collect()
            kept.append(kept_characters())
    assert kept[1] < kept[0] * 1.5
    assert max(kept) < MAX_BYTES / 8
