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

Json = dict[str, Any]

#: Policies that are asked about a write, and characters of their conditions, at most. Most of them
#: end at `schedulerName` or at annotations that did not change.
MOST = {
    ("CREATE", "pods"): (2, 13_000),
    ("UPDATE", "pods"): (1, 10_400),
    ("UPDATE", "pods/status"): (1, 10_400),
    ("CREATE", "pods/binding"): (3, 10_600),
    ("DELETE", "pods"): (1, 100),
}


def policies() -> list[Json]:
    """Those of the default values."""
    return shipped(MUTATING[0], POLICIES[0])


def asked(operation: str, resource: str) -> list[Json]:
    """The policies that are asked in every namespace, about pods without labels too."""
    bindings = [one["spec"] for one in shipped(MUTATING[1], POLICIES[1])]
    return [
        one
        for one in policies()
        if _matches(one["spec"]["matchConstraints"], operation, resource)
        and any(
            _matches(binding.get("matchResources"), operation, resource)
            for binding in bindings
            if binding["policyName"] == one["metadata"]["name"]
        )
    ]


def _matches(where: Json | None, operation: str, resource: str) -> bool:
    return where is None or (
        not {"namespaceSelector", "objectSelector"} & where.keys()
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
    for one in shipped(MUTATING[0]):
        assert len(one["spec"]["mutations"]) == 1, one["metadata"]["name"]


@pytest.mark.parametrize("write", MOST, ids=" ".join)
def test_few_policies_with_short_conditions_are_asked(write: tuple[str, str]) -> None:
    conditions = [one["spec"]["matchConditions"][0]["expression"] for one in asked(*write)]
    policies_at_most, characters_at_most = MOST[write]
    assert len(conditions) <= policies_at_most
    assert sum(map(len, conditions)) <= characters_at_most


@pytest.mark.parametrize("write", MOST, ids=" ".join)
def test_the_bounds_are_near_what_is_there(write: tuple[str, str]) -> None:
    conditions = [one["spec"]["matchConditions"][0]["expression"] for one in asked(*write)]
    policies_at_most, characters_at_most = MOST[write]
    assert len(conditions) == policies_at_most
    assert sum(map(len, conditions)) > characters_at_most * 0.8


def test_all_variables_of_the_plain_case_begin_alike() -> None:
    [environment] = [
        one for one in policies() if one["metadata"]["name"] == "kubeshare-environment"
    ]
    condition = environment["spec"]["matchConditions"][0]["expression"]
    [begins] = re.findall(r"!entry\.name\.startsWith\('(\w+)'\)", condition)
    names = re.findall(r"'name': dyn\('(\w+)'\)", condition)
    assert "NVIDIA_VISIBLE_DEVICES" in names
    assert all(name.startswith(begins) for name in names)
