"""Pods of gangs, by label and by PodGroup."""

from typing import Any

from tests.stories.conftest import Json, Stage, gpu

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POD_GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
LABEL = "scheduling.x-k8s.io/pod-group"

_INTEGER = {"type": "integer", "format": "int32"}
_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "minMember": {**_INTEGER, "minimum": 1},
                "scheduleTimeoutSeconds": _INTEGER,
                "minResources": {
                    "type": "object",
                    "additionalProperties": {
                        "anyOf": [{"type": "integer"}, {"type": "string"}],
                        "x-kubernetes-int-or-string": True,
                    },
                },
            },
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
#: As much of the coscheduling plugin's definition as matters here.
DEFINITION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "podgroups.scheduling.x-k8s.io",
        "annotations": {
            "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"
        },
    },
    "spec": {
        "group": "scheduling.x-k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": _SCHEMA},
                "subresources": {"status": {}},
            }
        ],
    },
}


def gang(name: str, headcount: int, threshold: str = "1.0", request: str = "1.0") -> dict[str, str]:
    """Labels of a member."""
    group = {"group_name": name, "group_headcount": str(headcount), "group_threshold": threshold}
    return gpu(request, "1.0" if float(request) <= 1 else request, **group)


def described(name: str, request: str = "1.0") -> dict[str, str]:
    """Labels of a pod whose group a PodGroup describes."""
    return {**gpu(request), LABEL: name}


def job(name: str, count: int, labels: dict[str, str], **spec: Any) -> Json:
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "schedulerName": "kubeshare-scheduler",
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox"}],
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"parallelism": count, "completions": count, **spec, "template": template},
    }


async def define_pod_groups(stage: Stage) -> None:
    """Install the definition, and wait until it is served."""
    await stage.client.create(DEFINITIONS, DEFINITION)

    def served(definition: Json) -> bool:
        conditions = definition.get("status", {}).get("conditions") or []
        return ("Established", "True") in {(one["type"], one["status"]) for one in conditions}

    await stage.expect_in(DEFINITIONS, DEFINITION["metadata"]["name"], served)


async def pod_group(stage: Stage, name: str, least: int) -> None:
    """Make a PodGroup."""
    body = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": least, "scheduleTimeoutSeconds": 10},
    }
    await stage.client.create(POD_GROUPS, body)
