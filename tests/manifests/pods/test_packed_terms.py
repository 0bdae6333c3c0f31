"""Long affinities are kept as one text, and are the same terms whenever they are looked at."""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.pod import NodeTerm
from kubeshare_py.domain.remembered import weight_of
from kubeshare_py.manifests.pods.placement import MAX_OBJECTS, PackedTerms, packed

LINES = st.lists(
    st.builds(
        Requirement,
        st.text(max_size=8),
        st.sampled_from(("In", "NotIn", "Exists", "Gt", "odd")),
        st.lists(st.text(max_size=8), max_size=30).map(tuple),
    ),
    max_size=4,
).map(tuple)
TERMS = st.lists(st.builds(NodeTerm, LINES, LINES), max_size=12).map(tuple)


def long(terms: int = 500, values: int = 10, salt: str = "") -> tuple[NodeTerm, ...]:
    return tuple(
        NodeTerm((Requirement("zone", "In", tuple(f"{salt}{term}-{n}" for n in range(values))),))
        for term in range(terms)
    )


@pytest.mark.slow
@given(TERMS)
def test_the_terms_are_the_same(terms: tuple[NodeTerm, ...]) -> None:
    found = packed(terms)
    assert tuple(found) == terms
    assert len(found) == len(terms)
    assert [found[at] for at in range(len(found))] == list(terms)
    assert tuple(found[1:]) == terms[1:]


@pytest.mark.slow
@given(TERMS, TERMS)
def test_equal_terms_are_equal_packed(
    one: tuple[NodeTerm, ...], other: tuple[NodeTerm, ...]
) -> None:
    again = tuple(NodeTerm(tuple(term.labels), tuple(term.fields)) for term in one)
    assert packed(one) == packed(again)
    assert hash(packed(one)) == hash(packed(again))
    assert (packed(one) == packed(other)) == (one == other)


def test_what_people_write_is_kept_as_it_is() -> None:
    terms = long(terms=2, values=10)
    assert packed(terms) is terms


def test_it_weighs_what_its_terms_weigh() -> None:
    terms = long()
    found = packed(terms)
    assert isinstance(found, PackedTerms)
    assert 0.8 < weight_of(found) / weight_of(terms) < 1.2


def test_long_terms_are_one_object() -> None:
    found = packed(long(terms=MAX_OBJECTS))
    assert isinstance(found, PackedTerms)
    assert all(isinstance(part, (str, int, type)) for part in gc.get_referents(found))
