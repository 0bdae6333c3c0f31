"""Verdicts on devices are remembered, and a question takes only so many steps."""

import subprocess
import sys
from dataclasses import replace

import pytest

from kubeshare_py.devices.device_verdicts import CannotJudge, DeviceVerdicts
from kubeshare_py.devices.expressions import compiled
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
