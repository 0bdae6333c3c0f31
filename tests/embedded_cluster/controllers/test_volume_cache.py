"""The phases of volumes, and what happens to those whose claim is gone."""

from typing import Any

import pytest

from kubeshare_py.embedded_cluster.controllers.controller import ControllerWork
from kubeshare_py.embedded_cluster.controllers.provisioning import PROVISIONER, ReclaimCache
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    CLAIMS,
    VOLUMES,
    UnstructuredObject,
)
from kubeshare_py.embedded_cluster.controllers.volume_binding import VolumeCache
from tests.embedded_cluster.controllers.objects import NOW, claim, reserved, volume

MADE = {"pv.kubernetes.io/provisioned-by": PROVISIONER}
BY_CONTROLLER = {"pv.kubernetes.io/bound-by-controller": "yes"}


def work(found: UnstructuredObject, *claims: UnstructuredObject) -> ControllerWork:
    known = VolumeCache()
    known.listed(CLAIMS, claims, 0.0)
    known.listed(VOLUMES, [found], 0.0)
    [(_, todo)] = known.work(NOW)
    return todo


@pytest.mark.parametrize(
    ("found", "claims", "phase"),
    [
        (volume(status={"phase": "Pending"}), (), "Available"),
        (volume(status={}, claimRef={"namespace": "ns", "name": "c"}), (), "Available"),
        (reserved("v", "c"), (claim(volumeName="v"),), "Bound"),
        (reserved("v", "c"), (), "Released"),
        (reserved("v", "c"), (claim("d"),), "Released"),
    ],
)
def test_the_phase_of_a_volume(
    found: UnstructuredObject, claims: tuple[UnstructuredObject, ...], phase: str
) -> None:
    status = work(found, *claims).status
    assert status is not None
    assert status["status"]["phase"] == phase


def test_a_volume_waits_for_its_claim_to_name_it_and_is_not_written_twice() -> None:
    assert work(reserved("v", "c"), claim()) == ControllerWork()
    assert work(volume()) == ControllerWork()


@pytest.mark.parametrize(
    ("annotations", "reference"),
    [(BY_CONTROLLER, None), (None, {"uid": None, "resourceVersion": None})],
)
def test_a_volume_whose_claim_took_another_is_given_back(
    annotations: dict[str, str] | None, reference: Any
) -> None:
    [change] = work(reserved("v", "c", annotations=annotations), claim(volumeName="w")).change
    assert change.body["spec"] == {"claimRef": reference}


def test_a_volume_that_goes_is_kept_for_its_claim() -> None:
    going = {"deleted": "2027-01-15T08:00:00Z", "finalizers": ["kubernetes.io/pv-protection"]}
    assert not work(reserved("v", "c", **going), claim(volumeName="v")).change
    [change] = work(reserved("v", "c", **going)).change
    assert change.body == {"metadata": {"finalizers": []}}


@pytest.mark.parametrize(
    ("fields", "ends"),
    [
        ({}, True),
        ({"annotations": {}}, False),
        ({"status": {"phase": "Bound"}}, False),
        ({"persistentVolumeReclaimPolicy": "Retain"}, False),
    ],
)
def test_the_driver_deletes_its_own_volumes_once_they_are_released(
    fields: dict[str, Any], ends: bool
) -> None:
    known = ReclaimCache()
    usual: dict[str, Any] = {
        "annotations": MADE,
        "status": {"phase": "Released"},
        "persistentVolumeReclaimPolicy": "Delete",
    }
    known.listed(VOLUMES, [volume(**{**usual, **fields})], 0.0)
    [(_, todo)] = known.work(NOW)
    assert bool(todo.delete) == ends
