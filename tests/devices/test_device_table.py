"""Devices by number, their columns, and verdicts on all of them."""

from random import Random

import numpy as np
import pytest

from kubeshare_py.devices.device_pools import DeviceTable, PooledDevice, alike, alike_rows
from kubeshare_py.devices.device_verdicts import (
    NO,
    UNKNOWN,
    YES,
    CannotJudge,
    DeviceVerdicts,
    TableVerdicts,
)
from kubeshare_py.devices.expression_values import DeviceRead
from kubeshare_py.domain.device import Device, DeviceCapacity, DeviceClass, DeviceKey, ResourceSlice
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.values import replace
from tests.making.devices import CLASSES, DRIVER, device, on_node, request, sliced
from tests.scale import seeds

_MODEL = f'device.attributes["{DRIVER}"].model'
_EXPRESSIONS = (
    f'{_MODEL} == "A"',
    f'device.attributes["{DRIVER}"].at < 2 || {_MODEL}.startsWith("B")',
    f'device.capacity["{DRIVER}"].memory.compareTo(quantity("2Gi")) >= 0',
    f'"model" in device.attributes["{DRIVER}"]',
    f'"{DRIVER}" in device.attributes && device.driver.contains("gpu")',
    f'"{DRIVER}" in device.capacity',
    "device.allowMultipleAllocations",
    f'device.attributes["{DRIVER}"].uuid == "3"',
    "device.attributes.there.no == 1 ? true : nonsense(1)",
)
_ANY = CLASSES["any"]


def _any_device(rng: Random, name: str) -> Device:
    made = device(name, uuid=str(rng.randint(0, 5)), at=rng.randint(0, 3))
    if rng.random() < 0.8:
        made = replace(
            made, attributes=(*made.attributes, *device(name, model=rng.choice("AB")).attributes)
        )
    if rng.random() < 0.5:
        memory = DeviceCapacity(DRIVER, "memory", rng.choice(("1Gi", "4Gi")))
        made = replace(made, capacity=(memory,))
    if rng.random() < 0.2:
        made = replace(made, unsupported=("allowMultipleAllocations",))
    return made


def _any_slice(rng: Random, node: str) -> ResourceSlice:
    return sliced(*(_any_device(rng, f"d{at}") for at in range(rng.randint(0, 4))), node=node)


@pytest.mark.parametrize("seed", seeds(60))
def test_a_table_says_of_each_device_what_the_device_says(seed: int) -> None:
    rng, table, there = Random(seed), DeviceTable(), dict[str, ResourceSlice]()
    known = TableVerdicts(DeviceVerdicts())
    held: list[DeviceKey] = []
    looked_at = 0
    for _ in range(12):
        node = f"n{rng.randint(0, 4)}"
        if node in there:
            table.drop(there.pop(node))
        if rng.random() < 0.8:
            there[node] = _any_slice(rng, node)
            table.put(there[node])
        if held and rng.random() < 0.3:
            table.hold((held.pop(),), -1)
        if rng.random() < 0.5:
            held.append(DeviceKey(DRIVER, f"n{rng.randint(0, 4)}", f"d{rng.randint(0, 3)}"))
            table.hold((held[-1],), 1)

        expressions = rng.sample(_EXPRESSIONS, 2)
        found, flags = known.all_of(table, expressions), table.held
        for item in there.values():
            for one in on_node(item, node=NodeName(item.name)).devices:
                number = table.first_number(item) + one.position
                assert table.devices[number].device == one.device
                assert flags[number] == (one.key in held) == table.is_held(one.key)
                assert _as_number(one, expressions) == min(found[number], YES + 1)
                looked_at += 1
    assert looked_at


def _as_number(one: PooledDevice, expressions: list[str]) -> int:
    try:
        return YES if DeviceVerdicts().satisfies(one, request("r", 1, *expressions), _ANY) else NO
    except CannotJudge:
        return YES + 1


def test_numbers_of_slices_that_are_gone_are_used_again() -> None:
    table, item = DeviceTable(), sliced(*(device(f"d{at}", at=at) for at in range(100)))
    for _ in range(50):
        table.put(item)
        table.drop(item)
    table.put(item)

    assert len(table.devices) < 3000
    assert table.epoch > 0
    first = table.first_number(item)
    column = table.column(DeviceRead("attributes", DRIVER, "at"))
    assert len({*column[first : first + 100].tolist()}) == 100


def test_what_a_question_has_no_time_for_is_left_to_the_next() -> None:
    table = DeviceTable()
    table.put(sliced(*(device(f"d{at}", uuid=str(at)) for at in range(20))))
    verdicts = DeviceVerdicts(steps=60)
    known = TableVerdicts(verdicts)
    selectors = (f'device.attributes["{DRIVER}"].uuid == "3"',)

    first = known.all_of(table, selectors)
    for _ in range(20):
        verdicts.begin()
        last = known.all_of(table, selectors)

    assert UNKNOWN in first.tolist()
    assert last.tolist() == [YES if at == 3 else NO for at in range(20)]


def test_verdicts_are_about_the_table_that_is_asked_about() -> None:
    """Machines of one process may share their plugins."""
    ours, theirs = DeviceTable(), DeviceTable()
    ours.put(sliced(device("a", uuid="1"), device("b", uuid="2")))
    theirs.put(sliced(device("a", uuid="2"), device("b", uuid="1")))
    known = TableVerdicts(DeviceVerdicts())
    selectors = (f'device.attributes["{DRIVER}"].uuid == "1"',)

    assert known.all_of(ours, selectors).tolist() == [YES, NO]
    assert known.all_of(theirs, selectors).tolist() == [NO, YES]
    assert known.all_of(ours, selectors).tolist() == [YES, NO]


def test_later_expressions_are_evaluated_only_where_those_before_hold() -> None:
    table = DeviceTable()
    table.put(sliced(device("a", model="A"), device("b")))
    has = f'has(device.attributes["{DRIVER}"].model)'
    of = DeviceClass(name="c", selectors=(has,))

    found = TableVerdicts(DeviceVerdicts()).all_of(table, (*of.selectors, _EXPRESSIONS[0]))

    assert found.tolist() == [YES, NO]


@pytest.mark.parametrize("seed", seeds(30))
def test_alike_are_those_that_are_equal_in_all_columns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = (2, 3, 1 << 40, 1 << 50)
    count = int(rng.integers(1, 40))
    columns = [
        rng.choice(rng.integers(0, rng.choice(sizes), 3), count)
        for _ in range(int(rng.integers(0, 5)))
    ]

    firsts, groups = alike(columns, count)

    keys = [*zip(*(column.tolist() for column in columns), strict=True)] or [()] * count
    assert [keys[first] for first in firsts] == [*dict.fromkeys(keys[at] for at in firsts)]
    assert [keys[firsts[group]] for group in groups] == keys
    assert [keys.index(keys[first]) for first in firsts] == firsts.tolist()


def test_rows_with_one_sum_may_differ() -> None:
    # By the weights of the two columns, both rows have the same sum modulo 2**64.
    odd = 0x5851F42D4C957F2D
    second = -pow(odd, -1, 1 << 64) * (odd * 5) % (1 << 64)
    signed = second - (1 << 64) if second >> 63 else second
    table = np.array([[5, signed], [0, 0], [5, signed], [0, 0]])

    firsts, groups = alike_rows(table)

    assert table[firsts[groups]].tolist() == table.tolist()
    assert len(firsts) == 2
