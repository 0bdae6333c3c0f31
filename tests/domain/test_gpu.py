"""Cards as values: names of models, and rules that scale cards."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.gpu import (
    CardScaling,
    Gpu,
    PreferredModels,
    name_part,
    names_model,
    scaled,
    thousandths,
)
from kubeshare_py.domain.identity import GpuUuid, NodeName
from tests.making import GIB, a_gpu

# --- Which models a part of a name names, and what pods take --------------------------------------


A100, L40S = "NVIDIA-A100-SXM4-40GB", "NVIDIA-L40S"


@pytest.mark.parametrize(
    ("part", "model", "named"),
    [
        *(("A100", A100, True), ("a100", A100, True), ("nvidia", A100, True), ("40GB", A100, True)),
        *((A100, A100, True), ("A100-SXM4", A100, True), ("A100-40GB", A100, False)),
        *(("A10", A100, False), ("100", A100, False), ("L40", L40S, False), ("L40S", L40S, True)),
        *(("L40*", L40S, True), ("A100*40GB", A100, True), ("*100", A100, True), ("*", A100, True)),
        *(("H200", "NVIDIA-GH200-480GB", False), ("*H200", "NVIDIA-GH200-480GB", True)),
        *(("GTX-1080", "NVIDIA GeForce GTX 1080", True), ("MIG", f"{A100}-MIG-1g.5gb", True)),
        *(("A--B", "A--B", True), ("A-B", "A  B", True), ("A-B", "-A - B ", True)),
        *(("1g.5gb", f"{A100}-MIG-1g.5gb", True), ("1g-5gb", f"{A100}-MIG-1g.5gb", False)),
    ],
)
def test_a_part_names_models_by_whole_words(part: str, model: str, named: bool) -> None:
    assert names_model(part, model) is named


@pytest.mark.parametrize(
    ("text", "part"),
    [
        *((" A100 ", "A100"), ("GTX 1080 Ti", "GTX-1080-Ti"), ("-A100--", "A100"), ("**", "*")),
        *(
            ("", None),
            (" - ", None),
            ("A[1]", None),
            ("A?", None),
            ("a,b", None),
            ("x" * 253, "x" * 253),
            ("x" * 254, None),
        ),
        *(("A=B", None), ("\u0661", None), ("A\n", None), ("A\t1", None)),
    ],
)
def test_parts_are_compared_without_spaces(text: str, part: str | None) -> None:
    assert name_part(text) == part


@given(st.text("aA1-* ", max_size=12), st.text("aA1- ", max_size=20))
def test_a_star_is_any_letters(text: str, model: str) -> None:
    part = name_part(text)
    if part is None:
        return
    letters = "".join(".*" if one == "*" else re.escape(one) for one in part.lower())
    words = f"-{re.sub('[ -]+', '-', model).strip('-').lower()}-"
    assert names_model(part, model) is (
        part == model or re.search(f"-{letters}-", words) is not None
    )


def test_pieces_are_found_one_behind_the_other() -> None:
    assert not names_model("*a" * 31, "a" * 30 + "b" * 200_000)
    assert names_model("*a" * 31, "b" * 200_000 + "a" * 31)
    assert not names_model("aa*aa", "aaa")


def test_the_first_tier_that_names_a_model_counts() -> None:
    wish = PreferredModels(tiers=(("A100-SXM4",), ("A100", "H100"), ("*",)))
    found = [wish.tier(model) for model in (A100, "NVIDIA-A100-PCIE-40GB", "NVIDIA-H100", L40S)]
    assert found == [0, 1, 1, 2]


def test_what_is_denied_is_in_no_tier() -> None:
    wish = PreferredModels(tiers=(("A100",), ("*",)), denied=("MIG", "T4"))
    assert wish.tier(f"{A100}-MIG-1g.5gb") is None
    assert wish.denies("Tesla-T4")
    assert (wish.tier(A100), wish.tier(L40S)) == (0, 1)


def test_without_tiers_all_but_the_denied_will_do() -> None:
    wish = PreferredModels(denied=("T4",))
    assert (wish.tier(A100), wish.tier("Tesla-T4")) == (0, None)


def test_a_wish_is_told_in_words() -> None:
    assert str(PreferredModels(tiers=(("H100", "H200"), ("*",)))) == "H100, H200 > *"
    assert str(PreferredModels(denied=("T4", "MIG"))) == "any model but not T4, MIG"


# --- Rules that scale cards: which card they are about, and what it has then ----------------------


def capacities(gpu: Gpu) -> tuple[int, int, int]:
    return gpu.max_tenants, gpu.capacity_milli, gpu.capacity_bytes


def one(rules: tuple[CardScaling, ...], node: str = "t4-1", **fields: object) -> Gpu:
    (found,) = scaled(rules, NodeName(node), (a_gpu("a", **fields),))
    return found


def test_without_a_rule_a_card_gives_what_it_has() -> None:
    cards = (a_gpu("a", memory_bytes=GIB),)
    assert scaled((), NodeName("n1"), cards) is cards
    assert capacities(cards[0]) == (0, 1000, GIB)


def test_the_first_rule_that_covers_a_card_counts() -> None:
    rules = (
        CardScaling(nodes=("t4-*", "x"), models=("T4",), cores_scaling=2000),
        CardScaling(models=("A100",), memory_scaling=1500, max_tenants=3),
        CardScaling(cores_scaling=500),
    )
    assert one(rules, model="Tesla-T4").capacity_milli == 2000
    assert one(rules, "other", model="Tesla-T4").capacity_milli == 500
    assert capacities(one(rules, "other", memory_bytes=3)) == (3, 1000, 4)


def test_what_the_source_says_of_a_card_counts_and_of_two_limits_the_smaller() -> None:
    rules = (CardScaling(memory_scaling=1500, cores_scaling=2000, max_tenants=4),)
    own = one(rules, memory_bytes=100, memory_scaling=2000, cores_scaling=3000, max_tenants=9)
    assert capacities(own) == (4, 3000, 200)
    assert one(rules, max_tenants=2).max_tenants == 2


def test_a_card_keeps_its_memory_where_none_would_be_left() -> None:
    assert one((CardScaling(memory_scaling=1),), memory_bytes=999).capacity_bytes == 999
    assert one((CardScaling(memory_scaling=2000),), memory_bytes=2**48).capacity_bytes == 2**48


@pytest.mark.parametrize(("uuid", "parent"), [("a", GpuUuid("GPU-a")), ("MIG-a", None)])
def test_mig_instances_are_not_scaled_but_their_pods_are_limited(
    uuid: str, parent: GpuUuid | None
) -> None:
    rules = (CardScaling(memory_scaling=1500, cores_scaling=2000, max_tenants=4),)
    [found] = scaled(rules, NodeName("n"), (a_gpu(uuid, memory_bytes=GIB, parent=parent),))
    assert capacities(found) == (4, 1000, GIB)


@pytest.mark.parametrize(("factor", "found"), [(1.0, 1000), (1.5, 1500), (0.001, 1), (2.675, 2675)])
def test_factors_are_read_exactly(factor: float, found: int) -> None:
    assert thousandths(factor) == found


@pytest.mark.parametrize(
    ("factor", "rule"),
    [
        (1.0001, "1.0001 has more than three decimals"),
        (0.0, "0.0 is not within 0.001…100"),
        (100.5, "100.5 is not within 0.001…100"),
        (math.inf, "inf is not a number"),
        (math.nan, "nan is not a number"),
    ],
)
def test_other_factors_are_refused(factor: float, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        thousandths(factor)


def test_the_scaled_memory_of_a_card_is_within_the_bound_of_memory() -> None:
    with pytest.raises(ValueError, match="scaled memory"):
        a_gpu("a", memory_bytes=2**48, memory_scaling=1001)
    with pytest.raises(ValueError, match="scaled memory"):
        a_gpu("a", memory_bytes=1, memory_scaling=999)
