"""The rules of health, one by one."""

from typing import Any

import pytest

from kubeshare_py.domain.card_reading import MemoryErrors, Repair
from kubeshare_py.node_agent.history import NAMES, faults
from tests.node_agent.readings import a_card


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, []),
        ({"errors": MemoryErrors(corrected=10**6, uncorrected=0)}, []),
        ({"errors": MemoryErrors(remapped_corrected=3, remapped_uncorrected=9)}, []),
        ({"errors": MemoryErrors(uncorrected=1)}, ["memory-errors"]),
        ({"errors": MemoryErrors(remap_waits=True)}, ["remap-waits"]),
        ({"errors": MemoryErrors(remap_failed=True)}, ["remap-failed"]),
        ({"errors": MemoryErrors(retirement_waits=True)}, ["retirement-waits"]),
        ({"errors": MemoryErrors(remap_waits=False, retirement_waits=False)}, []),
        ({"repair": Repair.NONE}, []),
        ({"repair": Repair.RESET}, ["repair-reset"]),
        ({"repair": Repair.DRAIN_AND_RESET}, ["repair-drain-and-reset"]),
        ({"repair": Repair.REBOOT}, ["repair-reboot"]),
        ({"repair": Repair.OTHER}, ["repair-other"]),
    ],
)
def test_what_makes_a_card_unhealthy(fields: dict[str, Any], expected: list[str]) -> None:
    found = faults(a_card(**fields), None, [])
    assert found == expected
    assert {*found} <= {*NAMES}


def test_an_instance_has_what_its_card_has() -> None:
    ill = a_card("GPU-a", divided=True, repair=Repair.RESET)
    assert faults(a_card("MIG-1", parent="GPU-a"), ill, ["xid-79"]) == ["repair-reset", "xid-79"]


def test_every_fault_is_named_once_and_in_order() -> None:
    errors = MemoryErrors(uncorrected=2, remap_waits=True)
    found = faults(a_card(errors=errors), None, ["xid-94", "xid-48", "xid-94"])
    assert found == ["memory-errors", "remap-waits", "xid-48", "xid-94"]
