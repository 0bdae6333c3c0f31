"""How the pod of a SharePod ended, and what controllers that start later know of it."""

import pytest

from kubeshare_py.embedded_cluster.nodes.kubelet import RUN_SECONDS
from tests.stories.conftest import Stage
from tests.stories.share_pods import (
    SHARE_PODS,
    condition,
    controller_of,
    create,
    define,
    expect,
    expect_running,
    phase,
)
from tests.stories.test_sharepods import uid_of_pod

ENDS = {RUN_SECONDS: "0"}


@pytest.mark.slow
async def test_a_pod_whose_end_is_shown_is_not_made_again_by_a_later_controller(
    empty_stage: Stage,
) -> None:
    stage = empty_stage
    await define(stage)
    async with stage.scheduler():
        async with controller_of(stage):
            await create(stage, "one", ENDS, restartPolicy="Never")
            await expect(stage, "one", lambda share: phase(share) == "Succeeded")
        await stage.expect_deleted("one")
        async with controller_of(stage):
            await create(stage, "two")
            await expect_running(stage, "two")  # everything before that was seen
    assert [pod["metadata"]["name"] for pod in await stage.all_pods()] == ["two"]
    assert phase(await stage.client.get(f"{SHARE_PODS}/one")) == "Succeeded"


async def test_a_pod_that_ended_and_went_while_no_controller_ran_is_made_again(
    empty_stage: Stage,
) -> None:
    """docs/sharepods.md says so, and why no finalizer keeps the pod."""
    stage = empty_stage
    await define(stage)
    async with controller_of(stage):
        await create(stage, "one", ENDS, restartPolicy="Never")
        await expect(stage, "one", lambda share: condition(share).get("status") == "True")
    first = (await stage.pod("one"))["metadata"]["uid"]
    async with stage.scheduler():
        await stage.expect_eventually("one", lambda pod: pod["status"]["phase"] == "Succeeded")
        await stage.expect_deleted("one")
        async with controller_of(stage):
            await expect(stage, "one", lambda share: uid_of_pod(share) not in ("", first))
