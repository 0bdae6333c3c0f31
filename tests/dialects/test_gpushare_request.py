"""What gpushare's pods ask for."""

import pytest

from kubeshare_py.dialects.gpushare import Gpushare
from kubeshare_py.domain.request import CardRelation, ContainerRef
from tests.dialects.gpushare_pods import (
    COUNT,
    GIB,
    MEM,
    MIB,
    PERCENT,
    PLACEMENT,
    TFLOPS,
    WHOLE,
    asks,
    refusal,
    request,
)


def test_units_of_memory_are_asked_of_one_card() -> None:
    """Limits, which count as requests, are recognised."""
    [claim] = request({MEM: 3}).claims
    assert claim.container == ContainerRef(False, 0)
    assert (claim.claim.count, claim.claim.milli, claim.claim.memory_bytes) == (1, 0, 3 * GIB)
    assert not claim.claim.exclusive
    [other] = request({MEM: 8138}, dialect=Gpushare(unit="MiB")).claims
    assert other.claim.memory_bytes == 8138 * MIB


def test_containers_share_one_card_and_one_that_does_not_ask_gets_none() -> None:
    """Their sum has to fit on one card."""
    found = request({MEM: 1}, {}, {MEM: 2})
    assert found.relation is CardRelation.SAME_CARD
    assert [(str(one.container), one.claim.memory_bytes) for one in found.claims] == [
        ("container-0", GIB),
        ("container-2", 2 * GIB),
    ]


def test_an_amount_with_a_suffix_is_refused_naming_the_unit() -> None:
    """ "10G" is 10000000000 units."""
    assert refusal({MEM: 10_000_000_000}) == (
        'resources.limits[aliyun.com/gpu-mem]="10000000000": is 10000000000 GiB of a card, and none'
        " has more than 1024: the amount is a number of GiB, without a suffix such as G or Mi"
    )
    assert "is 10000000000 MiB" in refusal({MEM: 10_000_000_000}, dialect=Gpushare(unit="MiB"))
    # A manifest of the time when all units were MiB (samples/4.yaml).
    assert "is 16276 GiB of a card" in refusal({MEM: 16276})
    assert request({MEM: 1024}).claims[0].claim.memory_bytes == 1024 * GIB


def test_a_number_of_cards_as_a_limit_changes_nothing() -> None:
    """`aliyun.com/gpu-count` in the limits, beside memory, is as if it were not there."""
    assert request({MEM: 5, COUNT: 1}) == request({MEM: 5})
    assert refusal({COUNT: 1}) == (
        "resources.limits[aliyun.com/gpu-count] says nothing without aliyun.com/gpu-mem"
    )


def test_a_number_of_cards_as_a_label_divides_the_memory() -> None:
    """8 units on 4 cards are 2 of each."""
    [claim] = request({MEM: 8}, labels={COUNT: "4"}).claims
    assert (claim.claim.count, claim.claim.memory_bytes) == (4, 2 * GIB)
    both = request({MEM: 8, PERCENT: 40}, {MEM: 4, PERCENT: 80}, labels={COUNT: "4"})
    assert [(one.claim.memory_bytes, one.claim.milli) for one in both.claims] == [
        (2 * GIB, 100),
        (GIB, 200),
    ]


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "1.5", "129"])
def test_the_label_must_be_a_number_of_cards(text: str) -> None:
    assert refusal({MEM: 8}, labels={COUNT: text}) == (
        f'aliyun.com/gpu-count="{text}": must be a number of cards from 1 to 128'
    )


def test_memory_that_cannot_be_divided_is_refused() -> None:
    """Of every container."""
    assert refusal({MEM: 8}, {MEM: 3}, labels={COUNT: "4"}) == (
        'resources.limits[aliyun.com/gpu-mem]="3": cannot be divided by 4 cards'
    )


def test_a_whole_device_is_idle_and_of_exactly_this_size() -> None:
    """With 15 units on cards of 15, a pod gets one that has no other pod."""
    [claim] = request({MEM: 15}, labels={PLACEMENT: WHOLE}).claims
    assert claim.claim.exclusive
    assert claim.claim.card_bytes == (15 * GIB, 16 * GIB)
    [several] = request({MEM: 30}, labels={PLACEMENT: WHOLE, COUNT: "2"}).claims
    assert (several.claim.count, several.claim.card_bytes) == (2, (15 * GIB, 16 * GIB))


def test_other_placements_are_refused() -> None:
    assert refusal({MEM: 15}, labels={PLACEMENT: "x"}) == (
        'ack.gpushare.placement="x": must be "require-whole-device"'
    )
    assert refusal({MEM: 15}, {MEM: 1}, labels={PLACEMENT: WHOLE}) == (
        "ack.gpushare.placement require-whole-device is for pods of which one container asks"
    )


def test_percentages_are_hundredths_of_the_card() -> None:
    [claim] = request({MEM: 3, PERCENT: 30}).claims
    assert (claim.claim.milli, claim.limit_milli) == (300, 300)


@pytest.mark.parametrize(
    ("containers", "said"),
    [
        ([{MEM: 3, PERCENT: 101}], "is 101 percent of a card, and none has more than 100"),
        ([{PERCENT: 10}], "needs aliyun.com/gpu-mem beside it in container container-0"),
        ([{MEM: 3, PERCENT: 10}, {MEM: 3}], "must be asked for by all containers"),
        ([{MEM: 3, TFLOPS: 10}], "is not understood: ask for aliyun.com/gpu-core.percentage"),
        ([{MEM: 1}] * 33, "is asked for by 33 containers, 32 are allowed"),
    ],
)
def test_what_makes_no_sense_is_refused(containers: list[dict[str, int]], said: str) -> None:
    assert said in refusal(*containers)


def test_init_containers_are_not_counted() -> None:
    """The original does not count them: it can never bind a pod that asks by them alone."""
    assert asks({MEM: 2}, init={MEM: 5}) == asks({MEM: 2})
    assert refusal({}, init={MEM: 5}) == (
        "resources.limits[aliyun.com/gpu-mem] is only asked for by init containers, which get no"
        " GPU: ask in a container"
    )


def test_a_pod_without_amounts_asks_for_nothing() -> None:
    assert asks({MEM: 0}) is None
    assert asks({}, labels={COUNT: "2"}) is None


def test_vendors_rename_the_resource() -> None:
    renamed = Gpushare(resource="cerit.io/gpu-mem")
    [claim] = request({"cerit.io/gpu-mem": 3}, dialect=renamed).claims
    assert claim.claim.memory_bytes == 3 * GIB
    assert asks({MEM: 3}, dialect=renamed) is None
    [several] = request(
        {"cerit.io/gpu-mem": 4}, labels={"cerit.io/gpu-count": "2"}, dialect=renamed
    ).claims
    assert several.claim.count == 2
