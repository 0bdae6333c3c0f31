"""Which pods a ResourceQuota with scopes is about, as the API server itself counts them."""

from typing import Any

import msgspec
import pytest

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.manifests.events import ResourceQuotaFields, to_quota
from kubeshare_py.manifests.pods.pod import to_domain
from kubeshare_py.manifests.pods.pod_fields import PodFields
from tests.deploy.conftest import expect_eventually
from tests.stories.conftest import PODS, Json, Stage
from tests.stories.test_preemption import make_classes

pytestmark = pytest.mark.real_only("the embedded API server does not count what quotas limit")

QUOTAS = PODS.replace("/pods", "/resourcequotas")
HAMI = Dialects({"kubeshare-scheduler": (Hami(),)})
TERM: Json = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
HARD = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"
CPU: Json = {"containers": [{"name": "a", "image": "a", "resources": {"limits": {"cpu": "1"}}}]}
SPECS: dict[str, Json] = {
    "plain": {},
    "low": {"priorityClassName": "low"},
    "high": {"priorityClassName": "high", **CPU},
    "ends": {"activeDeadlineSeconds": 60, "priorityClassName": "high"},
    "burst": CPU,
    "near": {"affinity": {"podAffinity": {HARD: [{**TERM, "namespaces": ["default"]}]}}},
    "far": {
        "affinity": {
            "podAntiAffinity": {
                SOFT: [{"weight": 1, "podAffinityTerm": {**TERM, "namespaceSelector": {}}}]
            }
        }
    },
    "here": {"affinity": {"podAffinity": {HARD: [TERM]}}},
}


def of_classes(operator: str, *values: str) -> Json:
    line: Json = {"scopeName": "PriorityClass", "operator": operator}
    return {"scopeSelector": {"matchExpressions": [line | ({"values": values} if values else {})]}}


SCOPES: dict[str, Json] = {
    "all": {},
    "in": of_classes("In", "low", "middle"),
    "not-in": of_classes("NotIn", "low"),
    "exists": of_classes("Exists"),
    "exists-too": {"scopes": ["PriorityClass"]},
    "without": of_classes("DoesNotExist"),
    "terminating": {"scopes": ["Terminating"]},
    "not-terminating": {"scopes": ["NotTerminating"]},
    "best-effort": {"scopes": ["BestEffort"]},
    "not-best-effort": {"scopes": ["NotBestEffort"]},
    "crossing": {"scopes": ["CrossNamespacePodAffinity"]},
    "both": {**of_classes("In", "high"), "scopes": ["Terminating"]},
    "neither": {**of_classes("DoesNotExist"), "scopes": ["NotTerminating", "NotBestEffort"]},
}


async def test_pods_count_in_our_quotas_that_count_in_those_of_the_api_server(
    empty_stage: Stage,
) -> None:
    """`pods` is a resource that the API server counts itself."""
    client = empty_stage.client
    await make_classes(empty_stage)
    quotas = [
        to_quota(msgspec.convert(await client.create(QUOTAS, body), ResourceQuotaFields))
        for name, scopes in SCOPES.items()
        for body in [{"metadata": {"name": name}, "spec": {"hard": {"pods": "100"}, **scopes}}]
    ]
    for name, spec in SPECS.items():
        await empty_stage.create(name, **{"schedulerName": "nobody", **spec})
    pods: list[Any] = [
        to_domain(msgspec.json.decode(msgspec.json.encode(one), type=PodFields), HAMI)
        for one in await client.list_all(PODS)
    ]
    ours = {one.name: sum(one.is_about(pod.scopes) for pod in pods) for one in quotas}
    assert len({*ours.values()}) > 4

    async def theirs() -> Json:
        listed = await client.list_all(QUOTAS)
        return {
            one["metadata"]["name"]: int(one.get("status", {}).get("used", {}).get("pods", -1))
            for one in listed
        }

    assert ours == await expect_eventually(theirs, lambda found: found == ours, 30)
