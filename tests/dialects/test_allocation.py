import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.dialects.allocation import read_allocation, write_allocation
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.bounds import CARDS_OF_NODE, HELD_BYTES
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.isolation import Isolation, IsolationBackend

FULL: dict[str, Any] = {
    "v": 1,
    "token": "s1-42",
    "dialect": "sharedgpu",
    "claims": [{"uuid": "GPU-1", "milli": 500, "bytes": 8589934592, "model": "Tesla-V100"}],
    "exclusive": True,
    "port": 50051,
    "group": "train",
    "min": 3,
}
ALLOCATION = Allocation(
    token=DecisionToken("s1-42"),
    dialect="sharedgpu",
    cards=(CardCharge(GpuUuid("GPU-1"), 500, 8589934592, "Tesla-V100", exclusive=True),),
    port=50051,
    group="train",
    min_available=3,
)


def cards_of(exclusive: bool) -> st.SearchStrategy[tuple[CardCharge, ...]]:
    return st.lists(
        st.builds(
            CardCharge,
            st.text(min_size=1, max_size=9).map(GpuUuid),
            st.integers(0, 1000),
            st.integers(0, HELD_BYTES.most),
            st.text(max_size=9),
            exclusive=st.just(exclusive),
        ),
        unique_by=lambda card: card.uuid,
        max_size=9,
    ).map(tuple)


allocations = st.builds(
    Allocation,
    token=st.text().map(DecisionToken),
    dialect=st.text(),
    cards=st.booleans().flatmap(cards_of),
    port=st.none() | st.integers(1, 65535),
    group=st.none() | st.text(),
    isolation=st.none()
    | st.builds(Isolation, st.sampled_from(IsolationBackend), st.integers(0, 10**9)),
    min_available=st.integers(0, 10**6),
)


def problem(**changes: Any) -> str:
    found = read_allocation(json.dumps({**FULL, **changes}))
    assert isinstance(found, str)
    return found


def test_the_format_is_fixed() -> None:
    assert json.loads(write_allocation(ALLOCATION)) == FULL
    assert read_allocation(json.dumps(FULL)) == ALLOCATION


def test_what_is_not_there_is_not_written() -> None:
    assert write_allocation(Allocation(token=DecisionToken("t"))) == (
        '{"v":1,"token":"t","claims":[]}'
    )


@given(allocations)
def test_what_is_written_is_read_back(allocation: Allocation) -> None:
    assert read_allocation(write_allocation(allocation)) == allocation


@pytest.mark.parametrize("version", [0, 2, -1, 10**30])
def test_another_version_is_not_guessed_at(version: int) -> None:
    assert problem(v=version) in (
        f"version {version} is not known to this scheduler - at `$.v`",
        "Integer value out of range - at `$.v`",
    )
    assert read_allocation('{"v":2,"something":"else"}') == (
        "version 2 is not known to this scheduler - at `$.v`"
    )


@pytest.mark.parametrize(
    ("claim", "where"),
    [
        ({"milli": 1001}, "$.claims[0].milli"),
        ({"milli": -1}, "$.claims[0].milli"),
        ({"milli": 0.5}, "$.claims[0].milli"),
        ({"milli": "500"}, "$.claims[0].milli"),
        ({"milli": True}, "$.claims[0].milli"),
        ({"bytes": -1}, "$.claims[0].bytes"),
        ({"bytes": HELD_BYTES.most + 1}, "$.claims[0].bytes"),
        ({"bytes": None}, "$.claims[0].bytes"),
        ({"uuid": ""}, "$.claims[0].uuid"),
        ({"uuid": 7}, "$.claims[0].uuid"),
        ({"model": None}, "$.claims[0].model"),
    ],
)
def test_a_wrong_claim_is_located(claim: dict[str, Any], where: str) -> None:
    assert where in problem(claims=[FULL["claims"][0] | claim])


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"token": None}, "$.token"),
        ({"claims": {}}, "$.claims"),
        ({"port": 0}, "$.port"),
        ({"port": 65536}, "$.port"),
        ({"min": -1}, "$.min"),
        ({"exclusive": "yes"}, "$.exclusive"),
        ({"group": 3}, "$.group"),
        ({"claims": FULL["claims"] * 2}, "$.claims"),
        ({"claims": FULL["claims"] * (CARDS_OF_NODE.most + 1)}, "$.claims"),
    ],
)
def test_a_wrong_field_is_located(changes: dict[str, Any], where: str) -> None:
    assert f"`{where}`" in problem(**changes)


@pytest.mark.parametrize("missing", ["v", "token", "claims"])
def test_a_missing_field_is_named(missing: str) -> None:
    found = read_allocation(json.dumps({key: FULL[key] for key in FULL if key != missing}))
    assert isinstance(found, str)
    assert f"`{missing}`" in found


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "null", "7", "[]", "GPU-1", '{"v":1', "{}}", '{"v":1e0}', "\ud800", "\x00"),
        *("[" * 100_000, '{"v":1,"x":' + "[" * 100_000, '{"v":1,"token":"\\ud800","claims":[]}'),
    ],
)
def test_a_broken_annotation_never_raises(text: str) -> None:
    found = read_allocation(text)
    assert isinstance(found, str)
    assert found


@given(
    st.text()
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(sorted(FULL)), inner),
    ).map(json.dumps)
)
def test_nothing_makes_it_raise(text: str) -> None:
    assert isinstance(read_allocation(text), str | Allocation)


def test_words_of_a_newer_scheduler_do_not_hide_the_charge() -> None:
    newer = FULL | {"claims": [FULL["claims"][0] | {"container": "main"}], "queue": "q"}
    assert read_allocation(json.dumps(newer)) == ALLOCATION
