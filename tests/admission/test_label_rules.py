"""The policies' CEL about labels says what the scheduler says, in its words."""

import re
from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubeshare_py.admission.label_table import template, variables
from kubeshare_py.dialects import pod_keys, sharedgpu
from kubeshare_py.dialects.pod_request import first_problem
from tests.admission.any_labels import labels_and_annotations
from tests.admission.evaluated import Rules
from tests.controlplane.chart_tables import LABELS_TEMPLATE
from tests.controlplane.shipped import ABOUT_PODS, POLICIES, only
from tests.scale import examples

NEITHER_KNOWS = " is not known; "
SHARE = {"sharedgpu/gpu_request": "0.5"}

#: In the condition by which plain pods are not asked further.
_PLAIN = re.compile(r"\[\?'(sharedgpu/\w+)'\][.]orValue\('[^']*'\)[.]matches\('([^']*)'\)")


def plain_labels() -> st.SearchStrategy[dict[str, str]]:
    """Labels of pods about which the chart's policy asks no rule."""
    variables = only(POLICIES[0], ABOUT_PODS)["spec"]["variables"]
    [condition] = [one["expression"] for one in variables if one["name"] == "labelsApply"]
    patterns = dict(_PLAIN.findall(condition))
    assert set(patterns) == {"sharedgpu/gpu_request", "sharedgpu/gpu_limit", "sharedgpu/gpu_mem"}
    values = {
        key: st.from_regex(re.compile(pattern, re.ASCII)).filter(str.isprintable)
        for key, pattern in patterns.items()
    }
    needed = {"sharedgpu/gpu_request": values.pop("sharedgpu/gpu_request")}
    return st.fixed_dictionaries(needed, optional=values)


@cache
def rules() -> Rules:
    return Rules(variables())


def said_by_policy(labels: dict[str, str], annotations: dict[str, str] | None = None) -> str:
    problem = rules().evaluate(labels, annotations or {})["problem"]
    assert isinstance(problem, str)
    return problem


def said_by_dialect(labels: dict[str, str], annotations: dict[str, str] | None = None) -> str:
    return str(first_problem(labels, annotations or {}) or "")


def without_hint(problem: str) -> str:
    """The policy lists the keys that are known, the dialect guesses what was meant."""
    head, unknown, _ = problem.partition(NEITHER_KNOWS)
    return head + unknown


def test_the_charts_rules_are_those_of_the_code() -> None:
    assert LABELS_TEMPLATE.read_text() == template(), "out of date: make manifests"


@pytest.mark.slow
@examples(600)
@example(({"sharedgpu/gpu_limit": "00.50", "sharedgpu/gpu_request": "2"}, {}))
@example(({"sharedgpu/gpu_limit": "3.00", "sharedgpu/gpu_request": "2"}, {}))
@example(({"sharedgpu/gpu_limit": "0", "sharedgpu/gpu_mem": "x"}, {"sharedgpu/gpu_models": ">"}))
@given(labels_and_annotations())
def test_policy_and_scheduler_say_the_same(given: tuple[dict[str, str], dict[str, str]]) -> None:
    assert without_hint(said_by_policy(*given)) == without_hint(said_by_dialect(*given))
    labels, annotations = given
    advice = sharedgpu.advice(labels) or pod_keys.group_advice(labels)
    assert rules().evaluate(labels, annotations)["advice"] == advice


@examples(300)
@given(plain_labels())
def test_of_labels_in_the_plain_form_neither_says_anything(labels: dict[str, str]) -> None:
    assert said_by_dialect(labels) == ""
    found = rules().evaluate(labels, {})
    assert (found["problem"], found["advice"]) == ("", "")


def test_a_misspelt_key_is_named_with_those_that_are_known() -> None:
    problem = said_by_policy({"sharedgpu/gpu_limit": "1.0", "sharedgpu/gpu_requset": "0.5"})
    assert problem.startswith(
        "label sharedgpu/gpu_requset is not known; labels are sharedgpu/gpu_req"
    )


@pytest.mark.parametrize("size", [60, 61, 5000])
def test_a_long_value_is_shown_in_part(size: int) -> None:
    annotations = {"sharedgpu/gpu_models": "é" * size}
    problem = said_by_policy(SHARE, annotations)
    assert problem == said_by_dialect(SHARE, annotations)
    assert len(problem) < 300


@pytest.mark.parametrize(
    "request_of", ["1", "0.3333333", "2", "1000000", "0.999999999999999999999999"]
)
def test_amounts_are_compared_exactly(request_of: str) -> None:
    for limit in (request_of, f"{request_of}0" if "." in request_of else f"{request_of}.0"):
        labels = {"sharedgpu/gpu_limit": limit, "sharedgpu/gpu_request": request_of}
        assert said_by_policy(labels) == said_by_dialect(labels) == ""
        above = {
            **labels,
            "sharedgpu/gpu_request": f"{request_of}{'' if '.' in request_of else '.'}1",
        }
        assert said_by_policy(above) == said_by_dialect(above) != ""


@pytest.mark.parametrize(
    ("memory", "advice"),
    [
        ("8", "sharedgpu/gpu_mem is 8 bytes; units are written behind the number, as in 8Gi"),
        *((fine, "") for fine in ("0", "000", "8Gi", "1000000", "1e1", "x")),
    ],
)
def test_memory_of_a_few_bytes_is_hardly_meant(memory: str, advice: str) -> None:
    found = rules().evaluate({**SHARE, "sharedgpu/gpu_mem": memory}, {})
    assert found["advice"] == advice


@pytest.mark.parametrize(
    ("labels", "is_unlikely"),
    [
        *(({"sharedgpu/gpu_limit": limit}, True) for limit in ("2", "010", "3.0")),
        *(({"sharedgpu/gpu_limit": limit}, False) for limit in ("1", "1.0", "0.5", "0", "2.5")),
        ({"sharedgpu/gpu_limit": "2", "sharedgpu/gpu_request": "2"}, False),
        ({"sharedgpu/gpu_limit": "2", "sharedgpu/gpu_exclusive": "true"}, False),
    ],
)
def test_several_cards_as_a_limit_alone_are_hardly_meant(
    labels: dict[str, str], is_unlikely: bool
) -> None:
    advice = sharedgpu.SEVERAL_ADVICE if is_unlikely else ""
    assert rules().evaluate(labels, {})["advice"] == sharedgpu.advice(labels) == advice
