"""What pods hold that HAMi's scheduler bound, or its ancestor's."""

from collections.abc import Mapping
from typing import Any

import pytest

from kubeshare_py.dialects.dialect import PodAsk, UnreadableHolding, read_back_by
from kubeshare_py.domain.allocation import Allocation
from tests.dialects.hami.pods import GPU, HAMI, MEM, MIB, containers

OLD, NEW = "hami.sh/vgpu-devices-allocated", "hami.io/vgpu-devices-allocated"
Held = dict[str, list[tuple[str, int, int]]]


def held(
    text: str, *apps: Mapping[str, int], key: str = NEW, **more: Any
) -> Allocation | UnreadableHolding | str | None:
    return read_back_by(HAMI, PodAsk({}, {key: text}, containers(*apps, **more)))


def by_container(found: Allocation | UnreadableHolding | str | None) -> Held:
    """MiB and thousandths of each card, by container."""
    assert isinstance(found, Allocation), found
    return {
        str(one.container): [(c.uuid, c.memory_bytes // MIB, c.milli) for c in one.cards]
        for one in found.claims
    }


ASKS = {GPU: 1, MEM: 1}
A, B = [("GPU-a", 3000, 500)], [("GPU-b", 4000, 600)]
TEXT_A, TEXT_B = "GPU-a,NVIDIA,3000,50:", "GPU-b,NVIDIA,4000,60:"


@pytest.mark.parametrize(
    ("text", "apps", "inits", "wanted"),
    [
        (f"{TEXT_A};", [ASKS], [], {"container-0": A}),
        (f"{TEXT_A};{TEXT_B};", [ASKS, ASKS], [], {"container-0": A, "container-1": B}),
        # Init containers come first; in one release they had no place.
        (f";{TEXT_A};{TEXT_B};", [ASKS], [{}, ASKS], {"init-1": A, "container-0": B}),
        (f"{TEXT_B};", [ASKS], [{}], {"container-0": B}),
        # Leading containers without cards have no place (#2899).
        (f"{TEXT_B};", [{}, {}, ASKS], [], {"container-2": B}),
        # The ancestor's: one end for all.
        (f"{TEXT_A}{TEXT_B};", [ASKS, ASKS], [], {"container-0": A, "container-1": B}),
        (f"{TEXT_A}{TEXT_B};", [{GPU: 2}], [], {"container-0": A + B}),
    ],
)
def test_each_release_is_understood(
    text: str, apps: list[dict[str, int]], inits: list[dict[str, int]], wanted: Held
) -> None:
    """What pods hold is read from their annotations again when a scheduler starts."""
    for key in (OLD, NEW):
        assert by_container(held(text, *apps, inits=tuple(inits), key=key)) == wanted


@pytest.mark.parametrize("apps", [[], [ASKS], [{GPU: 2}], [ASKS, ASKS, ASKS]])
def test_cards_whose_container_cannot_be_told_are_the_pods(apps: list[dict[str, int]]) -> None:
    found = held(f"{TEXT_A};{TEXT_B};", *apps)
    assert isinstance(found, Allocation)
    assert found.claims == ()
    assert [card.uuid for card in found.cards] == ["GPU-a", "GPU-b"]


def test_a_card_of_two_containers_is_charged_once_with_both_parts() -> None:
    """Memory and cores of containers that run at the same time add up on their card."""
    found = held("GPU-a,NVIDIA,100,10:;GPU-a,NVIDIA,200,20:;", ASKS, ASKS)
    assert isinstance(found, Allocation)
    [card] = found.cards
    assert (card.memory_bytes // MIB, card.milli) == (300, 300)


@pytest.mark.parametrize(
    ("inits", "apps", "wanted"),
    [
        ([], [(100, 10), (200, 20)], (300, 30)),
        ([(100, 10), (200, 30)], [], (200, 30)),
        ([(500, 50)], [(100, 10)], (500, 50)),
        ([(100, 1)], [(200, 1), (300, 1)], (500, 2)),
        ([(400, 5), (100, 50)], [(200, 20)], (400, 50)),
    ],
)
def test_init_containers_hold_no_more_than_they_need_beyond_the_others(
    inits: list[tuple[int, int]], apps: list[tuple[int, int]], wanted: tuple[int, int]
) -> None:
    """Of each card the larger counts: of the largest init container and of all others together."""
    text = "".join(f"GPU-a,NVIDIA,{mib},{cores}:;" for mib, cores in (*inits, *apps))
    found = held(text, *([ASKS] * len(apps)), inits=tuple([ASKS] * len(inits)))
    assert isinstance(found, Allocation)
    [card] = found.cards
    assert (card.memory_bytes // MIB, card.milli // 10) == wanted


def test_a_sidecar_runs_with_the_others() -> None:
    """A sidecar never ends by itself, so its part adds to those of the containers after it."""
    text = "GPU-a,NVIDIA,4000,0:;GPU-a,NVIDIA,4000,0:;"
    found = held(text, ASKS, inits=(ASKS,), sidecars=1)
    assert isinstance(found, Allocation)
    assert [card.memory_bytes // MIB for card in found.cards] == [8000]


def test_all_cores_are_a_card_for_the_pod_alone() -> None:
    found = held("GPU-a,NVIDIA,100,100:;", ASKS)
    assert isinstance(found, Allocation)
    assert found.exclusive


def test_a_part_of_a_divided_card_counts_on_the_card() -> None:
    """Older releases of HAMi put the place of a MIG instance behind the card's uuid."""
    found = held("GPU-a[1-0],NVIDIA,10240,28:;", ASKS)
    assert by_container(found) == {"container-0": [("GPU-a", 10240, 280)]}


@pytest.mark.parametrize("text", ["", ";", ";;", ":;", "MLU-1,MLU,100,10:;"])
def test_an_annotation_without_such_cards_says_nothing(text: str) -> None:
    assert held(text, ASKS) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("uuid,NVIDIA,100:;", "'uuid,NVIDIA,100' has 3 fields, not 4"),
        ("u,NVIDIA,x,1:;", "'u,NVIDIA,x,1': memory is no number of 32 bits"),
        ("u,NVIDIA,-1,1:;", "'u,NVIDIA,-1,1:' has an amount that no GPU has"),
        ("u,NVIDIA,1,99999:;", "'u,NVIDIA,1,99999:' has an amount that no GPU has"),
        (",NVIDIA,1,1:;", "',NVIDIA,1,1:' names no GPU"),
        ("garbage", "'garbage' has no records"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(text: str, problem: str) -> None:
    assert held(text, ASKS) == UnreadableHolding(f"{NEW}: {problem}")


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        ("GPU-a,NVIDIA,100:;GPU-a,NVIDIA,1,1:GPU-b:;", ("GPU-a", "GPU-b")),
        ("GPU-a[1-0],NVIDIA,x,1:;", ("GPU-a",)),
        ("GPU-a,NVIDIA,-1,1:;", ("GPU-a",)),
        # One record that names no card makes all of them unknown.
        ("GPU-a,NVIDIA,100:;all,NVIDIA,1,1:;", ()),
        ("GPU-a NVIDIA,100:;", ()),
    ],
)
def test_an_unreadable_text_may_name_its_cards(text: str, cards: tuple[str, ...]) -> None:
    found = held(text, ASKS)
    assert isinstance(found, UnreadableHolding)
    assert found.cards == cards


def test_a_sum_that_no_card_has_is_a_sentence() -> None:
    most = 2**28
    text = f"GPU-u,NVIDIA,{most},1:;GPU-u,NVIDIA,{most},1:;"
    found = held(text, ASKS, ASKS)
    assert isinstance(found, UnreadableHolding)
    assert "is not within" in found.problem
    assert found.cards == ("GPU-u",)
