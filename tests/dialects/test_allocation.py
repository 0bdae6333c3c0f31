import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.dialects.allocation import read_allocation, write_allocation
from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.card_reading import Isolation, IsolationBackend
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.quantity import CARDS_OF_NODE, HELD_BYTES, POD_CLAIMS
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.domain.values import replace

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
CARD: dict[str, Any] = {"uuid": "GPU-1", "milli": 500, "bytes": 2**33, "model": "Tesla-V100"}
#: Two containers share GPU-1, and the second has GPU-2 for itself.
BY_CONTAINER: dict[str, Any] = {
    "v": 2,
    "token": "s1-43",
    "dialect": "other",
    "claims": [
        {"container": "init-1", "limit_milli": 500, "cards": [CARD]},
        {
            "container": "container-0",
            "limit_milli": 0,
            "cards": [
                CARD | {"milli": 200, "bytes": 7, "cell": "n/1"},
                {"uuid": "GPU-2", "milli": 1000, "bytes": 9, "exclusive": True},
            ],
        },
    ],
    "port": 50051,
    "group": "train",
    "min": 3,
    "owners": ["workers", ""],
    "isolation": "mps",
    "limit": 500,
}
ONE, TWO = GpuUuid("GPU-1"), GpuUuid("GPU-2")
OF_CONTAINERS = Allocation(
    token=DecisionToken("s1-43"),
    dialect="other",
    cards=(
        CardCharge(ONE, 700, 2**33 + 7, "Tesla-V100"),
        CardCharge(TWO, 1000, 9, exclusive=True),
    ),
    claims=(
        ClaimCharge(
            container=ContainerRef(True, 1),
            cards=(CardCharge(ONE, 500, 2**33, "Tesla-V100"),),
            limit_milli=500,
        ),
        ClaimCharge(
            container=ContainerRef(False, 0),
            cards=(
                CardCharge(ONE, 200, 7, "Tesla-V100", "n/1"),
                CardCharge(TWO, 1000, 9, exclusive=True),
            ),
        ),
    ),
    port=50051,
    group="train",
    min_available=3,
    group_owners=("workers", ""),
    isolation=Isolation(IsolationBackend.MPS, 500),
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


parts = st.lists(
    st.builds(
        ClaimCharge,
        container=st.builds(ContainerRef, st.booleans(), st.integers(0, 12)),
        cards=st.lists(
            st.builds(
                CardCharge,
                st.sampled_from([ONE, TWO, GpuUuid("GPU-3")]),
                st.integers(0, 1000),
                st.integers(0, HELD_BYTES.most // 9),
                st.text(max_size=3),
                st.text(max_size=3),
                exclusive=st.booleans(),
            ),
            unique_by=lambda card: card.uuid,
            min_size=1,
            max_size=3,
        ).map(tuple),
        limit_milli=st.integers(0, 10**6),
    ),
    max_size=9,
).map(tuple)


def with_parts(pod_wide: Allocation, claims: tuple[ClaimCharge, ...]) -> Allocation:
    if not claims:
        return pod_wide
    cards = summed(card for claim in claims for card in claim.cards)
    return replace(pod_wide, cards=cards, claims=claims)


pod_wide_allocations = st.builds(
    Allocation,
    token=st.text().map(DecisionToken),
    dialect=st.text(),
    cards=st.booleans().flatmap(cards_of),
    port=st.none() | st.integers(1, 65535),
    group=st.none() | st.text(),
    isolation=st.none()
    | st.builds(Isolation, st.sampled_from(IsolationBackend), st.integers(0, 10**9)),
    min_available=st.integers(0, 10**6),
    group_owners=st.lists(st.text(max_size=40), max_size=16).map(tuple),
)
allocations = st.builds(with_parts, pod_wide_allocations, parts)


def problem(of: dict[str, Any] = FULL, **changes: Any) -> str:
    found = read_allocation(json.dumps({**of, **changes}))
    assert isinstance(found, str)
    return found


def test_the_format_is_fixed() -> None:
    assert json.loads(write_allocation(ALLOCATION)) == FULL
    assert read_allocation(json.dumps(FULL)) == ALLOCATION


def test_a_pod_whose_containers_differ_is_written_container_by_container() -> None:
    assert json.loads(write_allocation(OF_CONTAINERS)) == BY_CONTAINER
    assert read_allocation(json.dumps(BY_CONTAINER)) == OF_CONTAINERS


def test_a_pod_wide_claim_is_written_byte_for_byte_as_before() -> None:
    card = CardCharge(ONE, 500, 2**33, "Tesla-V100", "n/1")
    isolation = Isolation(IsolationBackend.MPS, 1000)
    one = Allocation(token=DecisionToken("t"), cards=(card,), port=50051, isolation=isolation)
    assert write_allocation(one) == (
        '{"v":1,"token":"t","claims":[{"uuid":"GPU-1","milli":500,"bytes":8589934592,'
        '"model":"Tesla-V100","cell":"n/1"}],"port":50051,"isolation":"mps","limit":1000}'
    )


def test_a_claim_of_a_container_always_says_its_limit() -> None:
    card = CardCharge(ONE, 500, 1)
    claim = ClaimCharge(container=ContainerRef(False, 0), cards=(card,))
    one = Allocation(token=DecisionToken("t"), cards=(card,), claims=(claim,))
    assert write_allocation(one) == (
        '{"v":2,"token":"t","claims":[{"container":"container-0","limit_milli":0,'
        '"cards":[{"uuid":"GPU-1","milli":500,"bytes":1}]}]}'
    )


def test_what_is_not_there_is_not_written() -> None:
    assert write_allocation(Allocation(token=DecisionToken("t"))) == (
        '{"v":1,"token":"t","claims":[]}'
    )


@pytest.mark.slow
@given(allocations)
def test_what_is_written_is_read_back(allocation: Allocation) -> None:
    assert read_allocation(write_allocation(allocation)) == allocation


@pytest.mark.parametrize("claims", [BY_CONTAINER["claims"], FULL["claims"], [], [{}], None])
@pytest.mark.parametrize("last", ["", ',"v":2', ',"v":1', ',"v":3', ',"v":null', ',"port":0'])
def test_the_second_version_is_read_at_once_as_otherwise(claims: object, last: str) -> None:
    """A key may be there twice, of which the last one counts."""
    text = f'{{"v":2,"token":"t","claims":{json.dumps(claims)}{last}}}'
    assert read_allocation(text) == read_allocation(" " * 8 + text)


@pytest.mark.parametrize("version", [0, 3, -1, 10**30])
def test_another_version_is_not_guessed_at(version: int) -> None:
    assert problem(v=version) in (
        f"version {version} is not known to this scheduler - at `$.v`",
        "Integer value out of range - at `$.v`",
    )
    assert read_allocation('{"v":3,"something":"else"}') == (
        "version 3 is not known to this scheduler - at `$.v`"
    )


@pytest.mark.parametrize("shape", [FULL, BY_CONTAINER])
def test_a_version_is_not_read_as_the_other_one(shape: dict[str, Any]) -> None:
    assert "`$.claims[0]`" in problem(shape, v=3 - shape["v"])


@pytest.mark.parametrize(
    ("claim", "where"),
    [
        ({"milli": 100_001}, "$.claims[0].milli"),
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


CLAIM = BY_CONTAINER["claims"][0]


@pytest.mark.parametrize(
    ("claim", "where"),
    [
        ({"container": "container-x"}, "$.claims[0].container"),
        ({"container": "container-01"}, "$.claims[0].container"),
        ({"container": "init-1\n"}, "$.claims[0].container"),
        ({"container": "side-1"}, "$.claims[0].container"),
        ({"container": "init-10000"}, "$.claims[0].container"),
        ({"limit_milli": -1}, "$.claims[0].limit_milli"),
        ({"limit_milli": None}, "$.claims[0].limit_milli"),
        ({"cards": []}, "$.claims[0].cards"),
        ({"cards": {}}, "$.claims[0].cards"),
        ({"cards": [CARD | {"milli": 100_001}]}, "$.claims[0].cards[0].milli"),
        ({"cards": [CARD | {"exclusive": 1}]}, "$.claims[0].cards[0].exclusive"),
        ({"cards": [CARD | {"uuid": ""}]}, "$.claims[0].cards[0].uuid"),
        ({"cards": [CARD] * 2}, "$.claims"),
    ],
)
def test_a_wrong_claim_of_a_container_is_located(claim: dict[str, Any], where: str) -> None:
    assert f"`{where}`" in problem(BY_CONTAINER, claims=[CLAIM | claim])


def test_all_parts_of_a_pod_are_within_the_bounds_of_one() -> None:
    full = CLAIM | {"cards": [CARD | {"bytes": HELD_BYTES.most}]}
    assert problem(BY_CONTAINER, claims=[full, CLAIM]) == (
        "holds more of one card than any card has - at `$.claims`"
    )
    some = [
        CLAIM | {"cards": [CARD | {"uuid": f"GPU-{one}-{n}"} for n in range(65)]} for one in "ab"
    ]
    assert problem(BY_CONTAINER, claims=some) == "more than 128 cards - at `$.claims`"
    assert "`$.claims`" in problem(BY_CONTAINER, claims=[CLAIM] * (POD_CLAIMS.most + 1))


def test_two_claims_of_one_container_are_told_together() -> None:
    text = json.dumps({**BY_CONTAINER, "claims": [CLAIM, CLAIM | {"limit_milli": 700}]})
    found = read_allocation(text)
    assert isinstance(found, Allocation)
    assert found.cards == (CardCharge(ONE, 1000, 2**34, "Tesla-V100"),)
    (part,) = found.containers
    assert part.container == ContainerRef(True, 1)
    assert (part.cards, part.limit_milli) == (found.cards, 700)


@pytest.mark.parametrize("missing", ["container", "limit_milli", "cards"])
def test_a_missing_field_of_a_claim_is_named(missing: str) -> None:
    claim = {key: CLAIM[key] for key in CLAIM if key != missing}
    assert f"`{missing}`" in problem(BY_CONTAINER, claims=[claim])


@pytest.mark.parametrize(
    ("shape", "missing"),
    [
        *((FULL, missing) for missing in ("v", "token", "claims")),
        *((BY_CONTAINER, missing) for missing in ("token", "claims")),
    ],
)
def test_a_missing_field_is_named(shape: dict[str, Any], missing: str) -> None:
    found = read_allocation(json.dumps({key: shape[key] for key in shape if key != missing}))
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
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(sorted({*FULL, *CLAIM, *CARD})), inner)
        ),
    ).map(json.dumps)
)
def test_nothing_makes_it_raise(text: str) -> None:
    assert isinstance(read_allocation(text), str | Allocation)


def test_words_of_a_newer_scheduler_do_not_hide_the_charge() -> None:
    newer = FULL | {"claims": [FULL["claims"][0] | {"container": "main"}], "queue": "q"}
    assert read_allocation(json.dumps(newer)) == ALLOCATION
    claims = [claim | {"name": "main"} for claim in BY_CONTAINER["claims"]]
    assert read_allocation(json.dumps(BY_CONTAINER | {"claims": claims, "q": 1})) == OF_CONTAINERS
