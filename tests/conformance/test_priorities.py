"""PriorityClasses, and what they make of a pod."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.embedded_cluster.api_client import PODS, Api

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
COMPUTED = "priority admission controller computed"


@pytest.fixture(autouse=True)
def without_classes(api: Api) -> Iterator[None]:
    """No class of the test is left: a default one would be every later test's."""
    yield
    for one in api.get(CLASSES)["items"]:
        if not one["metadata"]["name"].startswith("system-"):
            api.delete(f"{CLASSES}/{one['metadata']['name']}")


def make(api: Api, name: str, value: int, **fields: Any) -> Any:
    return api.post(CLASSES, {"metadata": {"name": name}, "value": value, **fields})


def pod(api: Api, **spec: Any) -> Any:
    containers = [{"name": "a", "image": "x"}]
    body = {"metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}
    return api.post(f"{PODS}?dryRun=All", body)


def resolved(api: Api, **spec: Any) -> tuple[Any, ...]:
    """The default class is noticed a moment after it was made."""
    found = pod(api, **spec)["spec"]
    return tuple(found.get(key) for key in ("priority", "priorityClassName", "preemptionPolicy"))


def test_a_pod_has_the_priority_and_policy_of_its_class(api: Api) -> None:
    make(api, "high", 1000)
    make(api, "polite", 500, preemptionPolicy="Never")
    api.expect_eventually(
        lambda: pod(api, priorityClassName="polite"), lambda answer: answer["kind"] == "Pod"
    )
    assert resolved(api) == (0, None, "PreemptLowerPriority")
    assert resolved(api, priorityClassName="high") == (1000, "high", "PreemptLowerPriority")
    assert resolved(api, priorityClassName="polite") == (500, "polite", "Never")
    same = {"priority": 500, "preemptionPolicy": "Never"}
    assert resolved(api, priorityClassName="polite", **same) == (500, "polite", "Never")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        (
            {"priority": 5},
            "the integer value of priority (5) must not be provided in pod spec; "
            f"{COMPUTED} 0 from the given PriorityClass name",
        ),
        (
            {"preemptionPolicy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; "
            f"{COMPUTED} PreemptLowerPriority from the given PriorityClass name",
        ),
    ],
)
def test_a_pod_may_not_say_otherwise_than_its_class(
    api: Api, spec: dict[str, Any], why: str
) -> None:
    status = pod(api, **spec)
    assert (api.status, status["message"]) == (403, f'pods "p" is forbidden: {why}')


def test_the_default_class_is_that_of_pods_that_name_none(api: Api) -> None:
    make(api, "usual", 70, globalDefault=True, preemptionPolicy="Never")
    api.expect_eventually(lambda: resolved(api), lambda found: found == (70, "usual", "Never"))
    pod(api, priority=3)
    assert api.status == 403
    status = make(api, "second", 60, globalDefault=True)
    assert status["message"] == (
        'priorityclasses.scheduling.k8s.io "second" is forbidden: PriorityClass usual is already '
        "marked as default. Only one default can exist"
    )


def test_classes_of_the_system_are_there_from_the_start(api: Api) -> None:
    values = {one["metadata"]["name"]: one["value"] for one in api.get(CLASSES)["items"]}
    assert values == {
        "system-cluster-critical": 2_000_000_000,
        "system-node-critical": 2_000_001_000,
    }
    node = "system-node-critical"
    assert resolved(api, priorityClassName=node) == (2_000_001_000, node, "PreemptLowerPriority")


@pytest.mark.parametrize(
    ("name", "value", "fields", "told"),
    [
        (
            "big",
            2_000_000_000,
            {},
            "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
        ),
        (
            "system-x",
            5,
            {},
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for "
            "system use only. error: system-x is not a known system priority class",
        ),
        (
            "odd",
            5,
            {"preemptionPolicy": "Foo"},
            'preemptionPolicy: Unsupported value: "Foo": supported values: "PreemptLowerPriority", '
            '"Never"',
        ),
    ],
)
def test_classes_that_are_refused(
    api: Api, name: str, value: int, fields: dict[str, Any], told: str
) -> None:
    status = make(api, name, value, **fields)
    assert api.status == 422
    assert status["message"] == f'PriorityClass.scheduling.k8s.io "{name}" is invalid: {told}'


def test_value_and_policy_of_a_class_are_fixed(api: Api) -> None:
    make(api, "high", 1000)
    status = api.patch(f"{CLASSES}/high", {"value": 5})
    assert status["details"]["causes"][0]["message"] == (
        "Forbidden: may not be changed in an update."
    )
    api.patch(f"{CLASSES}/high", {"preemptionPolicy": "Never"})
    assert api.status == 422
    changed = api.patch(f"{CLASSES}/high", {"description": "x"})
    assert (api.status, changed["metadata"]["generation"]) == (200, 1)
