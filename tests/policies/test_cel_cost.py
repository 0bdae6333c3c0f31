"""What conditions of the shipped policies cost kube-apiserver, in its own units for CEL.

A unit is about a step of an expression; kube-apiserver gives the conditions of a policy 2,500,000,
and one expression 1,000,000. `tests/architecture/test_policy_cost.py` bounds how many policies are
asked, `benchmarks/apiserver_cost.py` measures milliseconds.
"""

import json
import subprocess
from functools import cache

import pytest
import yaml

from benchmarks.apiserver_cost import pod
from tests.architecture.test_policy_cost import conditions, expect_short
from tests.controlplane.build import CEL_COST, build, kept
from tests.controlplane.helm import PLAIN_FOR, template
from tests.controlplane.shipped import MUTATING, POLICIES, Json, shipped
from tests.policies.test_container_cards import by_code

pytestmark = pytest.mark.real_only("a program of ours that make e2e builds with Go counts it")

USER = "jane"
KUBELET = "system:node:n1"
HALF = {"sharedgpu/gpu_request": "0.5"}
ENVIRONMENT, PODS = "kubeshare-environment", "kubeshare-pods"
TAKING = "kubeshare-dialect-pods"
DEFAULT, ALL = "default values", "dialects=all"
#: As the policy that tells containers sees it first.
UNTOLD = "half a card, before it is told"


def plain(containers: int = 3) -> Json:
    return pod("p", "default-scheduler", containers, {})


def half(containers: int = 3) -> Json:
    return pod("p", "kubeshare-scheduler", containers, HALF)


def told(containers: int = 3) -> Json:
    """As it is stored, and as the policy that refuses pods sees it."""
    made = by_code(half(containers))
    made["spec"]["runtimeClassName"] = "nvidia"
    for container in made["spec"]["containers"]:
        for entry in container["env"]:
            if "valueFrom" in entry:
                entry["valueFrom"]["fieldRef"]["apiVersion"] = "v1"
    return made


def updated(one: Json, **changes: object) -> Json:
    return {"object": {**one, **changes}, "oldObject": one, "operation": "UPDATE"}


def annotated(one: Json) -> Json:
    return updated(one, metadata={**one["metadata"], "annotations": {"x": "1"}})


def reported(one: Json) -> Json:
    status = {"conditions": [{"type": "X", "status": "True"}]}
    return {**updated(one, status=status), "subresource": "status", "user": KUBELET}


def writes() -> dict[str, Json]:
    """What is written, by its name in `MOST`."""
    return {
        "a pod without GPU": {"object": plain(), "operation": "CREATE"},
        UNTOLD: {"object": half(), "operation": "CREATE"},
        "half a card": {"object": told(), "operation": "CREATE"},
        "500 containers without GPU": {"object": plain(500), "operation": "CREATE"},
        "half a card for 500 containers": {"object": told(500), "operation": "CREATE"},
        "status of a pod without GPU": reported(plain()),
        "status of half a card": reported(told()),
        "annotation of a pod without GPU": annotated(plain()),
        "annotation of half a card": annotated(told()),
    }


#: Units of each policy's condition at most; the mutation is not asked about updates, and what is
#: refused is not asked before the mutation.
MOST = {
    "a pod without GPU": {ENVIRONMENT: 50, PODS: 80},
    UNTOLD: {ENVIRONMENT: 40},
    "half a card": {ENVIRONMENT: 600, PODS: 750},
    "500 containers without GPU": {ENVIRONMENT: 50, PODS: 80},
    "half a card for 500 containers": {ENVIRONMENT: 85_000, PODS: 90_000},
    "status of a pod without GPU": {PODS: 50},
    "status of half a card": {PODS: 100},
    "annotation of a pod without GPU": {PODS: 150},
    "annotation of half a card": {PODS: 300},
}


#: With `dialects=all` one more policy is asked about creations: which resources containers ask for.
MOST_OF_ALL = {
    **MOST,
    "a pod without GPU": {ENVIRONMENT: 50, PODS: 100, TAKING: 120},
    UNTOLD: {ENVIRONMENT: 40, TAKING: 20},
    "half a card": {ENVIRONMENT: 600, PODS: 750, TAKING: 20},
    "500 containers without GPU": {ENVIRONMENT: 50, PODS: 100, TAKING: 5_500},
    "half a card for 500 containers": {ENVIRONMENT: 85_000, PODS: 90_000, TAKING: 20},
    "annotation of half a card": {PODS: 350},
}
LIMITS = [
    (values, write, name, units)
    for values, limits in ((DEFAULT, MOST), (ALL, MOST_OF_ALL))
    for write, most in limits.items()
    for name, units in most.items()
]
#: Policies that are asked about a write with `dialects=all`, and characters of their conditions: as
#: those of the default values once were.
CHARACTERS_OF_ALL = {
    ("CREATE", "pods"): (3, 13_000),
    ("UPDATE", "pods"): (1, 10_400),
    ("UPDATE", "pods/status"): (1, 10_400),
    ("CREATE", "pods/binding"): (1, 1_600),
    ("DELETE", "pods"): (2, 200),
}


@cache
def objects(values: str) -> tuple[Json, ...]:
    """The chart with these values."""
    if values == DEFAULT:
        return tuple(shipped())
    text = template(f"--set={values}", kubernetes=PLAIN_FOR)
    return tuple(one for one in yaml.safe_load_all(text) if one)


@cache
def costs(values: str) -> dict[str, dict[str, dict[str, int]]]:
    """By write and policy: `condition`, `rest` (variables, validations, mutations), `matches`."""
    build([CEL_COST])
    wanted = (ENVIRONMENT, PODS, TAKING)
    kinds = (MUTATING[0], POLICIES[0])
    policies = [
        one for one in objects(values) if one["kind"] in kinds and one["metadata"]["name"] in wanted
    ]
    named = {name: {"user": USER, **one} for name, one in writes().items()}
    done = subprocess.run(
        [kept(CEL_COST)],
        input=json.dumps({"policies": policies, "writes": named}),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: dict[str, dict[str, dict[str, int]]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("values", "write", "name", "units"), LIMITS)
def test_conditions_are_cheap(values: str, write: str, name: str, units: int) -> None:
    assert costs(values)[write][name]["condition"] <= units


@pytest.mark.parametrize(
    ("values", "write", "name"), [one[:3] for one in LIMITS if one[1] != UNTOLD]
)
def test_where_nothing_is_wrong_nothing_but_a_condition_is_asked(
    values: str, write: str, name: str
) -> None:
    assert not costs(values)[write][name]["matches"]


@pytest.mark.parametrize("values", [DEFAULT, ALL])
def test_the_mutation_of_each_container_is_cheap(values: str) -> None:
    assert costs(values)[UNTOLD][ENVIRONMENT]["rest"] <= 5_000


@pytest.mark.parametrize("write", CHARACTERS_OF_ALL, ids=" ".join)
def test_few_policies_with_short_conditions_are_asked_with_all_dialects(
    write: tuple[str, str],
) -> None:
    expect_short(conditions([*objects(ALL)], write), *CHARACTERS_OF_ALL[write])
