import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.dialects import pod_keys, sharedgpu
from kubeshare_py.dialects.card_visibility import CardVisibility, card_visibility
from tests.dialects.parsed import read

numbers = st.one_of(
    st.integers(0, 12).map(str),
    st.decimals(0, 12, places=2, allow_nan=False).map(lambda one: f"{one:f}"),
    st.sampled_from(
        ["", "0", "00.5", "01", "1.0", "1.000", "2.", "10", "020.00", "1e3", "+2", "2 "]
    ),
)


@given(
    limit=st.none() | numbers,
    request=st.none() | numbers,
    memory=st.none() | numbers,
    exclusive=st.sampled_from([None, "", "true", "false"]),
)
def test_it_agrees_with_what_the_labels_mean(
    limit: str | None, request: str | None, memory: str | None, exclusive: str | None
) -> None:
    given_labels = {
        sharedgpu.LIMIT: limit, sharedgpu.REQUEST: request, sharedgpu.MEMORY: memory,
        sharedgpu.EXCLUSIVE: exclusive,
    }  # fmt: skip
    labels = {key: value for key, value in given_labels.items() if value is not None}
    parsed = read(labels)
    found = card_visibility(labels)
    if parsed.request is not None:
        whole = parsed.request.claims[0].claim.exclusive
        assert found is (CardVisibility.WHOLE if whole else CardVisibility.SHARE)
    elif parsed.problem is None:
        assert found is CardVisibility.VOID  # no label, or a limit of 0


@pytest.mark.parametrize("label", [sharedgpu.MODEL, pod_keys.PRIORITY, pod_keys.GROUP])
def test_labels_that_ask_for_no_card_leave_the_pod_without(label: str) -> None:
    assert card_visibility({label: "1"}) is CardVisibility.VOID


@pytest.mark.parametrize("zero", ["0", "0.0", "00.00", "0." + "0" * 60])
def test_a_limit_of_0_asks_for_no_card_whatever_else_is_said(zero: str) -> None:
    for more in ({}, {sharedgpu.MEMORY: "1024"}, {sharedgpu.REQUEST: "2"}):
        assert card_visibility({sharedgpu.LIMIT: zero, **more}) is CardVisibility.VOID


@pytest.mark.parametrize("some", ["0.5", "1", "10", "0.001", "00.10", ""])
def test_a_limit_above_0_asks_for_one(some: str) -> None:
    assert card_visibility({sharedgpu.LIMIT: some}) is CardVisibility.SHARE


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        *(
            ("0", CardVisibility.VOID),
            ("0.99", CardVisibility.SHARE),
            ("1", CardVisibility.SHARE),
            ("01.00", CardVisibility.SHARE),
        ),
        *(
            ("2", CardVisibility.WHOLE),
            ("2.0", CardVisibility.WHOLE),
            ("10", CardVisibility.WHOLE),
            ("019.", CardVisibility.WHOLE),
        ),
    ],
)
def test_above_one_card_it_is_whole_ones(request_: str, found: CardVisibility) -> None:
    assert card_visibility({sharedgpu.LIMIT: request_, sharedgpu.REQUEST: request_}) is found
