"""The Lease as it is read, whatever anybody wrote on it."""

import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.lease import LONGEST_LEASE_S, TERMS, LeaseClaim
from kubeshare_py.manifests.lease import lease_body, read_lease

NOW = datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC)
CLAIM = LeaseClaim(version="7", holder="me", transitions=4, duration_s=15, acquires=True)
LAST = 2**31 - 1
FIELDS = ("holderIdentity", "leaseDurationSeconds", "leaseTransitions", "acquireTime", "renewTime")


def lease(spec: object) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "7"}, "spec": spec}


@pytest.mark.parametrize("spec", [None, {}])
def test_a_lease_that_nobody_held_is_free(spec: object) -> None:
    found = read_lease(lease(spec))
    assert (found.holder, found.transitions, found.problems) == ("", 0, ())
    assert read_lease({"metadata": {"resourceVersion": "7"}}) == found


@pytest.mark.parametrize(
    ("field", "value", "taken"),
    [
        ("leaseTransitions", LAST, LAST),
        ("leaseTransitions", -1, 0),
        ("leaseTransitions", TERMS, 0),
        ("leaseTransitions", "5", 0),
        ("leaseTransitions", True, 0),
        ("leaseTransitions", 1.5, 0),
        ("leaseTransitions", {}, 0),
        ("leaseDurationSeconds", 15, 15),
        ("leaseDurationSeconds", LAST, LONGEST_LEASE_S),
        ("leaseDurationSeconds", -15, LONGEST_LEASE_S),
        ("leaseDurationSeconds", "15", LONGEST_LEASE_S),
        ("holderIdentity", 5, "5"),
        ("holderIdentity", ["a"], '["a"]'),
        ("renewTime", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
        ("renewTime", 5, "5"),
    ],
)
def test_what_cannot_be_is_named_and_something_is_taken_instead(
    field: str, value: object, taken: object
) -> None:
    found = read_lease(lease({"holderIdentity": "other", field: value}))
    read = {
        "leaseTransitions": found.transitions,
        "leaseDurationSeconds": found.duration_s,
        "holderIdentity": found.holder,
        "renewTime": found.renewed,
    }
    assert read[field] == taken
    if value == taken and type(value) is type(taken):
        assert found.problems == ()
    else:
        [problem] = found.problems
        assert problem.startswith(f"spec.{field}: must be a ")
        assert msgspec.json.encode(value).decode() in problem


def test_a_spec_that_is_none_is_named_and_written_anew() -> None:
    found = read_lease(lease("nonsense"))
    assert found.problems == ('spec: must be an object, not "nonsense"',)
    assert lease_body(lease("nonsense"), "l", CLAIM, NOW)["spec"]["holderIdentity"] == "me"


def test_what_is_no_object_of_an_api_server_is_refused() -> None:
    for found in ({}, {"metadata": None}, {"metadata": {"resourceVersion": 7}}):
        with pytest.raises(msgspec.ValidationError):
            read_lease(found)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(spec=JSON | st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_any_spec_is_read_and_a_claim_written_over_it_is_read_without_problems(
    spec: object,
) -> None:
    found = read_lease(lease(spec))
    assert 0 <= found.transitions < TERMS
    assert 0 <= found.duration_s <= LONGEST_LEASE_S
    written = lease_body(lease(spec), "l", CLAIM, NOW)
    again = read_lease(written)
    assert (again.holder, again.transitions, again.duration_s) == ("me", 4, 15)
    assert again.problems == ()
