"""A stock kubectl and the kinds of storage and devices, on either API server."""

import json
from typing import Any

import pytest

from tests.conformance.kubectl import KUBECTL, Kubectl

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")

STORAGE, DEVICES = "storage.k8s.io/v1", "resource.k8s.io/v1"
CLAIM_SPEC = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "own",
    "volumeName": "v",
}


def named(version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


def device_claim() -> dict[str, Any]:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    return {"devices": {"requests": [request]}}


POOL = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
OBJECTS = {
    "storageclass.storage.k8s.io/own": named(
        STORAGE, "StorageClass", "own", provisioner="kubernetes.io/no-provisioner"
    ),
    "persistentvolume/v": named(
        "v1",
        "PersistentVolume",
        "v",
        spec={
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "own",
            "hostPath": {"path": "/x"},
        },
    ),
    "persistentvolumeclaim/c": named("v1", "PersistentVolumeClaim", "c", spec=CLAIM_SPEC),
    "csinode.storage.k8s.io/n1": named(STORAGE, "CSINode", "n1", spec={"drivers": []}),
    "csidriver.storage.k8s.io/d.example": named(STORAGE, "CSIDriver", "d.example", spec={}),
    "csistoragecapacity.storage.k8s.io/cap": named(
        STORAGE, "CSIStorageCapacity", "cap", storageClassName="own"
    ),
    "volumeattachment.storage.k8s.io/att": named(
        STORAGE,
        "VolumeAttachment",
        "att",
        spec={
            "attacher": "d.example",
            "nodeName": "n1",
            "source": {"persistentVolumeName": "v"},
        },
    ),
    "deviceclass.resource.k8s.io/gpu": named(DEVICES, "DeviceClass", "gpu", spec={}),
    "resourceclaim.resource.k8s.io/rc": named(DEVICES, "ResourceClaim", "rc", spec=device_claim()),
    "resourceclaimtemplate.resource.k8s.io/t": named(
        DEVICES, "ResourceClaimTemplate", "t", spec={"spec": device_claim()}
    ),
    "resourceslice.resource.k8s.io/s": named(
        DEVICES,
        "ResourceSlice",
        "s",
        spec={"driver": "d.example", "nodeName": "n1", "pool": POOL, "devices": [{"name": "a"}]},
    ),
}


async def test_apply_makes_each_kind_and_finds_it_unchanged(kubectl: Kubectl) -> None:
    first = await kubectl.apply(*OBJECTS.values())
    assert first.splitlines() == [f"{name} created" for name in OBJECTS]
    # Patches of JSON's null and of empty lists are no changes.
    again = (await kubectl.apply(*OBJECTS.values())).splitlines()
    assert [line for line in again if not line.endswith((" unchanged", " configured"))] == []
    assert kubectl.code == 0


@pytest.mark.slow
async def test_get_describe_and_delete_know_each_kind(kubectl: Kubectl) -> None:
    await kubectl.apply(*OBJECTS.values())
    shown = json.loads(await kubectl("get", *OBJECTS, "-o", "json"))["items"]
    kinds = [name.partition("/")[0].partition(".")[0] for name in OBJECTS]
    assert [one["kind"].lower() for one in shown] == kinds
    described = await kubectl("describe", *OBJECTS)
    names = [line.split()[1] for line in described.splitlines() if line.startswith("Name: ")]
    assert names == [name.rpartition("/")[2] for name in OBJECTS]
    deleted = await kubectl("delete", *OBJECTS, "--wait=false")
    assert deleted.count("deleted") == len(OBJECTS)


@pytest.mark.slow
async def test_short_names_headers_and_selections(kubectl: Kubectl) -> None:
    await kubectl.apply(*OBJECTS.values())
    assert (await kubectl("get", "sc")).split()[:4] == [
        "NAME",
        "PROVISIONER",
        "RECLAIMPOLICY",
        "VOLUMEBINDINGMODE",
    ]
    wide = (await kubectl("get", "pvc", "-o", "wide")).splitlines()[0].split()
    assert wide == [
        "NAME",
        "STATUS",
        "VOLUME",
        "CAPACITY",
        "ACCESS",
        "MODES",
        "STORAGECLASS",
        "VOLUMEATTRIBUTESCLASS",
        "AGE",
        "VOLUMEMODE",
    ]
    volumes = (await kubectl("get", "pv", "--no-headers")).split()
    assert volumes[:4] == ["v", "2Gi", "RWO", "Retain"]
    claims = (await kubectl("get", "resourceclaims", "--no-headers")).split()
    assert claims[:2] == ["rc", "pending"]
    slices = await kubectl("get", "resourceslices", "--field-selector=spec.nodeName=n2")
    assert slices.startswith("No resources found")


@pytest.mark.slow
async def test_patches_of_objects_and_of_their_status(kubectl: Kubectl) -> None:
    await kubectl.apply(*OBJECTS.values())
    marked = '{"metadata":{"annotations":{"storageclass.kubernetes.io/is-default-class":"true"}}}'
    await kubectl("patch", "sc", "own", "-p", marked)
    assert "own (default)" in await kubectl("get", "sc")
    attached = '{"status":{"attached":true}}'
    args = ("patch", "volumeattachment", "att", "--subresource=status", "--type=merge")
    await kubectl(*args, "-p", attached)
    row = (await kubectl("get", "volumeattachments", "--no-headers")).split()
    assert row[:5] == ["att", "d.example", "v", "n1", "true"]
    refused = await kubectl("patch", "pvc", "c", "-p", '{"spec":{"accessModes":["ReadWriteMany"]}}')
    assert 'The PersistentVolumeClaim "c" is invalid: spec: Forbidden:' in refused
    assert kubectl.code == 1
