"""The simulated storage driver: which claims get a volume, where and when."""

from typing import Any

import pytest

from kubeshare_py.embedded_cluster.controllers.controller import ControllerWork
from kubeshare_py.embedded_cluster.controllers.provisioning import PROVISIONER, ProvisionerCache
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    CLAIMS,
    STORAGE_CLASSES,
    VOLUMES,
    UnstructuredObject,
)
from tests.embedded_cluster.controllers.objects import NOW, claim, storage_class, volume

ASKED = {"volume.kubernetes.io/storage-provisioner": PROVISIONER}
ON_NODE = {**ASKED, "volume.kubernetes.io/selected-node": "n1"}
LATE = "WaitForFirstConsumer"


def cache(chosen: UnstructuredObject, *volumes: UnstructuredObject) -> ProvisionerCache:
    known = ProvisionerCache()
    known.listed(STORAGE_CLASSES, [chosen], 0.0)
    known.listed(VOLUMES, volumes, 0.0)
    known.listed(CLAIMS, [], 0.0)
    return known


def work(known: ProvisionerCache, found: UnstructuredObject, now: float = NOW) -> ControllerWork:
    known.seen(CLAIMS, found)
    [(_, todo)] = known.work(now)
    return todo


def test_a_volume_is_made_for_the_claim_on_its_node() -> None:
    [new] = work(cache(storage_class(LATE)), claim(size="7Gi", annotations=ON_NODE)).create
    spec = new.body["spec"]
    assert new.body["metadata"]["name"] == "pvc-uid-c"
    assert spec["capacity"] == {"storage": "7Gi"}
    assert spec["claimRef"]["uid"] == "uid-c"
    [term] = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["n1"]


@pytest.mark.parametrize(
    ("mode", "fields"),
    [
        ("Immediate", {}),
        ("Immediate", {"annotations": {**ASKED, next(iter(ASKED)): "other.example"}}),
        (LATE, {"annotations": ASKED}),
        ("Immediate", {"annotations": ASKED, "volumeName": "v"}),
        ("Immediate", {"annotations": ASKED, "deleted": "2027-01-15T08:00:00Z"}),
    ],
)
def test_claims_that_get_no_volume(mode: str, fields: dict[str, Any]) -> None:
    assert work(cache(storage_class(mode)), claim(**fields)) == ControllerWork()


def test_a_volume_is_made_once() -> None:
    known = cache(storage_class(), volume("pvc-uid-c"))
    assert not work(known, claim(annotations=ASKED)).create


def test_a_volume_takes_as_long_as_its_class_says() -> None:
    known = cache(storage_class(parameters={"delaySeconds": "3"}))
    waiting = claim(annotations=ASKED)
    assert work(known, waiting).look_at == NOW + 3
    assert work(known, waiting, NOW + 2).look_at == NOW + 3
    assert work(known, waiting, NOW + 3).create


@pytest.mark.parametrize("delay", ["never", "", "nan", "inf", "-1"])
def test_a_delay_that_cannot_be_read_is_an_event_of_the_claim(delay: str) -> None:
    todo = work(cache(storage_class(parameters={"delaySeconds": delay})), claim(annotations=ASKED))
    assert not todo.create
    assert todo.look_at is None
    [event] = todo.events
    assert event.reason == "ProvisioningFailed"
    assert event.message == (
        'failed to provision volume with StorageClass "fast": '
        f"parameter delaySeconds is no number of seconds: {delay!r}"
    )


def test_a_node_that_is_refused_is_taken_off_the_claim() -> None:
    known = cache(storage_class(LATE, parameters={"refusedNodes": "n0,n1"}))
    todo = work(known, claim(annotations=ON_NODE))
    assert not todo.create
    selected = {"volume.kubernetes.io/selected-node": None}
    assert todo.change[0].body == {"metadata": {"annotations": selected}}
    assert [event.reason for event in todo.events] == ["ProvisioningFailed"]
