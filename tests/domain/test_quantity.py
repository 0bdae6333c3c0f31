import re
import time
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.quantity import MAX, BadQuantity, amount, as_decimal

FACTORS: dict[str, int | Fraction] = {
    **{"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18},
    **{"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60},
    **{"m": Fraction(1, 10**3), "u": Fraction(1, 10**6), "n": Fraction(1, 10**9)},
    **{"e3": 10**3, "E-2": Fraction(1, 100), "e+1": 10},
}


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        *(("500m", 500), ("1.5", 1500), ("2", 2000), ("0", 0), ("1e3", 1_000_000), ("0.1", 100)),
        *(("1n", 1), ("1u", 1), ("1001u", 2), ("1k", 1_000_000), ("+1", 1000), (".5", 500)),
    ],
)
def test_cpu_is_in_thousandths_rounded_up(text: str, milli: int) -> None:
    assert amount("cpu", text) == milli


@pytest.mark.parametrize(
    ("text", "units"),
    [
        *(("1Gi", 2**30), ("1e3", 1000), ("100k", 100_000), ("1.5Gi", 3 * 2**29), ("5.", 5)),
        *(("1m", 1), ("1500m", 2), ("0.5", 1), ("1E3", 1000), ("1Ki", 1024), ("0Ei", 0)),
    ],
)
def test_other_resources_are_in_base_units_rounded_up(text: str, units: int) -> None:
    assert amount("memory", text) == units


@pytest.mark.parametrize("text", ["1E", "1Ei", "1e999", "9" * 400, "9007199254740993"])
def test_more_than_anything_has_counts_as_the_most(text: str) -> None:
    assert amount("memory", text) == MAX


@pytest.mark.parametrize(
    "text",
    [
        *("", "m", "Gi", "-1", "1 Gi", "1gi", "1K", "1.2.3", "0x10", "1e", "1e1.5", "1_0", "NaN"),
        *("inf", "1Gib", "\u0661", "1e9999", "9" * 5000, "1/2", "1\n"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BadQuantity, match="is not a quantity"):
        amount("cpu", text)


@pytest.mark.parametrize(("number", "milli"), [(2, 2000), (0.5, 500)])
def test_numbers_of_hand_written_manifests_are_quantities(number: float, milli: int) -> None:
    assert amount("cpu", number) == milli


@given(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]),
    st.integers(0, 10**9),
    st.integers(0, 9),
    st.sampled_from(sorted(FACTORS)),
)
def test_every_amount_is_the_exact_one_rounded_up(
    resource: str, digits: int, decimals: int, suffix: str
) -> None:
    text = f"{digits:010d}"
    text = f"{text[: 10 - decimals]}.{text[10 - decimals :]}"
    exact = Fraction(digits, 10**decimals) * FACTORS[suffix] * (1000 if resource == "cpu" else 1)
    found = amount(resource, text + suffix)
    assert found == MAX if exact > MAX else 0 <= found - exact < 1


@given(milli=st.integers(0, 10**6))
def test_thousandths_are_written_exactly_and_short(milli: int) -> None:
    text = as_decimal(milli)
    assert re.fullmatch(r"[0-9]+[.][0-9]{1,3}", text)
    assert Decimal(text) * 1000 == milli
    assert text.endswith(".0") or not text.endswith("0")


def test_a_long_text_that_is_none_takes_time_in_proportion() -> None:
    began = time.process_time()
    with pytest.raises(BadQuantity):
        amount("cpu", "1" * 200_000 + "x")
    # Milliseconds; in time that grows with the square it would be minutes.
    assert time.process_time() - began < 5
