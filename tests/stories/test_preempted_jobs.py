"""A Job of docs/preemption.md survives the preemption of its pods."""

import re

import pytest
import yaml

from tests.architecture.sources import ROOT
from tests.stories.conftest import JOBS, Json, Stage, gpu
from tests.stories.test_preemption import CLASSES

pytestmark = pytest.mark.real_only("the embedded Job controller has no podFailurePolicy")
CLUSTER = 'nodes: [{name: "n{n}", count: 1, gpus: [{model: A100, count: 1, memory: 40GiB}]}]'


def documented_job() -> Json:
    page = (ROOT / "docs/preemption.md").read_text()
    [text] = re.findall(r"```yaml\n(apiVersion: batch/v1\n.*?)```", page, re.DOTALL)
    found: Json = yaml.safe_load(text)
    return found


@pytest.mark.parametrize("is_ignored", [True, False])
async def test_preempted_pods_do_not_count_as_failed(stage: Stage, is_ignored: bool) -> None:
    await stage.client.create(CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    job = documented_job()
    job["spec"]["backoffLimit"] = 0
    job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 1
    if not is_ignored:
        del job["spec"]["podFailurePolicy"]
    await stage.client.create(JOBS, job)
    [first] = await stage.expect_all(
        lambda pods: [one["status"]["phase"] for one in pods] == ["Running"]
    )
    await stage.create("urgent", gpu("1.0"), priorityClassName="high")
    await stage.expect_running("urgent")

    def has_another(pods: list[Json]) -> bool:
        return len({one["metadata"]["uid"] for one in pods} - {first["metadata"]["uid"]}) > 1

    def has_failed(job: Json) -> bool:
        return any(one["type"] == "Failed" for one in job["status"].get("conditions", []))

    if is_ignored:
        await stage.expect_all(has_another)
        assert not has_failed(await stage.client.get(f"{JOBS}/train"))
    else:
        await stage.expect_in(JOBS, "train", has_failed)
