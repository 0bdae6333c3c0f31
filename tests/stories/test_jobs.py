"""Jobs of the cluster: KubeShare's README example, failures, and what a deletion takes along."""

import copy
from collections.abc import Callable

import pytest

from kubeshare_py.embedded_cluster.serving.demo_files import read_workloads
from tests.stories.conftest import JOBS, Json, Stage, card, gpu

CLUSTER = """
nodes:
  - {name: "n{n}", count: 2, gpus: [{model: Tesla-T4, count: 1, memory: 16GiB}]}
"""


def job(name: str, plan: dict[str, str], **spec: object) -> Json:
    template = {
        "metadata": {"labels": gpu("0.5"), "annotations": plan},
        "spec": {
            "schedulerName": "kubeshare-scheduler",
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox"}],
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {**spec, "template": template},
    }


def has(kind: str) -> Callable[[Json], bool]:
    def check(found: Json) -> bool:
        conditions = found.get("status", {}).get("conditions", [])
        return any(one["type"] == kind and one["status"] == "True" for one in conditions)

    return check


@pytest.mark.slow
async def test_the_job_of_kubeshares_readme_runs_to_its_end(stage: Stage) -> None:
    lstm = copy.deepcopy(
        next(one for one in read_workloads(None) if one["metadata"]["name"] == "lstm")
    )
    plan = lstm["spec"]["template"]["metadata"]["annotations"]
    plan["kubeshare.sim/run-seconds"] = "0.2"
    await stage.cluster.apply(lstm)
    done = await stage.expect_in(JOBS, "lstm", has("Complete"))
    assert done["status"]["succeeded"] == 5
    pods = await stage.all_pods()
    assert {pod["status"]["phase"] for pod in pods} == {"Succeeded"}
    assert all(card(pod) for pod in pods)


@pytest.mark.slow
async def test_a_failing_job_is_tried_again_until_its_limit(stage: Stage) -> None:
    plan = {"kubeshare.sim/run-seconds": "0", "kubeshare.sim/exit-code": "3"}
    await stage.cluster.apply(job("bad", plan, backoffLimit=2))
    # A real Job controller waits 10 s before the second pod and 20 s before the third.
    failed = await stage.expect_in(JOBS, "bad", has("Failed"))
    assert failed["status"]["failed"] == 3
    for number in range(4):
        await stage.create(f"half-{number}", gpu("0.5"))
    await stage.expect_all(
        lambda pods: sum(pod["status"].get("phase") == "Running" for pod in pods) == 4
    )


@pytest.mark.slow
async def test_a_deleted_job_takes_its_pods_along_and_their_cards_are_free(stage: Stage) -> None:
    await stage.cluster.apply(job("four", {}, parallelism=6, completions=6))
    await stage.expect_bound(4)
    background = {"propagationPolicy": "Background"}
    await stage.client.request("DELETE", f"{JOBS}/four", query=background)
    await stage.expect_all(lambda pods: not pods)
    await stage.create("whole", gpu("1"))
    await stage.create("other", gpu("1"))
    await stage.expect_bound(2)


@pytest.mark.slow
async def test_a_job_of_more_pods_than_fit_goes_on_as_they_end(stage: Stage) -> None:
    plan = {"kubeshare.sim/run-seconds": "0.1"}
    await stage.cluster.apply(job("many", plan, parallelism=12, completions=12))
    await stage.expect_in(JOBS, "many", has("Complete"))
