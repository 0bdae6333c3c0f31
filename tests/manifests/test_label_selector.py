"""LabelSelector objects as requirements and as queries."""

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.cluster_objects import all_hold, parsed
from kubeshare_py.manifests.common_definitions import (
    RequirementFields,
    SelectorFields,
    query,
    requirements,
)

keys, values = st.sampled_from("abc"), st.sampled_from(["x", "y", ""])
lines = st.one_of(
    st.builds(
        RequirementFields,
        key=keys,
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(values, min_size=1).map(tuple),
    ),
    st.builds(RequirementFields, key=keys, operator=st.sampled_from(["Exists", "DoesNotExist"])),
)
selectors = st.builds(
    SelectorFields,
    match_labels=st.none() | st.dictionaries(keys, values),
    match_expressions=st.none() | st.lists(lines, max_size=3).map(tuple),
)


@given(selectors, st.dictionaries(keys, values))
def test_an_object_and_its_query_select_the_same(
    selector: SelectorFields, labels: dict[str, str]
) -> None:
    assert all_hold(requirements(selector), labels) == all_hold(parsed(query(selector)), labels)
