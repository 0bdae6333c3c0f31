"""Volumes, their claims and the kinds of storage.k8s.io: defaults, rules, rows."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.refusals import told
from tests.embedded_cluster.api_client import MERGE, PODS, STRATEGIC, TABLE, Api

CLAIMS = "/api/v1/namespaces/fs/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
GROUP = "/apis/storage.k8s.io/v1"
CLASSES = f"{GROUP}/storageclasses"
NODES = f"{GROUP}/csinodes"
DRIVERS = f"{GROUP}/csidrivers"
CAPACITIES = f"{GROUP}/namespaces/fs/csistoragecapacities"
ATTACHMENTS = f"{GROUP}/volumeattachments"
IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"
DRY = "?dryRun=All"
ON_NODE = {
    "required": {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
                ]
            }
        ]
    }
}


def claim(name: str = "c", **spec: Any) -> dict[str, Any]:
    size = {"requests": {"storage": "1024Mi"}}
    full = {"accessModes": ["ReadWriteOnce"], "resources": size, "storageClassName": "x", **spec}
    return {"metadata": {"name": name}, "spec": full}


def volume(name: str = "v", **spec: Any) -> dict[str, Any]:
    full = {
        "capacity": {"storage": "5120Mi"},
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "hostPath": {"path": "/x"},
        "storageClassName": "x",
        **spec,
    }
    return {"metadata": {"name": name}, "spec": full}


def storage_class(name: str = "fast", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "provisioner": "d.example", **fields}


@pytest.fixture(autouse=True)
def without_classes(api: Api) -> Iterator[None]:
    """No class of the test is left: a default one would be every later claim's."""
    yield
    for one in api.get(CLASSES)["items"]:
        api.delete(f"{CLASSES}/{one['metadata']['name']}")


def test_a_claim_waits_with_defaults_and_a_finalizer(api: Api) -> None:
    created = api.post(f"{CLAIMS}{DRY}", claim())
    assert created["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert created["status"] == {"phase": "Pending"}
    assert created["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "x",
        "volumeMode": "Filesystem",
    }


def test_a_volume_is_pending_with_defaults_and_a_finalizer(api: Api) -> None:
    created = api.post(f"{VOLUMES}{DRY}", volume())
    assert created["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    assert created["status"].keys() == {"phase", "lastPhaseTransitionTime"}
    assert created["status"]["phase"] == "Pending"
    assert created["spec"] == {
        **volume()["spec"],
        "capacity": {"storage": "5Gi"},
        "hostPath": {"path": "/x", "type": ""},
        "persistentVolumeReclaimPolicy": "Retain",
        "volumeMode": "Filesystem",
    }


def test_a_claim_without_class_gets_the_default_one_and_one_with_an_empty_name_none(
    api: Api,
) -> None:
    body = claim()
    del body["spec"]["storageClassName"]
    assert "storageClassName" not in api.post(f"{CLAIMS}{DRY}", body)["spec"]
    marked = storage_class()
    marked["metadata"]["annotations"] = {IS_DEFAULT: "true"}
    api.post(CLASSES, marked)
    api.expect_eventually(
        lambda: api.post(f"{CLAIMS}{DRY}", body)["spec"],
        lambda spec: spec.get("storageClassName") == "fast",
    )
    assert api.post(f"{CLAIMS}{DRY}", claim(storageClassName=""))["spec"]["storageClassName"] == ""


MODES = '"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"'


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (
            {"accessModes": []},
            "spec.accessModes: Required value: at least 1 access mode is required",
        ),
        (
            {"accessModes": ["Foo"]},
            f'spec.accessModes: Unsupported value: "Foo": supported values: {MODES}',
        ),
        (
            {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]},
            "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
        ),
        ({"resources": {}}, "spec.resources[storage]: Required value"),
        (
            {"resources": {"requests": {"storage": "0"}}},
            'spec.resources[storage]: Invalid value: "0": must be greater than zero',
        ),
        (
            {"volumeMode": "Foo"},
            'spec.volumeMode: Unsupported value: "Foo": supported values: "Block", "Filesystem"',
        ),
    ],
)
def test_claims_that_are_refused(api: Api, spec: dict[str, Any], why: str) -> None:
    assert (told(api.post(CLAIMS, claim(**spec))), api.status) == (why, 422)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"accessModes": []}, "spec.accessModes: Required value"),
        (
            {"capacity": {}},
            "[spec.capacity: Required value, spec.capacity: Unsupported value: {}: supported "
            'values: "storage"]',
        ),
        ({"hostPath": None}, "spec: Required value: must specify a volume type"),
        (
            {"nfs": {"server": "s", "path": "/"}},
            "spec.nfs: Forbidden: may not specify more than 1 volume type",
        ),
        (
            {"hostPath": None, "local": {"path": "/x"}},
            "spec.nodeAffinity: Required value: Local volume requires node affinity",
        ),
        (
            {"hostPath": None, "csi": {"driver": "d.example"}},
            "spec.csi.volumeHandle: Required value",
        ),
        (
            {"nodeAffinity": {}},
            "spec.nodeAffinity.required: Required value: must specify required node constraints",
        ),
        (
            {"nodeAffinity": {"required": {"nodeSelectorTerms": []}}},
            "spec.nodeAffinity.required.nodeSelectorTerms: Required value: must have at least one "
            "node selector term",
        ),
        (
            {"persistentVolumeReclaimPolicy": "X"},
            'spec.persistentVolumeReclaimPolicy: Unsupported value: "X": supported values: '
            '"Delete", "Recycle", "Retain"',
        ),
    ],
)
def test_volumes_that_are_refused(api: Api, spec: dict[str, Any], why: str) -> None:
    assert (told(api.post(VOLUMES, volume(**spec))), api.status) == (why, 422)


def test_a_claim_names_its_volume_once_and_nothing_else_changes(api: Api) -> None:
    api.post(CLAIMS, claim())
    fixed = "spec: Forbidden: spec is immutable after creation except resources.requests and "
    fixed += "volumeAttributesClassName for bound claims"
    for spec in (
        {"accessModes": ["ReadOnlyMany"]},
        {"resources": {"requests": {"storage": "2Gi"}}},
    ):
        assert told(api.patch(f"{CLAIMS}/c", {"spec": spec})) == fixed
    assert api.patch(f"{CLAIMS}/c", {"spec": {"volumeName": "v"}})["spec"]["volumeName"] == "v"
    assert told(api.patch(f"{CLAIMS}/c", {"spec": {"volumeName": "w"}})) == fixed


@pytest.mark.embedded_only("the volume controller there writes it back")
def test_a_bound_claim_may_grow_and_not_shrink(api: Api) -> None:
    api.post(CLAIMS, claim(volumeName="v"))
    status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    api.patch(f"{CLAIMS}/c/status", {"status": status})
    row = api.get(CLAIMS, TABLE)["rows"][0]["cells"]
    assert row == ["c", "Bound", "v", "1Gi", "RWO", "x", "<unset>", "0s", "Filesystem"]
    body = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    assert api.patch(f"{CLAIMS}/c", body)["spec"]["resources"] == body["spec"]["resources"]
    body["spec"]["resources"]["requests"]["storage"] = "1Gi"
    assert told(api.patch(f"{CLAIMS}/c", body)) == (
        "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
    )


def test_the_source_mode_and_place_of_a_volume_stay(api: Api) -> None:
    api.post(VOLUMES, volume())
    source = api.patch(f"{VOLUMES}/v", {"spec": {"hostPath": {"path": "/y"}}})
    assert told(source) == (
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after "
        "creation"
    )
    mode = api.patch(f"{VOLUMES}/v", {"spec": {"volumeMode": "Block"}})
    assert told(mode) == 'volumeMode: Invalid value: "Block": field is immutable'
    assert api.patch(f"{VOLUMES}/v", {"spec": {"nodeAffinity": ON_NODE}})["kind"] != "Status"
    place = api.patch(f"{VOLUMES}/v", {"spec": {"nodeAffinity": None}})
    assert told(place).startswith("nodeAffinity: Invalid value: ")


def test_what_is_protected_is_terminating_until_its_finalizer_is_gone(api: Api) -> None:
    body = claim()
    # A finalizer that no controller takes away.
    body["metadata"]["finalizers"] = ["example.com/held"]
    api.post(CLAIMS, body)
    watch = api.watch(CLAIMS)
    deleted = api.delete(f"{CLAIMS}/c")
    assert (deleted["kind"], "deletionTimestamp" in deleted["metadata"]) == (
        "PersistentVolumeClaim",
        True,
    )
    assert api.get(CLAIMS, TABLE)["rows"][0]["cells"][1] == "Terminating"
    api.patch(f"{CLAIMS}/c", {"metadata": {"finalizers": None}})
    api.get(f"{CLAIMS}/c")
    assert api.status == 404
    assert watch.types()[-1] == "DELETED"


def test_rows_of_volumes(api: Api) -> None:
    api.post(VOLUMES, volume(claimRef={"namespace": "fs", "name": "absent"}))
    cells = api.get(VOLUMES, TABLE)["rows"][0]["cells"]
    assert cells[:4] == ["v", "5Gi", "RWO,ROX", "Retain"]
    assert cells[5:9] == ["fs/absent", "x", "<unset>", ""]
    assert cells[10] == "Filesystem"


def test_a_storage_class_has_defaults_and_its_row_marks_the_default_one(api: Api) -> None:
    marked = storage_class()
    marked["metadata"]["annotations"] = {IS_DEFAULT: "true"}
    created = api.post(CLASSES, marked)
    assert (created["reclaimPolicy"], created["volumeBindingMode"]) == ("Delete", "Immediate")
    table = api.get(CLASSES, TABLE)
    assert table["rows"][0]["cells"][:5] == [
        "fast (default)",
        "d.example",
        "Delete",
        "Immediate",
        False,
    ]
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name",
        "Provisioner",
        "ReclaimPolicy",
        "VolumeBindingMode",
        "AllowVolumeExpansion",
        "Age",
    ]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"provisioner": ""}, "provisioner: Required value"),
        (
            {"reclaimPolicy": "Recycle"},
            'reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"',
        ),
        (
            {"volumeBindingMode": "X"},
            'volumeBindingMode: Unsupported value: "X": supported values: "Immediate", '
            '"WaitForFirstConsumer"',
        ),
    ],
)
def test_storage_classes_that_are_refused(api: Api, fields: dict[str, Any], why: str) -> None:
    assert (told(api.post(CLASSES, storage_class(**fields))), api.status) == (why, 422)


def test_only_some_fields_of_a_storage_class_change(api: Api) -> None:
    api.post(CLASSES, storage_class())
    for field, value in (("provisioner", "e"), ("volumeBindingMode", "WaitForFirstConsumer")):
        status = api.patch(f"{CLASSES}/fast", {field: value})
        assert told(status) == f'{field}: Invalid value: "{value}": field is immutable'
    assert api.patch(f"{CLASSES}/fast", {"allowVolumeExpansion": True})["allowVolumeExpansion"]


def test_drivers_of_a_node_merge_by_name_and_their_limits_may_change(api: Api) -> None:
    api.delete(f"{NODES}/n1")
    assert api.post(NODES, {"metadata": {"name": "n1"}, "spec": {}})["spec"] == {"drivers": None}
    driver: dict[str, Any] = {"name": "d.example", "nodeID": "n1", "allocatable": {"count": 3}}
    api.patch(f"{NODES}/n1", {"spec": {"drivers": [driver]}}, STRATEGIC)
    driver["allocatable"]["count"] = 4
    changed = api.patch(f"{NODES}/n1", {"spec": {"drivers": [driver]}}, STRATEGIC)
    assert changed["spec"]["drivers"] == [{**driver, "topologyKeys": None}]
    assert api.get(NODES, TABLE)["rows"][0]["cells"][:2] == ["n1", 1]
    driver["nodeID"] = "other"
    status = api.patch(f"{NODES}/n1", {"spec": {"drivers": [driver]}}, STRATEGIC)
    assert told(status) == "spec.drivers: Invalid value: {}: field is immutable"
    unnamed = api.post(NODES, {"metadata": {"name": "n2"}, "spec": {"drivers": [{"name": "d"}]}})
    assert told(unnamed) == "spec.drivers[0].nodeID: Required value"
    api.delete(f"{NODES}/n1")


def test_a_csi_driver_has_defaults_and_a_row(api: Api) -> None:
    api.delete(f"{DRIVERS}/d.example")
    created = api.post(DRIVERS, {"metadata": {"name": "d.example"}, "spec": {}})
    assert created["spec"] == {
        "attachRequired": True,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "podInfoOnMount": False,
        "requiresRepublish": False,
        "seLinuxMount": False,
        "storageCapacity": False,
        "volumeLifecycleModes": ["Persistent"],
    }
    cells = api.get(DRIVERS, TABLE)["rows"][0]["cells"]
    assert cells[:7] == ["d.example", True, False, False, "<unset>", False, "Persistent"]
    status = api.patch(f"{DRIVERS}/d.example", {"spec": {"attachRequired": False}})
    assert told(status) == "spec.attachedRequired: Invalid value: false: field is immutable"
    assert api.delete(f"{DRIVERS}/d.example")["kind"] == "CSIDriver"


def test_a_storage_capacity_belongs_to_one_class_and_topology(api: Api) -> None:
    topology = {"matchLabels": {"zone": "a"}}
    body = {"metadata": {"name": "x"}, "storageClassName": "fast", "nodeTopology": topology}
    created = api.post(CAPACITIES, {**body, "capacity": "1024Mi"})
    assert created["capacity"] == "1Gi"
    assert api.patch(f"{CAPACITIES}/x", {"capacity": "2Gi"})["capacity"] == "2Gi"
    status = api.patch(f"{CAPACITIES}/x", {"storageClassName": "slow"})
    assert told(status) == 'storageClassName: Invalid value: "slow": field is immutable'
    columns = [column["name"] for column in api.get(CAPACITIES, TABLE)["columnDefinitions"]]
    assert columns == ["Name", "Created At"]
    assert api.delete(f"{CAPACITIES}/x")["status"] == "Success"


def test_an_attachment_has_a_status_of_its_own(api: Api) -> None:
    source = {"persistentVolumeName": "v"}
    spec = {"attacher": "d.example", "nodeName": "n1", "source": source}
    created = api.post(ATTACHMENTS, {"metadata": {"name": "a"}, "spec": spec})
    assert created["status"] == {"attached": False}
    api.patch(f"{ATTACHMENTS}/a/status", {"status": {"attached": True}})
    cells = api.get(ATTACHMENTS, TABLE)["rows"][0]["cells"]
    assert cells[:5] == ["a", "d.example", "v", "n1", True]
    moved = api.patch(f"{ATTACHMENTS}/a", {"spec": {"nodeName": "n2"}})
    assert told(moved) == "spec: Invalid value: {}: field is immutable"
    without = api.post(ATTACHMENTS, {"metadata": {"name": "b"}, "spec": {**spec, "source": {}}})
    assert told(without).startswith("spec.source: Required value: must specify exactly one of")
    assert api.delete(f"{ATTACHMENTS}/a")["kind"] == "VolumeAttachment"


@pytest.mark.parametrize(
    ("volume", "why"),
    [
        ({"persistentVolumeClaim": {}}, ".persistentVolumeClaim.claimName: Required value"),
        ({"ephemeral": {}}, ".ephemeral.volumeClaimTemplate: Required value"),
        ({"persistentVolumeClaim": {"claimName": "c"}}, ""),
    ],
)
def test_claims_as_volumes_of_pods(api: Api, volume: dict[str, Any], why: str) -> None:
    status = _pod(api, volumes=[{"name": "v", **volume}])
    assert told(status) == (f"spec.volumes[0]{why}" if why else "")


def test_the_claim_of_an_ephemeral_volume_has_a_claims_defaults(api: Api) -> None:
    spec = claim()["spec"]
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]
    template = _pod(api, volumes=volumes)["spec"]["volumes"][0]["ephemeral"]["volumeClaimTemplate"]
    size = {"requests": {"storage": "1Gi"}}
    assert template == {
        "metadata": {},
        "spec": {**spec, "resources": size, "volumeMode": "Filesystem"},
    }


def _pod(api: Api, **spec: Any) -> Any:
    containers = [{"name": "a", "image": "x"}]
    token = {"automountServiceAccountToken": False}
    body = {"metadata": {"name": "p"}, "spec": {"containers": containers, **token, **spec}}
    return api.post(f"{PODS}{DRY}", body)


def test_a_status_is_not_written_through_the_object(api: Api) -> None:
    api.post(VOLUMES, volume())
    changed = api.patch(f"{VOLUMES}/v", {"status": {"message": "told"}}, MERGE)
    assert "message" not in changed["status"]
    changed = api.patch(f"{VOLUMES}/v/status", {"status": {"message": "told"}}, MERGE)
    assert changed["status"]["message"] == "told"
