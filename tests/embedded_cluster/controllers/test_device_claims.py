"""When ResourceClaims lose their reservations, devices and finalizer."""

from typing import Any

from kubeshare_py.embedded_cluster.controllers.controller import ControllerWork
from kubeshare_py.embedded_cluster.controllers.pod_claims import PROTECTION, ReservationCache
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    DEVICE_CLAIMS,
    PODS,
    UnstructuredMetadata,
    UnstructuredObject,
)
from tests.embedded_cluster.controllers.objects import NOW

POD = UnstructuredObject(metadata=UnstructuredMetadata(name="p", namespace="ns", uid="uid-p"))
HELD = [{"resource": "pods", "name": "p", "uid": "uid-p"}]
ALLOCATION: Any = {"devices": {"results": []}}
NOTHING_HELD = {"allocation": None, "devices": None}


def claim(status: Any = None, **metadata: Any) -> UnstructuredObject:
    given = {"finalizers": [PROTECTION], "resourceVersion": "1", **metadata}
    identity = UnstructuredMetadata(name="c", namespace="ns", uid="uid-c", **given)
    return UnstructuredObject(metadata=identity, status=status or {})


def cache(*pods: UnstructuredObject) -> ReservationCache:
    known = ReservationCache()
    known.listed(DEVICE_CLAIMS, [], 0.0)
    known.listed(PODS, pods, 0.0)
    return known


def work(known: ReservationCache, found: UnstructuredObject) -> ControllerWork:
    known.seen(DEVICE_CLAIMS, found)
    [(_, todo)] = known.work(NOW)
    return todo


def test_a_claim_that_is_about_to_be_allocated_keeps_its_finalizer() -> None:
    assert work(cache(), claim()) == ControllerWork()


def test_an_allocated_claim_without_pods_keeps_its_devices() -> None:
    assert work(cache(), claim({"allocation": ALLOCATION})) == ControllerWork()


def test_a_claim_whose_pod_goes_on_is_left_alone() -> None:
    held = claim({"allocation": ALLOCATION, "reservedFor": HELD})
    assert work(cache(POD), held) == ControllerWork()


def test_a_claim_that_its_last_pod_leaves_is_released() -> None:
    known = cache()
    todo = work(known, claim({"allocation": ALLOCATION, "reservedFor": HELD}))
    assert todo.status is not None
    assert todo.status["status"] == {"reservedFor": None, **NOTHING_HELD}
    for _ in range(2):  # the second time: the first change was refused
        [change] = work(known, claim()).change
        assert change.body == {"metadata": {"finalizers": []}}
    assert work(known, claim(finalizers=None)) == ControllerWork()
    # The next scheduler's finalizer stays.
    assert work(known, claim()) == ControllerWork()


def test_a_deleted_claim_without_pods_is_released() -> None:
    known, deleted = cache(), {"deletionTimestamp": "2027-01-15T08:00:00Z"}
    todo = work(known, claim({"allocation": ALLOCATION}, **deleted))
    assert todo.status is not None
    assert todo.status["status"] == NOTHING_HELD
    assert work(known, claim(**deleted)).change
