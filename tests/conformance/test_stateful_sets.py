"""StatefulSets and ReplicationControllers: defaults, rules, rows."""

from typing import Any

import pytest

from tests.conformance.refusals import told
from tests.embedded_cluster.api_client import TABLE, Api

SETS = "/apis/apps/v1/namespaces/fs/statefulsets"
CONTROLLERS = "/api/v1/namespaces/fs/replicationcontrollers"
DRY = "?dryRun=All"
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def template(**container: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "a", "image": "x:1", **container}]}
    return {"metadata": {"labels": {"app": "db"}}, "spec": spec}


def stateful_set(**spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "db"}}
    mounts = [{"name": "data", "mountPath": "/data"}]
    full = {
        "replicas": 0,
        "serviceName": "db",
        "selector": selector,
        "template": template(volumeMounts=mounts),
        "volumeClaimTemplates": [CLAIM],
        **spec,
    }
    return {"metadata": {"name": "db"}, "spec": full}


def test_a_set_has_defaults_and_so_have_its_claims(api: Api) -> None:
    created = api.post(f"{SETS}{DRY}", stateful_set())
    spec = created["spec"]
    assert spec["podManagementPolicy"] == "OrderedReady"
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    retention = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert spec["persistentVolumeClaimRetentionPolicy"] == retention
    [claim] = spec["volumeClaimTemplates"]
    assert (claim["kind"], claim["apiVersion"]) == ("PersistentVolumeClaim", "v1")
    assert (claim["spec"]["volumeMode"], claim["status"]) == ("Filesystem", {"phase": "Pending"})
    assert created["status"] == {"replicas": 0, "availableReplicas": 0}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (
            {"selector": {}},
            "spec.selector: Invalid value: {}: empty selector is invalid for statefulset",
        ),
        (
            {"podManagementPolicy": "X"},
            "spec.podManagementPolicy: Invalid value: \"X\": must be 'OrderedReady' or 'Parallel'",
        ),
        ({"replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"volumeClaimTemplates": []},
            'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"',
        ),
        (
            {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "X"}},
            'spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "X": '
            'supported values: "Retain", "Delete"',
        ),
    ],
)
def test_sets_that_are_refused(api: Api, spec: dict[str, Any], why: str) -> None:
    assert told(api.post(f"{SETS}{DRY}", stateful_set(**spec))) == why


def test_a_set_is_scaled_and_its_claims_are_fixed(api: Api) -> None:
    api.post(SETS, stateful_set())
    scale = api.get(f"{SETS}/db/scale")
    assert (scale["spec"], scale["status"]["selector"]) == ({}, "app=db")
    moved = api.patch(f"{SETS}/db", {"spec": {"serviceName": "other"}})
    assert told(moved).startswith("spec: Forbidden: updates to statefulset spec for fields other")
    cells = api.get(SETS, TABLE)["rows"][0]["cells"]
    assert (cells[:2], cells[3:]) == (["db", "0/0"], ["a", "x:1"])
    api.delete(f"{SETS}/db")


def test_a_replication_controller_selects_the_labels_of_its_template(api: Api) -> None:
    body = {"metadata": {"name": "r"}, "spec": {"replicas": 0, "template": template()}}
    created = api.post(f"{CONTROLLERS}{DRY}", body)
    assert created["spec"]["selector"] == created["metadata"]["labels"] == {"app": "db"}
    body["spec"] = {"template": template(), "selector": {"app": "other"}}
    assert told(api.post(f"{CONTROLLERS}{DRY}", body)) == (
        "spec.template.metadata.labels: Invalid value: {}: `selector` does not match template "
        "`labels`"
    )
    table = api.get(CONTROLLERS, TABLE)
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names == [
        "Name",
        "Desired",
        "Current",
        "Ready",
        "Age",
        "Containers",
        "Images",
        "Selector",
    ]
