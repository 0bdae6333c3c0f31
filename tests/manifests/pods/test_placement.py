"""How much a pod may say of its place, and what happens beyond."""

from collections.abc import Callable
from typing import Any

import pytest

from kubeshare_py.domain.label_selector import Requirement
from kubeshare_py.domain.pod import NodeTerm, Toleration
from kubeshare_py.manifests.pods.placement import (
    MAX_AMOUNTS,
    MAX_CHARACTERS,
    MAX_REQUIREMENTS,
    MAX_SELECTED,
    MAX_TERMS,
    MAX_TOLERATIONS,
    MAX_VALUES,
)
from tests.manifests.written import pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}"


def one_of(*values: str, key: str = "k") -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    selector = {"nodeSelectorTerms": [{"matchExpressions": lines} for lines in terms]}
    return {"affinity": {"nodeAffinity": {REQUIRED: selector}}}


def terms(count: int) -> dict[str, Any]:
    return affinity(*([one_of("v")] for _ in range(count)))


def requirements(count: int) -> dict[str, Any]:
    return affinity([one_of("v")] * (count - 1), [one_of("v")])


def values(count: int) -> dict[str, Any]:
    return affinity([one_of("v"), one_of(*(["v"] * (count - 1)))])


def characters(count: int) -> dict[str, Any]:
    return affinity([one_of("v" * (count - 1))])


def selected(count: int) -> dict[str, Any]:
    return {"nodeSelector": {f"k{number}": "v" for number in range(count)}}


def tolerations(count: int) -> dict[str, Any]:
    return {"tolerations": [{"key": f"k{number}"} for number in range(count)]}


def amounts(count: int) -> dict[str, Any]:
    first = {f"example.com/r{number}": "1" for number in range(count - 2)}
    other = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    containers = [{"name": "a", "resources": {"requests": first}}]
    return {"containers": containers, "initContainers": [{"name": "i", "resources": other}]}


LIMITS = [
    (
        amounts,
        MAX_AMOUNTS,
        f"spec.containers[].resources has {MAX_AMOUNTS + 1} amounts",
    ),
    (terms, MAX_TERMS, f"{TERMS} has {MAX_TERMS + 1} terms"),
    (requirements, MAX_REQUIREMENTS, f"{TERMS} has {MAX_REQUIREMENTS + 1} requirements"),
    (values, MAX_VALUES, f"{TERMS} has {MAX_VALUES + 1} values"),
    (characters, MAX_CHARACTERS, f"{TERMS} has {MAX_CHARACTERS + 1} characters"),
    (selected, MAX_SELECTED, f"spec.nodeSelector has {MAX_SELECTED + 1} labels"),
    (tolerations, MAX_TOLERATIONS, f"spec.tolerations has {MAX_TOLERATIONS + 1} entries"),
]


@pytest.mark.parametrize(("spec_of", "most", "problem"), LIMITS)
def test_what_is_too_much_is_named_and_fits_nowhere(
    spec_of: Callable[[int], dict[str, Any]], most: int, problem: str
) -> None:
    assert pod(spec_of(most)).problem is None
    beyond = pod(spec_of(most + 1))
    assert str(beyond.problem) == f"{problem}; this scheduler takes at most {most}"
    assert (beyond.shape.terms, beyond.shape.node_selector) == ((), ())
    assert beyond.shape.tolerations == ()


@pytest.mark.parametrize("spec_of", [terms, tolerations])
def test_what_a_bound_pod_says_does_not_matter_any_more(
    spec_of: Callable[[int], dict[str, Any]],
) -> None:
    bound = pod({**spec_of(MAX_TERMS + 1), "nodeName": "n1"})
    assert bound.problem is None


def test_what_a_bound_pod_takes_is_counted_however_long_the_list() -> None:
    bound = pod({**amounts(MAX_AMOUNTS + 1), "nodeName": "n1"})
    assert bound.problem is None
    assert len(bound.shape.resources) == MAX_AMOUNTS


def test_a_term_for_each_of_some_hundred_nodes_is_read() -> None:
    named = [
        {"matchFields": [one_of(f"node-{number}.example.org", key="metadata.name")]}
        for number in range(400)
    ]
    spec = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": named}}}}
    found = pod({**spec, "tolerations": [{"operator": "Exists"}]})
    assert found.problem is None
    assert found.shape.terms is not None
    assert len(found.shape.terms) == 400
    assert found.shape.terms[7] == NodeTerm(
        fields=(Requirement("metadata.name", "In", ("node-7.example.org",)),)
    )
    assert found.shape.tolerations == (Toleration(operator="Exists"),)
