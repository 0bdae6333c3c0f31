"""What is wrong or too much in pod affinity and topology spread constraints is named."""

from collections.abc import Callable
from typing import Any

import pytest

from kubeshare_py.manifests.pods.inter_pod import asked_of_others
from kubeshare_py.manifests.pods.inter_pod_limits import (
    MAX_CHARACTERS,
    MAX_CONSTRAINTS,
    MAX_REQUIREMENTS,
    MAX_TERMS,
    MAX_VALUES,
)
from tests.manifests.pods.inter_pod_specs import (
    REQUIRED,
    asked,
    even,
    far,
    line,
    near,
    preferred,
    spread,
    term,
)
from tests.manifests.written import pod_fields


def problem(spec: dict[str, Any]) -> str:
    found = asked_of_others(pod_fields(spec).spec, "ns", None)
    assert found.terms is None
    return str(found.problem)


def test_a_field_that_cannot_be_read_is_named() -> None:
    assert problem({"affinity": {"podAffinity": 7}}) == (
        "spec.affinity.podAffinity cannot be read: Expected `object`, got `int`"
    )
    assert problem(spread(even(maxSkew="1"))).startswith("spec.topologySpreadConstraints cannot")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (near(term("")), f"spec.affinity.podAffinity.{REQUIRED}[0].topologyKey is empty"),
        (
            far(term(), term(labelSelector={"matchExpressions": [line("a", "Near", "b")]})),
            f"spec.affinity.podAntiAffinity.{REQUIRED}[1].labelSelector.matchExpressions[0]."
            "operator is 'Near'; this scheduler knows In or NotIn or Exists or DoesNotExist",
        ),
        (
            near(term(namespaceSelector={"matchExpressions": [line("a", "In")]})),
            f"spec.affinity.podAffinity.{REQUIRED}[0].namespaceSelector.matchExpressions[0]."
            "values is empty; In needs values",
        ),
        (
            near(term(labelSelector={"matchExpressions": [line("a", "Exists", "b")]})),
            f"spec.affinity.podAffinity.{REQUIRED}[0].labelSelector.matchExpressions[0]."
            "values has values; Exists takes none",
        ),
        (preferred(0), "spec.affinity.podAffinity has a weight 0; it must be 1 to 100"),
        (
            preferred(101, "podAntiAffinity"),
            "spec.affinity.podAntiAffinity has a weight 101; it must be 1 to 100",
        ),
        (spread(even(maxSkew=0)), "spec.topologySpreadConstraints[0].maxSkew is no number from 1"),
        (
            spread(even(), even(minDomains=0)),
            "spec.topologySpreadConstraints[1].minDomains is no number from 1",
        ),
        (spread(even(topologyKey="")), "spec.topologySpreadConstraints[0].topologyKey is empty"),
        (
            spread(even(whenUnsatisfiable="Perhaps")),
            "spec.topologySpreadConstraints[0].whenUnsatisfiable is 'Perhaps'; "
            "this scheduler knows DoNotSchedule or ScheduleAnyway",
        ),
        (
            spread(even(nodeTaintsPolicy="Respect")),
            "spec.topologySpreadConstraints[0].nodeTaintsPolicy is 'Respect'; "
            "this scheduler knows Honor or Ignore",
        ),
        (
            spread(even(nodeAffinityPolicy="Respect")),
            "spec.topologySpreadConstraints[0].nodeAffinityPolicy is 'Respect'; "
            "this scheduler knows Honor or Ignore",
        ),
    ],
)
def test_what_the_api_does_not_allow_keeps_the_pod_waiting(spec: dict[str, Any], said: str) -> None:
    assert problem(spec) == said


def terms(count: int) -> dict[str, Any]:
    half = [term()] * (count // 2)
    both = near(*half)["affinity"] | far(*half, *[term()] * (count % 2))["affinity"]
    return {"affinity": both}


def constraints(count: int) -> dict[str, Any]:
    return spread(*[even()] * count)


def requirements(count: int) -> dict[str, Any]:
    lines = [line(f"k{number}", "Exists") for number in range(count)]
    return near(term(labelSelector={"matchExpressions": lines}))


def values(count: int) -> dict[str, Any]:
    names = [f"v{number}" for number in range(count - 1)]
    return near(term(namespaces=names))


def characters(count: int) -> dict[str, Any]:
    return far(term(namespaces=["n" * (count - len("appweb"))]))


def values_of_constraints(count: int) -> dict[str, Any]:
    names = [f"v{number}" for number in range(count)]
    return spread(even(labelSelector={"matchExpressions": [line("k", "In", *names)]}))


NEAR, FAR = "spec.affinity.podAffinity", "spec.affinity.podAntiAffinity"


@pytest.mark.parametrize(
    ("spec_of", "most", "said"),
    [
        (terms, MAX_TERMS, f"spec.affinity has {MAX_TERMS + 1} terms"),
        (
            constraints,
            MAX_CONSTRAINTS,
            f"spec.topologySpreadConstraints has {MAX_CONSTRAINTS + 1} constraints",
        ),
        (requirements, MAX_REQUIREMENTS, f"{NEAR} has {MAX_REQUIREMENTS + 1} requirements"),
        (values, MAX_VALUES, f"{NEAR} has {MAX_VALUES + 1} values"),
        (characters, MAX_CHARACTERS, f"{FAR} has {MAX_CHARACTERS + 1} characters"),
        (
            values_of_constraints,
            MAX_VALUES,
            f"spec.topologySpreadConstraints has {MAX_VALUES + 1} values",
        ),
    ],
)
def test_much_is_taken_and_beyond_it_the_limit_is_named(
    spec_of: Callable[[int], dict[str, Any]], most: int, said: str
) -> None:
    assert asked(spec_of(most)) is not None
    assert problem(spec_of(most + 1)).startswith(said)
