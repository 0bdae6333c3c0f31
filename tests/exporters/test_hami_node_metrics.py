"""HAMi's metrics of a node, as text."""

import pytest

from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.exporters.hami_node_metrics import (
    CATALOGUE,
    LEGACY,
    HamiCard,
    HamiUse,
    hami_page,
)

N1 = NodeName("n1")
CARD = HamiCard(
    index=3, uuid="GPU-1", model="Tesla T4", used_bytes=7, busy_percent=40, copying_percent=9
)
USE = HamiUse(
    pod=PodKey("ml", "a"),
    container="main",
    number=0,
    uuid="GPU-1",
    limit_bytes=100,
    used_bytes=60,
    context_bytes=10,
    module_bytes=20,
    buffer_bytes=25,
    busy_percent=12,
    idle_s=4,
)


def series(*, legacy: bool = False, **given: list[HamiCard] | list[HamiUse]) -> list[str]:
    page = hami_page(N1, given.get("cards", []), given.get("uses", []), legacy=legacy)  # type: ignore[arg-type]
    return [line for line in page.splitlines() if not line.startswith("#")]


def test_all_of_a_card_is_there_in_hamis_units() -> None:
    own = 'device_index="3",device_uuid="GPU-1",device_type="NVIDIA-Tesla T4"'
    name = "hami_host_gpu_memory_controller_utilization_ratio"
    assert series(cards=[CARD]) == [
        f'hami_host_gpu_memory_used_bytes{{zone="vGPU",{own},node="n1"}} 7',
        f'hami_host_gpu_utilization_ratio{{zone="vGPU",{own},node="n1"}} 40',
        f'{name}{{zone="vGPU",{own}}} 9',
    ]


@pytest.mark.parametrize(
    ("model", "named"),
    [("Tesla T4", "NVIDIA-Tesla T4"), ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB")],
)
def test_a_cards_type_is_the_one_of_hamis_device_plugin(model: str, named: str) -> None:
    """HAMi's monitor writes `NVIDIA-NVIDIA A100…`."""
    assert HamiCard(index=0, uuid="u", model=model).type == named


def test_each_metric_has_one_series_for_a_container_of_which_all_is_known() -> None:
    names = [one.partition("{")[0] for one in series(cards=[CARD], uses=[USE], legacy=True)]
    assert names == [one.name for one in (*CATALOGUE, *LEGACY)]


def test_what_is_not_known_has_no_series() -> None:
    blank = HamiUse(pod=PodKey("ml", "a"), container="m", number=0, uuid="u", limit_bytes=0)
    cards = [HamiCard(index=0, uuid="u", model="m")]
    assert series(cards=cards, uses=[blank], legacy=True) == []


def test_nothing_used_is_0() -> None:
    idle = HamiUse(
        pod=PodKey("ml", "a"), container="m", number=0, uuid="u", limit_bytes=0, used_bytes=0
    )
    assert [one.split()[-1] for one in series(uses=[idle])] == ["0", "0"]


def test_the_parts_of_memory_are_labels_of_the_old_name() -> None:
    [found] = [one for one in series(uses=[USE], legacy=True) if one.startswith("Device_memory")]
    assert 'context="10",module="20",data="25",offset="5"} 60' in found


def test_labels_are_escaped() -> None:
    odd = HamiCard(index=0, uuid='a"b\n', model="m", used_bytes=1)
    assert r'device_uuid="a\"b\n"' in series(cards=[odd])[0]
