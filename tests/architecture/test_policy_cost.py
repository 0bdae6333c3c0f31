"""What the API server evaluates of the shipped policies for each write, counted and not timed.

For each policy whose rules match it converts the object and the object before it, and asks every
match condition, whatever the first one says; where they hold, every message as well as every
validation, with the variables of both. After each mutation it writes the pod as JSON and reads it
again. `benchmarks/apiserver_cost.py` measures the same in milliseconds.
"""

import re
from typing import Any

import pytest

from tests.controlplane.shipped import MUTATING, POLICIES, shipped
from tests.each import each

Json = dict[str, Any]

#: Policies that are asked about a write, and characters of their conditions, at most. Most of them
#: end at `schedulerName` or at annotations that did not change.
MOST = {
    ("CREATE", "pods"): (2, 10_000),
    ("UPDATE", "pods"): (1, 8_000),
    ("UPDATE", "pods/status"): (1, 8_000),
    ("CREATE", "pods/binding"): (1, 1_300),
    ("DELETE", "pods"): (1, 100),
}


def policies() -> list[Json]:
    """Those of the default values."""
    return shipped(MUTATING[0], POLICIES[0])


def asked(objects: list[Json], operation: str, resource: str) -> list[Json]:
    """Those of these policies that are asked about pods and in namespaces without labels too."""
    bindings = [one["spec"] for one in objects if one["kind"] in (MUTATING[1], POLICIES[1])]
    return [
        one
        for one in objects
        if one["kind"] in (MUTATING[0], POLICIES[0])
        and _matches(one["spec"]["matchConstraints"], operation, resource)
        and any(
            _matches(binding.get("matchResources"), operation, resource)
            for binding in bindings
            if binding["policyName"] == one["metadata"]["name"]
        )
    ]


def conditions(objects: list[Json], write: tuple[str, str]) -> list[str]:
    """What is asked about a write, of each policy one expression."""
    return [one["spec"]["matchConditions"][0]["expression"] for one in asked(objects, *write)]


def _matches(where: Json | None, operation: str, resource: str) -> bool:
    return where is None or (
        all(
            wish["operator"] in ("NotIn", "DoesNotExist")
            for selector in ("namespaceSelector", "objectSelector")
            for wish in where.get(selector, {}).get("matchExpressions", ())
        )
        and any(
            operation in rule["operations"] and resource in rule["resources"]
            for rule in where["resourceRules"]
        )
    )


@pytest.mark.parametrize(
    "one", policies(), ids=lambda one: one["kind"][0] + one["metadata"]["name"]
)
def test_a_policy_has_one_condition_since_all_of_a_list_are_asked(one: Json) -> None:
    assert len(one["spec"]["matchConditions"]) == 1


def test_pods_are_patched_once() -> None:
    for one in each(shipped(MUTATING[0])):
        assert len(one["spec"]["mutations"]) == 1, one["metadata"]["name"]


@pytest.mark.parametrize("write", MOST, ids=" ".join)
def test_few_policies_with_short_conditions_are_asked(write: tuple[str, str]) -> None:
    expect_short(conditions(shipped(), write), *MOST[write])


def expect_short(found: list[str], policies_at_most: int, characters_at_most: int) -> None:
    """That so many conditions have so many characters, and that these bounds are near."""
    assert len(found) == policies_at_most
    assert characters_at_most * 0.8 < sum(map(len, found)) <= characters_at_most


def test_all_variables_of_the_plain_case_begin_alike() -> None:
    [environment] = [
        one for one in policies() if one["metadata"]["name"] == "kubeshare-environment"
    ]
    condition = environment["spec"]["matchConditions"][0]["expression"]
    [begins] = re.findall(r"!entry\.name\.startsWith\('(\w+)'\)", condition)
    names = re.findall(r"'name': dyn\('(\w+)'\)", condition)
    assert "NVIDIA_VISIBLE_DEVICES" in names
    assert all(name.startswith(begins) for name in names)
