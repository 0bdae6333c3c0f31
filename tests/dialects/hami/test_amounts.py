"""What a container asks of each card, by itself."""

import pytest

from kubeshare_py.dialects.dialect import ContainerAmounts
from kubeshare_py.dialects.hami.annotations import MIB, SEED, HamiSettings
from kubeshare_py.dialects.hami.request import WITHOUT_COUNT, CardAmounts, amounts_of
from kubeshare_py.domain.request import ContainerRef, InvalidRequest
from tests.dialects.hami.pods import CORES, GPU, MEM, PERCENT


def of(
    asked: dict[str, int], settings: HamiSettings | None = None
) -> CardAmounts | InvalidRequest | None:
    container = ContainerAmounts(
        name="main",
        container=ContainerRef(init=False, index=0),
        sidecar=False,
        amounts=tuple(sorted(asked.items())),
    )
    return amounts_of(container, settings or HamiSettings())


@pytest.mark.parametrize(
    ("percent", "total_mib", "mib"),
    [
        (50, 7680, 3840),
        (33, 24564, 8106),
        (30, 11264, 3379),
        (25, 46068, 11517),
        (50, 24576, 12288),
        (50, 81920, 40960),
    ],
)
def test_a_percentage_is_one_of_each_cards_own_memory(
    percent: int, total_mib: int, mib: int
) -> None:
    """It is rounded down to whole MiB: half of 24 GiB on one card, half of 80 GiB on the next."""
    assert CardAmounts(percent=percent).mib_of(total_mib * MIB) == mib


def test_what_rounds_down_to_no_memory_is_one_mib() -> None:
    """HAMi books 0 MiB for 1 % of 99 MiB, which HAMi-core takes for no limit."""
    assert CardAmounts(percent=1).mib_of(99 * MIB) == 1


def test_memory_in_mib_is_the_same_on_each_card() -> None:
    assert CardAmounts(memory_mib=3000, percent=50).mib_of(99 * MIB) == 3000


@pytest.mark.parametrize("part", [MEM, PERCENT, CORES])
def test_a_part_without_a_count_is_one_card_or_an_error(part: str) -> None:
    """HAMi's count is its setting `defaultGPUNum`, 1 by default; its ancestor had none."""
    found = of({part: 10})
    assert isinstance(found, CardAmounts)
    assert found.count == 1
    for settings in (HamiSettings(default_gpu_num=0), HamiSettings(profile=SEED)):
        refused = of({part: 10}, settings)
        assert isinstance(refused, InvalidRequest)
        assert str(refused) == f'resources[{part}]="10": {WITHOUT_COUNT}'


def test_defaults_hold_for_what_is_not_asked_for() -> None:
    """Cores of 0 that are written down mean 0, and not the default of 30."""
    settings = HamiSettings(default_memory=512, default_cores=30)
    assert of({GPU: 1, CORES: 10}, settings) == CardAmounts(memory_mib=512, cores=10)
    assert of({GPU: 1, MEM: 1000}, settings) == CardAmounts(memory_mib=1000, cores=30)
    assert of({GPU: 1, MEM: 1000, CORES: 0}, settings) == CardAmounts(memory_mib=1000)


def test_nothing_is_asked_for_without_amounts() -> None:
    assert of({}) is None
    assert of({GPU: 0}) is None
