"""Which models a part of a name names, and what pods take."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.gpu_models import PreferredModels, name_part, names_model

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
