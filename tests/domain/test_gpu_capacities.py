"""What a share of one model is of another."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.gpu_capacities import Capacities, scaled
from kubeshare_py.domain.request import TOO_MUCH
from tests.making import a_claim, a_shape

TABLE = Capacities((("A100-80GB", 320), ("A100", 312), ("H100", 990), ("T4", 65)))


def test_a_share_is_smaller_on_a_larger_card_and_rounded_up() -> None:
    assert TABLE.shares(500, "A100") == (
        ("A100-80GB", 488),
        ("A100", 500),
        ("H100", 158),
        ("T4", 2400),
    )


def test_the_first_name_that_names_a_model_counts() -> None:
    assert TABLE.of("NVIDIA-A100-80GB-PCIe") == 320
    assert TABLE.of("NVIDIA-A100-PCIE-40GB") == 312
    assert TABLE.of("NVIDIA-L40S") is None


@given(st.integers(0, 1000), st.integers(1, 10**9), st.integers(1, 10**9))
def test_shares_are_exact(milli: int, asked: int, there: int) -> None:
    shares = Capacities((("a", asked), ("b", there))).shares(milli, "a")
    assert shares is not None
    (own, other) = dict(shares).values()
    exact = Fraction(milli) * asked / there
    assert own == milli
    assert 0 <= other - exact < 1


def test_a_limit_is_at_most_the_whole_card() -> None:
    assert TABLE.limit(1000, "A100", "NVIDIA-H100") == 316
    assert TABLE.limit(1000, "A100", "Tesla-T4") == 1000
    assert TABLE.limit(700, "A100", "unknown") == 700


def test_a_claim_knows_what_it_is_on_each_model() -> None:
    shape = scaled(a_shape(a_claim(500, share_of="A100")), TABLE)
    assert shape is not None
    assert shape.claim is not None
    models = ("NVIDIA-H100", "NVIDIA-A100-PCIE-40GB", "Tesla-T4", "NVIDIA-L40S")
    assert [shape.claim.milli_on(model) for model in models] == [158, 500, TOO_MUCH, TOO_MUCH]


def test_other_claims_are_left_alone() -> None:
    for shape in (a_shape(), a_shape(a_claim(500))):
        assert scaled(shape, TABLE) is shape
    assert a_claim(500).milli_on("whatever") == 500


def test_a_model_of_which_nothing_is_said_cannot_be_asked_for() -> None:
    assert scaled(a_shape(a_claim(500, share_of="L40S")), TABLE) is None
    assert scaled(a_shape(a_claim(500, share_of="A100")), Capacities()) is None
