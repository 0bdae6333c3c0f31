import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.dialects.allocation import read_allocation, whole_cards_of
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.quantity import CARD_NAME, CARDS_OF_NODE
from tests.dialects.test_allocation import BY_CONTAINER, CARD, FULL


def of(shape: dict[str, Any] = FULL, **changes: Any) -> Allocation | None:
    return whole_cards_of(json.dumps({**shape, "v": 3, **changes}))


def wholly(*uuids: str) -> tuple[CardCharge, ...]:
    return tuple(CardCharge(GpuUuid(one), 1000, 0, exclusive=True) for one in uuids)


def test_every_card_that_is_named_as_a_known_version_names_it_is_held_wholly() -> None:
    found = of()
    assert found == Allocation(
        token=DecisionToken("s1-42"),
        cards=wholly("GPU-1"),
        port=50051,
        group="train",
        min_available=3,
    )
    of_containers = of(BY_CONTAINER)
    assert of_containers is not None
    assert of_containers.cards == wholly("GPU-1", "GPU-2")
    assert of_containers.claims == ()


def test_amounts_of_a_newer_version_may_be_anything() -> None:
    card = {"uuid": "GPU-1", "milli": "half", "bytes": [8], "parts": {"a": 1}}
    found = of(claims=[card, {"cards": [card, CARD | {"uuid": "GPU-0"}]}], exclusive=3, min=-1)
    assert found is not None
    assert found.cards == wholly("GPU-1", "GPU-0")
    assert found.min_available == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"claims": []},
        {"claims": {}},
        {"claims": None},
        {"claims": [CARD, {}]},
        {"claims": [CARD, {"cards": []}]},
        {"claims": [CARD, {"uuids": ["GPU-2"]}]},
        {"claims": [CARD, "GPU-2"]},
        {"claims": [CARD | {"uuid": ""}]},
        {"claims": [CARD | {"uuid": "x" * (CARD_NAME.most + 1)}]},
        {"claims": [CARD | {"uuid": str(one)} for one in range(CARDS_OF_NODE.most + 1)]},
        {"v": "3"},
    ],
)
def test_cards_that_are_not_all_named_are_unknown(changes: dict[str, Any]) -> None:
    assert of(**changes) is None


@pytest.mark.parametrize("shape", [FULL, BY_CONTAINER])
def test_a_known_version_is_never_guessed_at(shape: dict[str, Any]) -> None:
    assert whole_cards_of(json.dumps(shape)) is None


@pytest.mark.parametrize("port", [None, 0, 65536, True, "50051", [1]])
def test_a_port_counts_only_if_it_is_one(port: object) -> None:
    found = of(port=port)
    assert found is not None
    assert found.port is None


@given(
    st.text()
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["v", "claims", "uuid", "cards", "port", "min"]), inner
            )
        ),
    ).map(json.dumps)
    | st.integers(1, 100_000).map(lambda depth: '{"v":3,"claims":' + "[" * depth)
)
def test_nothing_makes_it_raise(text: str) -> None:
    found = whole_cards_of(text)
    assert found is None or (found.cards and isinstance(read_allocation(text), str))
