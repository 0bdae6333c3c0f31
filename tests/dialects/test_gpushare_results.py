"""The annotations of pods that were placed in gpushare's words."""

import json

import pytest

from kubeshare_py.dialects.gpushare import Gpushare
from tests.dialects.decoder import units_by_card
from tests.dialects.gpushare_pods import GIB, MIB, a_node, an_allocation

NOW = 1_700_000_000_123_456_789
NODE = a_node(15109, 81920, decided_at_ns=NOW)


def test_one_card_is_said_in_both_generations() -> None:
    """The keys of the first generation as gpushare patches them; DEV is the card's own total."""
    found = Gpushare().results(an_allocation((0, {1: (0, 60 * GIB)})), NODE)
    assert found == {
        "ALIYUN_COM_GPU_MEM_IDX": "1",
        "ALIYUN_COM_GPU_MEM_DEV": "80",
        "ALIYUN_COM_GPU_MEM_POD": "60",
        "ALIYUN_COM_GPU_MEM_ASSIGNED": "false",
        "ALIYUN_COM_GPU_MEM_ASSIGN_TIME": "0",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": str(NOW),
        "scheduler.framework.gpushare.allocation": '{"0":{"1":60}}',
        "scheduler.framework.gpushare.assigned": "false",
        "scheduler.framework.gpushare.assume-time": str(NOW),
        "gpushare.alibabacloud.com/device-resource": '{"1":80}',
        "gpushare.kubeshare.io/container-0": "60",
    }
    assert len(found["ALIYUN_COM_GPU_MEM_ASSUME_TIME"]) == 19


@pytest.mark.parametrize(
    ("mib", "units"),
    [(7606, 7), (12196, 11), (15109, 14), (16276, 15), (24187, 23), (81920, 80)],
)
def test_a_cards_total_is_rounded_down_to_units(mib: int, units: int) -> None:
    """15109 MiB are 14 GiB, 16276 MiB 15, and 81920 MiB 80."""
    found = Gpushare().results(an_allocation((0, {0: (0, GIB)})), a_node(mib))
    assert found["ALIYUN_COM_GPU_MEM_DEV"] == str(units)
    exact = Gpushare(unit="MiB").results(an_allocation((0, {0: (0, 8138 * MIB)})), a_node(mib))
    assert exact["ALIYUN_COM_GPU_MEM_DEV"] == str(mib)
    assert exact["ALIYUN_COM_GPU_MEM_POD"] == "8138"


def test_each_container_has_its_own_amount_and_the_pod_the_sum() -> None:
    """CONTAINER is 1 and 2, POD is 3 in both."""
    both = an_allocation((0, {0: (0, GIB)}), (2, {0: (0, 2 * GIB)}))
    found = Gpushare().results(both, NODE)
    assert found["ALIYUN_COM_GPU_MEM_POD"] == "3"
    assert found["gpushare.kubeshare.io/container-0"] == "1"
    assert found["gpushare.kubeshare.io/container-2"] == "2"
    assert json.loads(found["scheduler.framework.gpushare.allocation"]) == {
        "0": {"0": 1},
        "2": {"0": 2},
    }


def test_several_cards_are_said_in_the_second_generation_alone() -> None:
    """8 units on four cards are 2 of each; the first generation knows one card."""
    node = a_node(*(15109,) * 4)
    held = an_allocation((0, dict.fromkeys(range(4), (0, 2 * GIB))))
    found = Gpushare().results(held, node)
    assert found["scheduler.framework.gpushare.allocation"] == '{"0":{"0":2,"1":2,"2":2,"3":2}}'
    assert found["gpushare.kubeshare.io/container-0"] == "2"
    # The amounts of each card are variables of the containers; DEV is 15 in the documentation.
    assert {key: found[key] for key in found if key.startswith("ALIYUN")} == {
        "ALIYUN_COM_GPU_MEM_DEV": "14",
        "ALIYUN_COM_GPU_MEM_POD": "2",
    }
    assert units_by_card(found, [8]) == {0: 2, 1: 2, 2: 2, 3: 2}


def test_a_share_of_time_is_said_in_percent() -> None:
    held = an_allocation((0, {0: (300, GIB)}), (1, {0: (0, GIB)}))
    found = Gpushare().results(held, NODE)
    assert found["gpushare.alibabacloud.com/core-percentage"] == '{"0":{"0":30},"1":{"0":0}}'


def test_keys_go_with_the_resources_name() -> None:
    renamed = Gpushare(resource="cerit.io/gpu-mem")
    found = renamed.results(an_allocation((0, {0: (0, GIB)})), NODE)
    assert found["CERIT_IO_GPU_MEM_IDX"] == "0"
    assert not [key for key in found if key.startswith("ALIYUN")]
    assert set(found) <= renamed.result_keys.every | {"gpushare.kubeshare.io/container-0"}
