"""How much a pod may say of its place, and what happens beyond."""

from collections.abc import Callable
from typing import Any

import pytest

from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.pod import NodePreferences, NodeTerm, Toleration
from kubeshare_py.manifests.pods.placement import (
    MAX_AMOUNTS,
    MAX_CHARACTERS,
    MAX_CONTAINERS,
    MAX_HOST_PORTS,
    MAX_REQUIREMENTS,
    MAX_SELECTED,
    MAX_TERMS,
    MAX_TOLERATIONS,
    MAX_VALUES,
    MAX_VOLUMES,
    PackedTerms,
)
from tests.manifests.written import pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
PREFERENCES = f"spec.affinity.nodeAffinity.{PREFERRED}"
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


def preferred(*terms: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    written = [{"weight": weight, "preference": term} for weight, term in terms]
    return {"affinity": {"nodeAffinity": {PREFERRED: written}}}


def preferences(count: int) -> dict[str, Any]:
    return preferred(*[(1, {"matchExpressions": [one_of("v")]})] * count)


def preferred_values(count: int) -> dict[str, Any]:
    return preferred((1, {"matchExpressions": [one_of(*(["v"] * count))]}))


def selected(count: int) -> dict[str, Any]:
    return {"nodeSelector": {f"k{number}": "v" for number in range(count)}}


def tolerations(count: int) -> dict[str, Any]:
    return {"tolerations": [{"key": f"k{number}"} for number in range(count)]}


def amounts(count: int) -> dict[str, Any]:
    first = {f"example.com/r{number}": "1" for number in range(count - 2)}
    other = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    containers = [{"name": "a", "resources": {"requests": first}}]
    return {"containers": containers, "initContainers": [{"name": "i", "resources": other}]}


def volumes(count: int) -> dict[str, Any]:
    claims = [{"persistentVolumeClaim": {"claimName": f"c{number}"}} for number in range(count)]
    return {"volumes": [{"name": f"v{at}", **claim} for at, claim in enumerate(claims)]}


def containers(count: int) -> dict[str, Any]:
    made = [{"name": f"c{number}", "image": f"i{number}"} for number in range(count)]
    return {"containers": made[:1], "initContainers": made[1:]}


def host_ports(count: int) -> dict[str, Any]:
    ports = [{"containerPort": 1, "hostPort": 1 + number} for number in range(count)]
    return {"containers": [{"name": "a", "ports": ports}]}


LIMITS = [
    (volumes, MAX_VOLUMES, f"spec.volumes has {MAX_VOLUMES + 1} volumes"),
    (containers, MAX_CONTAINERS, f"spec.containers has {MAX_CONTAINERS + 1} containers"),
    (host_ports, MAX_HOST_PORTS, f"spec.containers[].ports has {MAX_HOST_PORTS + 1} host ports"),
    (
        amounts,
        MAX_AMOUNTS,
        f"spec.containers[].resources has {MAX_AMOUNTS + 1} amounts",
    ),
    (terms, MAX_TERMS, f"{TERMS} has {MAX_TERMS + 1} terms"),
    (requirements, MAX_REQUIREMENTS, f"{TERMS} has {MAX_REQUIREMENTS + 1} requirements"),
    (values, MAX_VALUES, f"{TERMS} has {MAX_VALUES + 1} values"),
    (characters, MAX_CHARACTERS, f"{TERMS} has {MAX_CHARACTERS + 1} characters"),
    (preferences, MAX_TERMS, f"{PREFERENCES} has {MAX_TERMS + 1} terms"),
    (preferred_values, MAX_VALUES, f"{PREFERENCES} has {MAX_VALUES + 1} values"),
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


def test_volumes_and_ports_of_a_bound_pod_are_charged_however_many() -> None:
    bound = pod({**volumes(MAX_VOLUMES + 1), **host_ports(MAX_HOST_PORTS + 1), "nodeName": "n1"})
    assert bound.problem is None
    assert bound.shape.volumes is not None
    assert len(bound.shape.volumes.claims) == MAX_VOLUMES + 1
    assert len(bound.shape.host_ports) == MAX_HOST_PORTS + 1


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


def test_preferred_terms_are_read_with_their_weights() -> None:
    zone = {"key": "zone", "operator": "NotIn", "values": ["a", "b"]}
    name = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    found = pod(
        preferred(
            (30, {"matchExpressions": [zone]}),
            (1, {"matchExpressions": [], "matchFields": [name]}),
        )
    )
    assert found.shape.preferences == NodePreferences(
        (30, 1),
        (
            NodeTerm((Requirement("zone", "NotIn", ("a", "b")),)),
            NodeTerm((), (Requirement("metadata.name", "In", ("n1",)),)),
        ),
    )
    assert found.shape.terms is None
    assert not found.unsupported


def test_a_preference_without_weight_or_without_terms_is_none() -> None:
    spec = preferred((0, {"matchExpressions": [one_of("v")]}), (5, {}))
    assert pod(spec).shape.preferences is None
    assert pod({"affinity": {"nodeAffinity": {PREFERRED: []}}}).shape == pod({}).shape


def test_long_preferences_are_packed() -> None:
    shape = pod(preferences(200)).shape
    assert shape.preferences is not None
    assert isinstance(shape.preferences.terms, PackedTerms)
    assert len(shape.preferences.terms) == 200


RESTARTS_ALL = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]


@pytest.mark.parametrize(
    ("spec", "features"),
    [
        ({}, ()),
        (
            {"containers": [{"name": "a"}, {"name": "b", "restartPolicyRules": RESTARTS_ALL}]},
            ("RestartAllContainersOnContainerExits",),
        ),
        (
            {"initContainers": [{"name": "a", "restartPolicyRules": RESTARTS_ALL}]},
            ("RestartAllContainersOnContainerExits",),
        ),
        ({"containers": [{"name": "a", "restartPolicyRules": [{"action": "Restart"}]}]}, ()),
        ({"hostNetwork": True, "hostUsers": False}, ("UserNamespacesHostNetworkSupport",)),
        ({"hostNetwork": True, "hostUsers": True}, ()),
        ({"hostNetwork": True}, ()),
        ({"hostUsers": False}, ()),
    ],
)
def test_features_that_the_node_must_declare(
    spec: dict[str, Any], features: tuple[str, ...]
) -> None:
    assert pod(spec).shape.features == features
