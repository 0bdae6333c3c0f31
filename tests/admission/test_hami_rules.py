"""The policies' CEL does to HAMi's pods what the webhook's code does."""

from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw, json

from kubeshare_py.admission.hami_rules import LISTS, additions, refusals, settings, template
from kubeshare_py.admission.review import dialect_additions
from kubeshare_py.dialects.dialect import Admitted, PodAsk
from kubeshare_py.dialects.dialects import DialectTable
from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.dialects.hami.request import TASK_PRIORITY
from kubeshare_py.dialects.pod_request import first_problem
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.manifests.admission import read_pod
from kubeshare_py.manifests.pods.effective_requests import container_amounts
from tests.admission.evaluated import PodRules
from tests.admission.hami_pods import CASES, Json, a_pod
from tests.controlplane.chart_tables import HAMI
from tests.scale import examples

#: What is added to each container: limits, and variables.
Additions = dict[str, tuple[dict[str, str], dict[str, str]]]


@cache
def rules() -> PodRules:
    return PodRules({**additions(), **refusals()})


def by_policy(pod: Json, dialect: Hami) -> Additions | str:
    found = rules().evaluate(pod, settings(dialect.settings))
    if found["hamiProblem"]:
        return str(found["hamiProblem"])
    named: Additions = {}
    for kind in LISTS:
        for at, added in enumerate(found[f"{kind}Added"]):
            limits = {one["name"]: one["value"] for one in added}
            priority = found[f"{kind}Priority"][at]
            variables = {found["priorityName"]: priority} if priority else {}
            if found["hamiAsks"] and (limits or variables):
                named[f"{kind}-{at}"] = limits, variables
    return named


def by_webhook(pod: Json, dialect: Hami) -> Additions | str:
    read = read_pod(Raw(json.encode(pod)))
    assert not isinstance(read, str)
    table = DialectTable((SHAREDGPU, dialect))
    amounts = container_amounts(read.spec.init_containers, read.spec.containers, table.resources)
    problem = None if read.spec.node_name else first_problem({}, {}, table, amounts)
    if problem:
        return str(problem)
    found = dialect_additions(read, table, PodAsk({}, {}, amounts))
    return found if isinstance(found, str) else dict(_named(found))


def _named(found: Admitted) -> Iterable[tuple[str, Any]]:
    for ref in sorted({*found.limits, *found.variables}, key=str):
        limits = {name: str(amount) for name, amount in found.limits.get(ref, ())}
        yield _name(ref), (limits, dict(found.variables.get(ref, ())))


def _name(ref: ContainerRef) -> str:
    return f"{'initContainers' if ref.init else 'containers'}-{ref.index}"


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "dialect",
    [Hami(), Hami(profile="4paradigm"), Hami(default_gpu_num=0), Hami(default_gpu_num=3)],
    ids=["hami", "4paradigm", "no default count", "three by default"],
)
def test_policy_and_webhook_do_the_same_to_the_pods_of_the_table(name: str, dialect: Hami) -> None:
    pod = CASES[name].pod
    assert by_policy(pod, dialect) == by_webhook(pod, dialect)


_NAMES = [f"nvidia.com/{name}" for name in ("gpu", "gpumem", "gpumem-percentage", "gpucores")]
_AMOUNTS = st.sampled_from(["0", "1", "50", "100", "101", "3000", "5k", "16Gi"])
_LIMITS = st.dictionaries(st.sampled_from([*_NAMES, "nvidia.com/priority"]), _AMOUNTS, max_size=4)
_DIALECTS = st.builds(
    Hami, profile=st.sampled_from(["hami", "4paradigm"]), default_gpu_num=st.integers(0, 2)
)


@st.composite
def pods(draw: st.DrawFn) -> Json:
    lists = {kind: draw(st.lists(_LIMITS, min_size=least, max_size=2)) for least, kind in _SIZES}
    pod = a_pod(*lists["containers"], inits=lists["initContainers"])
    for kind in LISTS:
        for one in pod["spec"].get(kind, ()):
            if draw(st.integers(0, 5)) == 0:
                one["securityContext"] = draw(st.sampled_from([{}, {"privileged": True}]))
    if draw(st.integers(0, 5)) == 0:
        pod["spec"]["nodeName"] = "n1"
    return pod


_SIZES = ((1, "containers"), (0, "initContainers"))


@examples(600)
@example(a_pod({"nvidia.com/gpumem-percentage": "100"}), Hami())
@example(a_pod({"nvidia.com/gpu": "0", "nvidia.com/gpumem": "1"}), Hami())
@example(a_pod({"nvidia.com/gpumem": "1"}), Hami(default_gpu_num=0))
@example(a_pod({"nvidia.com/gpu": "2M"}), Hami())
@example(a_pod({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1Gi"}), Hami(memory_factor=4))
@example(a_pod({"nvidia.com/gpu": "1"}, {"nvidia.com/gpucores": "0"}), Hami())
@given(pods(), _DIALECTS)
def test_policy_and_webhook_do_the_same_to_any_pod(pod: Json, dialect: Hami) -> None:
    assert by_policy(pod, dialect) == by_webhook(pod, dialect)


def test_names_of_resources_are_those_of_the_profile() -> None:
    dialect = Hami(count="example.com/cards", priority="example.com/rank")
    pod = a_pod({"nvidia.com/gpumem": "1", "example.com/rank": "1"})
    found = by_policy(pod, dialect)
    assert found == {"containers-0": ({"example.com/cards": "1"}, {TASK_PRIORITY: "1"})}
    assert found == by_webhook(pod, dialect)


def test_the_charts_rules_are_those_of_the_code() -> None:
    assert HAMI.read_text() == template(), "out of date: make manifests"
