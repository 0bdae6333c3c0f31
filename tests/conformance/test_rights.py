"""What RBAC refuses, and in which words."""

from collections.abc import Iterator
from typing import Any

import pytest

from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from tests.conformance.real_api import RealApi
from tests.controlplane.running import ControlPlane
from tests.controlplane.secrets_of_cluster import CONTROLLERS
from tests.embedded_cluster.api_client import MAPS, PODS, Api

pytestmark = pytest.mark.real_only("the embedded server lets everybody write everything")


@pytest.fixture
def plane_with_pod(plane: ControlPlane, api: Api) -> ControlPlane:
    api.pod()
    return plane


@pytest.fixture
def scheduler(plane_with_pod: ControlPlane) -> Iterator[RealApi]:
    with RealApi(plane_with_pod, SCHEDULER) as client:
        yield client


def expect_forbidden(client: Api, status: Any, what: str) -> None:
    assert (client.status, status["reason"]) == (403, "Forbidden")
    assert f"cannot {what} in API group" in status["message"]


def test_who_may_not_bind_is_told_so(plane_with_pod: ControlPlane) -> None:
    with RealApi(plane_with_pod, CONTROLLERS) as stranger:
        status = stranger.bind()
        expect_forbidden(stranger, status, 'create resource "pods/binding"')
        assert status["details"]["kind"] == "pods"


def test_the_scheduler_may_bind_with_results_and_no_other_annotations(scheduler: RealApi) -> None:
    results = {"sharedgpu/allocation": "{}", "sharedgpu/gpu_uuid": "GPU-1"}
    scheduler.bind(annotations=results | {"any": "thing"})
    assert scheduler.status == 403
    scheduler.bind(annotations=results)
    assert scheduler.status == 201
    assert results.items() <= scheduler.get(f"{PODS}/p")["metadata"]["annotations"].items()


def test_the_scheduler_may_not_change_pods_otherwise(scheduler: RealApi) -> None:
    status = scheduler.patch(f"{PODS}/p", {"metadata": {"annotations": {"any": "thing"}}})
    expect_forbidden(scheduler, status, 'patch resource "pods"')
    status = scheduler.delete(PODS)
    expect_forbidden(scheduler, status, 'deletecollection resource "pods"')


def test_the_scheduler_may_not_look_at_what_is_none_of_its_business(scheduler: RealApi) -> None:
    expect_forbidden(scheduler, scheduler.get(MAPS), 'list resource "configmaps"')
    secrets = "/api/v1/namespaces/fs/secrets"
    expect_forbidden(scheduler, scheduler.get(secrets), 'list resource "secrets"')
