"""SharePods of KubeShare 1.0, and the pods behind them."""

from collections.abc import AsyncIterator

import pytest

from tests.stories.conftest import Stage, annotations, gpu
from tests.stories.share_pods import (
    condition,
    controller_of,
    create,
    define,
    expect_running,
)


@pytest.fixture
async def shared(empty_stage: Stage) -> AsyncIterator[Stage]:
    """A cluster with SharePods, their controller, and a scheduler."""
    await define(empty_stage)
    async with empty_stage.scheduler(), controller_of(empty_stage):
        yield empty_stage


async def test_a_share_pod_has_a_pod_of_its_name_and_shows_it(shared: Stage) -> None:
    """KubeShare 1.0's README, SharePod Lifecycle; kubeshare.md E.1, E.4."""
    stage = shared
    made = await create(stage, "sharepod1", labels=gpu("0.5"))
    share = await expect_running(stage, "sharepod1")
    pod = await stage.pod("sharepod1")
    [owner] = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == (
        "SharePod", made["metadata"]["uid"], True,
    )  # fmt: skip
    assert pod["spec"]["schedulerName"] == "kubeshare-scheduler"
    assert pod["metadata"]["labels"] == gpu("0.5")
    status = share["status"]
    assert status["PodObjectMeta"]["uid"] == pod["metadata"]["uid"]
    assert status["BoundDeviceID"] == annotations(pod)["sharedgpu/gpu_uuid"]
    assert status["PodManagerPort"] == int(annotations(pod)["sharedgpu/gpu_manager_port"])
    assert status["NodeName"] == pod["spec"]["nodeName"]
    assert (condition(share)["status"], condition(share)["reason"]) == ("True", "Synced")
    event = await stage.expect_event("sharepod1", "Synced")
    assert (event["type"], event["reportingController"]) == ("Normal", "kubeshare-controller")
