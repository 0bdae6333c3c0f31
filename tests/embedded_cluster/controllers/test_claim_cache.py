"""How claims get their volumes, step by step."""

from typing import Any

import pytest

from kubeshare_py.embedded_cluster.controllers.controller import ControllerWork
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    CLAIMS,
    PODS,
    STORAGE_CLASSES,
    VOLUMES,
    UnstructuredMetadata,
    UnstructuredObject,
)
from kubeshare_py.embedded_cluster.controllers.volume_binding import ClaimCache
from tests.embedded_cluster.controllers.objects import NOW, claim, reserved, storage_class, volume

COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}
SELECTED = {"volume.kubernetes.io/selected-node": "n1"}


def cache(*volumes: UnstructuredObject, classes: Any = (), pods: Any = ()) -> ClaimCache:
    found = ClaimCache()
    found.listed(VOLUMES, volumes, 0.0)
    found.listed(STORAGE_CLASSES, classes, 0.0)
    found.listed(PODS, pods, 0.0)
    found.listed(CLAIMS, [], 0.0)
    return found


def work(known: ClaimCache, *claims: UnstructuredObject) -> list[ControllerWork]:
    for one in claims:
        known.seen(CLAIMS, one)
    return [found for _, found in known.work(NOW)]


def chosen(known: ClaimCache, wanted: UnstructuredObject) -> str:
    """The volume that a claim reserves; "" for none."""
    [found] = work(known, wanted)
    return found.change[0].object.metadata.name if found.change else ""


def pod(namespace: str = "ns", name: str = "p", **fields: Any) -> UnstructuredObject:
    mounts = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    spec = {"nodeName": "n1", "volumes": mounts, **fields.pop("spec", {})}
    metadata = UnstructuredMetadata(name=name, namespace=namespace, uid=f"uid-{name}")
    return UnstructuredObject(metadata=metadata, spec=spec, **fields)


def test_a_claim_reserves_the_smallest_volume_that_fits() -> None:
    known = cache(volume("large", "9Gi"), volume("right", "3Gi"), volume("small", "1Gi"))
    [found] = work(known, claim(size="2Gi"))
    [change] = found.change
    assert change.object.metadata.name == "right"
    reference = change.body["spec"]["claimRef"]
    assert (reference["name"], reference["uid"]) == ("c", "uid-c")
    marks = change.body["metadata"]["annotations"]
    assert marks == {"pv.kubernetes.io/bound-by-controller": "yes"}


@pytest.mark.parametrize(
    "unfit",
    [
        volume(size="1023Mi"),
        volume(status={"phase": "Released"}),
        volume(storageClassName="slow"),
        volume(volumeMode="Block"),
        volume(accessModes=["ReadWriteMany"]),
        volume(deleted="2027-01-15T08:00:00Z"),
        reserved("v", "other"),
    ],
)
def test_volumes_that_do_not_fit(unfit: UnstructuredObject) -> None:
    assert chosen(cache(unfit), claim()) == ""


def test_a_selector_looks_at_labels() -> None:
    known = cache(volume("a", labels={"tier": "x"}), volume("b", labels={"tier": "y"}))
    assert chosen(known, claim(selector={"matchLabels": {"tier": "y"}})) == "b"


def test_two_claims_of_one_moment_get_two_volumes() -> None:
    known = cache(volume("a"), volume("b"))
    found = work(known, claim("c"), claim("d"))
    assert {one.change[0].object.metadata.name for one in found} == {"a", "b"}


def test_a_volume_that_was_given_in_vain_is_offered_again() -> None:
    known = cache(volume("a"))
    assert chosen(known, claim("c")) == "a"
    assert chosen(known, claim("d")) == ""
    known.seen(VOLUMES, volume("a", version="2"))
    given = [one.change[0].object.metadata.name for _, one in known.work(NOW) if one.change]
    assert given == ["a"]


def test_a_reserved_volume_is_named_by_its_claim_then_the_claim_is_bound() -> None:
    known = cache(reserved("v", "c"), classes=[storage_class("WaitForFirstConsumer")])
    [found] = work(known, claim())
    [change] = found.change
    assert (change.kind, change.body["spec"]) == (CLAIMS, {"volumeName": "v"})
    [found] = work(known, claim(volumeName="v", annotations=COMPLETED))
    assert found.status is not None
    assert found.status["status"]["phase"] == "Bound"
    assert found.status["status"]["capacity"] == {"storage": "1Gi"}


@pytest.mark.parametrize(("annotations", "phase"), [(COMPLETED, "Lost"), (None, "Pending")])
def test_a_claim_without_its_volume_is_lost_if_it_had_it(
    annotations: dict[str, str] | None, phase: str
) -> None:
    for known in (cache(), cache(reserved("v", "other"))):
        [found] = work(known, claim(volumeName="v", annotations=annotations))
        assert found.status is not None
        assert found.status["status"]["phase"] == phase
        assert bool(found.events) == (phase == "Lost")


def test_a_delayed_claim_takes_no_volume_and_waits_for_its_node() -> None:
    known = cache(volume(), classes=[storage_class("WaitForFirstConsumer")])
    [found] = work(known, claim())
    assert not found.change
    assert [event.reason for event in found.events] == ["WaitForFirstConsumer"]
    [again] = work(known, claim(version="2"))
    assert not again.events
    [asked] = work(known, claim(annotations=SELECTED))
    wanted = asked.change[0].body["metadata"]["annotations"]
    assert wanted["volume.kubernetes.io/storage-provisioner"] == "disks.kubeshare.sim"


def test_a_claim_of_no_class_and_one_of_an_absent_class_say_so() -> None:
    none = [found.events[0].reason for found in work(cache(), claim(storageClassName=""))]
    absent = [found.events[0].message for found in work(cache(), claim("d"))]
    assert none == ["FailedBinding"]
    assert absent == ['storageclass.storage.k8s.io "fast" not found']


GOING: dict[str, Any] = {
    "deleted": "2027-01-15T08:00:00Z",
    "finalizers": ["kubernetes.io/pvc-protection"],
}


@pytest.mark.parametrize(
    ("mounting", "kept"),
    [
        (pod(), True),
        (pod(namespace="other"), False),
        (pod(spec={"nodeName": ""}), False),
        (pod(status={"phase": "Succeeded"}), False),
    ],
)
def test_a_claim_is_kept_while_a_pod_on_a_node_mounts_it(
    mounting: UnstructuredObject, kept: bool
) -> None:
    [found] = work(cache(pods=[mounting]), claim(**GOING))
    assert bool(found.change) != kept


def test_the_end_of_the_last_pod_releases_its_claim() -> None:
    known = cache(pods=[pod()])
    assert not work(known, claim(**GOING))[0].change
    known.gone(PODS, "uid-p")
    [found] = work(known)
    assert found.change[0].body == {"metadata": {"finalizers": []}}
