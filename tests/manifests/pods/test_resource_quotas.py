"""ResourceQuotas: limits of extended resources and scopes count, and nothing else."""

from typing import Any

import msgspec
import pytest

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.domain.quota import NO_SCOPES, QuotaObject
from kubeshare_py.manifests.events import ResourceQuotaFields, to_quota
from kubeshare_py.manifests.pods.pod import to_domain
from kubeshare_py.manifests.pods.pod_fields import PodFields

Json = dict[str, Any]
HAMI = Dialects({"kubeshare-scheduler": (Hami(),)})
NEAR, FAR = "podAffinity", "podAntiAffinity"
HARD = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"


def test_limits_of_extended_resources_are_kept() -> None:
    """In HAMi `requests.` and the count are no limits, and what is no number is ignored."""
    hard = {
        "limits.nvidia.com/gpumem": "4k",
        "limits.nvidia.com/gpucores": 200,
        "limits.x.io/odd": "many",
        "requests.nvidia.com/gpu": "4",
        "limits.cpu": "4",
        "pods": "10",
    }
    written = {"metadata": {"name": "q", "namespace": "a"}, "spec": {"hard": hard}}
    assert to_quota(msgspec.convert(written, ResourceQuotaFields)) == QuotaObject(
        name="q",
        namespace="a",
        hard_limits=(("nvidia.com/gpucores", 200), ("nvidia.com/gpumem", 4000)),
    )


def test_a_quota_without_limits_limits_nothing() -> None:
    assert to_quota(ResourceQuotaFields()).hard_limits == ()


def counts(quota: Json, spec: Json, status: Json | None = None) -> bool:
    """Whether a quota with this spec is about a pod with these fields."""
    made = to_quota(msgspec.convert({"spec": quota}, ResourceQuotaFields))
    fields = {"metadata": {"name": "p"}, "spec": spec, "status": status or {}}
    encoded = msgspec.json.encode(fields)
    pod = to_domain(msgspec.json.decode(encoded, type=PodFields), HAMI)
    return made.is_about(pod.scopes)


def selector(scope: str, operator: str, *values: str) -> Json:
    line: Json = {"scopeName": scope, "operator": operator}
    return {"scopeSelector": {"matchExpressions": [line | ({"values": values} if values else {})]}}


@pytest.mark.parametrize(
    ("operator", "values", "no_class", "of_batch", "of_prod"),
    [
        ("In", ("batch",), False, True, False),
        ("In", ("batch", "prod"), False, True, True),
        ("NotIn", ("batch",), True, False, True),
        ("Exists", (), False, True, True),
        ("DoesNotExist", (), True, False, False),
    ],
)
def test_a_quota_of_priority_classes_is_about_their_pods(
    operator: str, values: tuple[str, ...], no_class: bool, of_batch: bool, of_prod: bool
) -> None:
    """podMatchesSelector: as a selector of labels, of which a pod without a class has none."""
    quota = selector("PriorityClass", operator, *values)
    found = [counts(quota, {"priorityClassName": name}) for name in ("", "batch", "prod")]
    assert found == [no_class, of_batch, of_prod]
    assert counts({"scopes": ["PriorityClass"]}, {"priorityClassName": "prod"})
    assert not counts({"scopes": ["PriorityClass"]}, {})


@pytest.mark.parametrize("deadline", [None, 0, 60])
def test_pods_with_a_deadline_are_terminating(deadline: int | None) -> None:
    spec = {} if deadline is None else {"activeDeadlineSeconds": deadline}
    for write in (lambda scope: {"scopes": [scope]}, lambda scope: selector(scope, "Exists")):
        assert counts(write("Terminating"), spec) is (deadline is not None)
        assert counts(write("NotTerminating"), spec) is (deadline is None)


def container(**amounts: Json) -> Json:
    return {"name": "c", "resources": amounts}


@pytest.mark.parametrize(
    ("spec", "status", "is_best_effort"),
    [
        ({}, {"qosClass": "BestEffort"}, True),
        ({}, {"qosClass": "Burstable"}, False),
        ({}, {"qosClass": "Guaranteed"}, False),
        ({"containers": [container(limits={"nvidia.com/gpumem": "1"})]}, {}, True),
        ({"containers": [container(requests={"cpu": "0"})]}, {}, True),
        ({"containers": [container(requests={"cpu": "1m"})]}, {}, False),
        ({"containers": [container(), container(limits={"memory": "1Mi"})]}, {}, False),
        ({"initContainers": [container(limits={"cpu": "1"})]}, {}, False),
        ({"resources": {"requests": {"cpu": "1"}}}, {}, False),
    ],
)
def test_pods_without_cpu_and_memory_are_best_effort(
    spec: Json, status: Json, is_best_effort: bool
) -> None:
    """GetPodQOS: the status says it, and without one the amounts of all containers."""
    assert counts({"scopes": ["BestEffort"]}, spec, status) is is_best_effort
    assert counts({"scopes": ["NotBestEffort"]}, spec, status) is not is_best_effort


@pytest.mark.parametrize(
    ("term", "crosses"),
    [
        ({}, False),
        ({"namespaces": []}, False),
        ({"namespaces": ["a"]}, True),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": None}, False),
    ],
)
def test_terms_with_namespaces_are_a_scope(term: Json, crosses: bool) -> None:
    whole = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, **term}
    weighted = {"weight": 1, "podAffinityTerm": whole}
    quota = {"scopes": ["CrossNamespacePodAffinity"]}
    for kind in (NEAR, FAR):
        for terms in ({HARD: [whole]}, {SOFT: [weighted]}):
            assert counts(quota, {"affinity": {kind: terms}}) is crosses
    assert not counts(quota, {})


def test_a_pod_is_in_all_scopes_of_its_quota_and_in_none_of_other_objects() -> None:
    batch = selector("PriorityClass", "In", "batch")
    both = {**batch, "scopes": ["NotTerminating"]}
    assert counts(both, {"priorityClassName": "batch"})
    assert not counts(both, {"priorityClassName": "batch", "activeDeadlineSeconds": 1})
    assert not counts(both, {"priorityClassName": "prod"})
    assert not counts(selector("VolumeAttributesClass", "Exists"), {})
    assert counts({}, {"priorityClassName": "batch"})


def test_where_no_dialect_has_quotas_scopes_are_not_asked_for() -> None:
    fields = msgspec.convert({"spec": {"priorityClassName": "batch"}}, PodFields)
    assert to_domain(fields).scopes is NO_SCOPES
