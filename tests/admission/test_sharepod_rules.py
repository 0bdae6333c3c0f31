"""The policies' CEL about annotations of SharePods says what the scheduler says, in its words."""

from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubeshare_py.admission.label_table import variables
from kubeshare_py.dialects.dialects import DialectTable
from kubeshare_py.dialects.pod_request import first_problem
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.dialects.sharepod import AMOUNTS, KEYS, VIRTUAL_GPU, SharePods
from tests.admission.evaluated import Rules
from tests.dialects.sharepod_pods import README
from tests.scale import examples

TABLE = DialectTable((SHAREDGPU, SharePods()))

_numbers = st.one_of(
    st.sampled_from(["", "0", "1", "1.0", "0.5", "5e-1", ".5", "1.", "-0", "-0.5", "1.0001"]),
    st.sampled_from(["1e1", "1e999", "0e999", "1e-999", "NaN", "Inf", "0x1p-2", " 0.5", "+0.3"]),
    st.sampled_from(["0.3\n", "half", "٣", "0" * 64, "0.1" + "0" * 60, "1_0"]),
    st.from_regex(r"[01][.][0-9]{1,6}", fullmatch=True),
)
_memory = st.one_of(
    st.sampled_from(["", "0", "-0", "-1", "+5", "1Gi", "1073741824", "1e9", "9" * 19, "9" * 70]),
    st.sampled_from(["9223372036854775807", "9223372036854775808", "281474976710657", "007"]),
)
_words = st.sampled_from(["", "red", "a b", "a/b", "é", "r" * 63, "r" * 64, "x" * 200, "A_1.-"])
_VALUES = {**dict.fromkeys(KEYS, _words), **dict.fromkeys(AMOUNTS, _numbers), AMOUNTS[2]: _memory}


@st.composite
def annotations(draw: st.DrawFn) -> dict[str, str]:
    given = dict(README) if draw(st.booleans()) else {}
    for key in draw(st.lists(st.sampled_from(KEYS), max_size=5)):
        given[key] = draw(_VALUES[key])
    return given


@cache
def rules(dialect_annotations: tuple[str, ...]) -> Rules:
    return Rules(variables(), dialect_annotations)


def said_by_policy(annotations: dict[str, str], enabled: bool = True) -> str:
    found = rules(KEYS if enabled else ()).evaluate({}, annotations)
    return str(found["problem"])


@examples(500)
@example({VIRTUAL_GPU: "abcde"})
@example({**README, AMOUNTS[1]: "0.3"})
@given(annotations())
def test_policy_and_scheduler_say_the_same(given: dict[str, str]) -> None:
    assert said_by_policy(given) == str(first_problem({}, given, TABLE) or "")


@pytest.mark.parametrize("key", AMOUNTS)
def test_where_no_profile_reads_them_they_are_not_known(key: str) -> None:
    assert f"annotation {min(AMOUNTS)} is not known" in said_by_policy(README, enabled=False)
    assert said_by_policy({key: "0.5"}, enabled=False)


def test_the_key_as_a_label_is_an_annotation() -> None:
    found = rules(KEYS).evaluate({"kubeshare/gpu_mem": "1"}, {})
    assert found["problem"] == "kubeshare/gpu_mem is an annotation, not a label"
