"""What a pod says of its node and of other pods: defaults, merged label keys, refusals."""

from typing import Any

import pytest

from tests.conformance.refusals import told
from tests.embedded_cluster.api_client import PODS, Api

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SELECTOR = {"matchLabels": {"app": "web"}}
TERM: dict[str, Any] = {"topologyKey": "zone", "labelSelector": SELECTOR}
SPREAD: dict[str, Any] = {**TERM, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}


def pod(api: Api, **spec: Any) -> Any:
    containers = [{"name": "a", "image": "x"}]
    labels = {"app": "web", "version": "1"}
    body = {
        "metadata": {"name": "p", "labels": labels},
        "spec": {"containers": containers, **spec},
    }
    return api.post(f"{PODS}?dryRun=All", body)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"maxSkew": 0}, ".maxSkew: Invalid value: 0: must be greater than zero"),
        ({"topologyKey": ""}, ".topologyKey: Required value: can not be empty"),
        (
            {"whenUnsatisfiable": "X"},
            '.whenUnsatisfiable: Unsupported value: "X": supported values: "DoNotSchedule", '
            '"ScheduleAnyway"',
        ),
        ({"minDomains": 0}, ".minDomains: Invalid value: 0: must be greater than zero"),
        (
            {"minDomains": 2, "whenUnsatisfiable": "ScheduleAnyway"},
            ".minDomains: Invalid value: 2: can only use minDomains if "
            "whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
        ),
        (
            {"nodeTaintsPolicy": "X"},
            '.nodeTaintsPolicy: Unsupported value: "X": supported values: "Honor", "Ignore"',
        ),
        (
            {"labelSelector": None, "matchLabelKeys": ["version"]},
            ".matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
        ),
    ],
)
def test_spread_that_is_refused(api: Api, changed: dict[str, Any], why: str) -> None:
    status = pod(api, topologySpreadConstraints=[{**SPREAD, **changed}])
    assert told(status) == f"spec.topologySpreadConstraints[0]{why}"


def test_a_key_is_spread_over_once(api: Api) -> None:
    status = pod(api, topologySpreadConstraints=[SPREAD, SPREAD])
    assert told(status) == (
        "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "
        '"{zone, DoNotSchedule}"'
    )


@pytest.mark.parametrize(
    ("affinity", "why"),
    [
        (
            {"podAntiAffinity": {PREFERRED: [{"weight": 0, "podAffinityTerm": TERM}]}},
            f"podAntiAffinity.{PREFERRED}[0].weight: Invalid value: 0: must be in the range 1-100",
        ),
        (
            {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}},
            f"nodeAffinity.{REQUIRED}.nodeSelectorTerms: Required value: must have at least one "
            "node selector term",
        ),
        (
            {
                "podAffinity": {
                    REQUIRED: [{**TERM, "mismatchLabelKeys": ["a"], "matchLabelKeys": ["a"]}]
                }
            },
            f'podAffinity.{REQUIRED}[0].matchLabelKeys[0]: Invalid value: "a": exists in both '
            "matchLabelKeys and mismatchLabelKeys",
        ),
    ],
)
def test_affinity_that_is_refused(api: Api, affinity: dict[str, Any], why: str) -> None:
    assert told(pod(api, affinity=affinity)) == f"spec.affinity.{why}"


def test_label_keys_become_part_of_the_selectors_beside_them(api: Api) -> None:
    keys = {"matchLabelKeys": ["version", "absent"], "mismatchLabelKeys": ["app"]}
    affinity = {"podAffinity": {REQUIRED: [{**TERM, **keys}]}}
    spread = {**SPREAD, "matchLabelKeys": ["version"]}
    spec = pod(api, affinity=affinity, topologySpreadConstraints=[spread])["spec"]
    version = {"key": "version", "operator": "In", "values": ["1"]}
    other = {"key": "app", "operator": "NotIn", "values": ["web"]}
    [term] = spec["affinity"]["podAffinity"][REQUIRED]
    assert term["labelSelector"] == {**SELECTOR, "matchExpressions": [version, other]}
    [constraint] = spec["topologySpreadConstraints"]
    assert constraint["labelSelector"] == {**SELECTOR, "matchExpressions": [version]}


def test_ports_of_a_pod_on_its_nodes_network_are_the_nodes(api: Api) -> None:
    containers = [{"name": "a", "image": "x", "ports": [{"containerPort": 80}]}]
    [container] = pod(api, hostNetwork=True, containers=containers)["spec"]["containers"]
    assert container["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]


def test_no_port_of_the_node_is_taken_twice(api: Api) -> None:
    ports = [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]
    status = pod(api, containers=[{"name": "a", "image": "x", "ports": ports}])
    assert told(status) == 'spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//80"'
