"""What a Job still needs."""

from typing import Any

import msgspec
import pytest

from kubeshare_py.embedded_cluster.controllers.controller import ControllerWork
from kubeshare_py.embedded_cluster.controllers.jobs import (
    Finished,
    format_indexes,
    owning_job,
    parse_indexes,
    pod_of,
    work_for,
)
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    UnstructuredMetadata,
    UnstructuredObject,
)

NOW = 1_700_000_000.0


def job(status: dict[str, Any] | None = None, **spec: Any) -> UnstructuredObject:
    template = {
        "metadata": {"labels": {"app": "x"}, "annotations": {"note": "y"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main"}]},
    }
    return UnstructuredObject(
        metadata=UnstructuredMetadata(name="j", namespace="ns", uid="uid-j"),
        spec={"parallelism": 1, "completions": 1, "template": template, **spec},
        status=status or {},
    )


def pod(
    name: str, phase: str = "Running", index: int | None = None, **more: Any
) -> UnstructuredObject:
    made = pod_of(job(), index)
    return UnstructuredObject(
        metadata=UnstructuredMetadata(
            name=name, namespace="ns", uid=name, annotations=made["metadata"]["annotations"], **more
        ),
        spec={"nodeName": "n"},
        status={"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]},
    )


def work(
    a_job: UnstructuredObject, *pods: UnstructuredObject, **finished: Finished
) -> ControllerWork:
    return work_for(a_job, pods, finished, NOW)


def status(of: ControllerWork) -> dict[str, Any]:
    assert of.status is not None
    found: dict[str, Any] = of.status["status"]
    return found


def after(a_job: UnstructuredObject, done: ControllerWork) -> UnstructuredObject:
    return msgspec.structs.replace(a_job, status={**a_job.status, **status(done)})


def conditions(of: ControllerWork) -> list[str]:
    return [one["type"] for one in status(of).get("conditions", [])]


def test_a_pod_is_made_from_the_template_and_owned_by_its_job() -> None:
    (created,) = work(job()).create
    made = created.body
    metadata = made["metadata"]
    assert metadata["generateName"] == "j-"
    assert metadata["labels"] == {
        "app": "x",
        "controller-uid": "uid-j",
        "job-name": "j",
        "batch.kubernetes.io/controller-uid": "uid-j",
        "batch.kubernetes.io/job-name": "j",
    }
    assert metadata["annotations"] == {"note": "y"}
    assert made["spec"]["containers"] == [{"name": "main"}]
    assert owning_job(
        msgspec.convert(made | {"metadata": {**metadata, "name": "p"}}, UnstructuredObject)
    )


@pytest.mark.parametrize(
    ("parallelism", "completions", "running", "succeeded", "created"),
    [(1, 1, 0, 0, 1), (3, 5, 0, 0, 3), (3, 5, 2, 0, 1), (3, 5, 1, 3, 1), (3, 5, 2, 3, 0)],
)
def test_as_many_run_as_may_and_are_needed(
    parallelism: int, completions: int, running: int, succeeded: int, created: int
) -> None:
    pods = [pod(f"r{n}") for n in range(running)]
    pods += [pod(f"s{n}", "Succeeded") for n in range(succeeded)]
    found = work(job(parallelism=parallelism, completions=completions), *pods)
    assert (len(found.create), found.delete) == (created, ())


def test_a_work_queue_starts_nobody_after_the_first_success() -> None:
    queue = job(parallelism=3, completions=None)
    assert len(work(queue).create) == 3
    half = work(queue, pod("a", "Succeeded"), pod("b"))
    assert (half.create, half.delete, conditions(half)) == ((), (), [])
    whole = work(queue, pod("a", "Succeeded"), pod("b", "Succeeded"))
    assert conditions(whole) == ["SuccessCriteriaMet", "Complete"]


def test_the_status_counts_and_is_written_only_when_it_changes() -> None:
    a_job = job(parallelism=3, completions=5)
    pods = [pod("a"), pod("b", "Pending"), pod("c", "Failed"), pod("d", "Succeeded")]
    found = work(a_job, *pods)
    assert status(found) == {
        "active": 2,
        "ready": 2,
        "succeeded": 1,
        "failed": 1,
        "startTime": "2023-11-14T22:13:20Z",
    }
    assert work(after(a_job, found), *pods).status is None


def test_completion_is_a_verdict_a_condition_and_an_event() -> None:
    done = work(job(), pod("a", "Succeeded"))
    assert conditions(done) == ["SuccessCriteriaMet", "Complete"]
    assert status(done)["completionTime"] == "2023-11-14T22:13:20Z"
    assert [event.reason for event in done.events] == ["Completed"]
    assert work(after(job(), done), pod("a", "Succeeded")) == ControllerWork()


def test_pods_still_running_are_deleted_before_the_last_condition() -> None:
    a_job = job(parallelism=2)
    first = work(a_job, pod("a", "Succeeded"), pod("b"))
    assert conditions(first) == ["SuccessCriteriaMet"]
    assert [one.object.uid for one in first.delete] == ["b"]
    going = pod("b", deletionTimestamp="2023-11-14T22:13:20Z")
    second = work(after(a_job, first), pod("a", "Succeeded"), going)
    assert (second.delete, conditions(second), second.events) == ((), [], ())
    third = work(after(after(a_job, first), second), pod("a", "Succeeded"))
    assert conditions(third) == ["SuccessCriteriaMet", "Complete"]


def test_failures_are_replaced_up_to_the_backoff_limit() -> None:
    a_job = job(backoffLimit=1)
    assert len(work(a_job, pod("a", "Failed")).create) == 1
    failed = work(a_job, pod("a", "Failed"), pod("b", "Failed"))
    assert conditions(failed) == ["FailureTarget", "Failed"]
    assert "completionTime" not in status(failed)
    assert [(event.type, event.reason) for event in failed.events] == [
        ("Warning", "BackoffLimitExceeded")
    ]


def test_pods_that_are_gone_still_count() -> None:
    found = work(job(completions=2), gone=Finished(True, None))
    assert (status(found)["succeeded"], len(found.create)) == (1, 1)


def test_a_new_process_believes_the_status() -> None:
    found = work(job({"succeeded": 1}, completions=2, parallelism=2))
    assert len(found.create) == 1
    assert "succeeded" not in status(found)


def test_a_terminating_pod_is_replaced_at_once() -> None:
    going = pod("a", deletionTimestamp="2023-11-14T22:13:20Z")
    found = work(job(), going)
    assert (len(found.create), status(found)["terminating"]) == (1, 1)


def test_suspending_deletes_and_starts_nobody() -> None:
    found = work(job(suspend=True), pod("a"))
    assert (found.create, [one.object.uid for one in found.delete]) == ((), ["a"])
    assert "startTime" not in status(found)


def test_scaling_down_spares_bound_and_older_pods() -> None:
    pods = [
        pod("old", creationTimestamp="2023-01-01T00:00:00Z"),
        pod("new", creationTimestamp="2023-01-02T00:00:00Z"),
        msgspec.structs.replace(pod("unbound", "Pending"), spec={}),
    ]
    found = work(job(parallelism=1, completions=9), *pods)
    assert sorted(one.object.uid for one in found.delete) == ["new", "unbound"]


def test_a_deleted_job_is_left_alone() -> None:
    metadata = msgspec.structs.replace(job().metadata, deletionTimestamp="2023-11-14T22:13:20Z")
    assert work(msgspec.structs.replace(job(), metadata=metadata)) == ControllerWork()


def test_indexed_jobs_run_each_index_until_it_succeeds() -> None:
    a_job = job(parallelism=3, completions=3, completionMode="Indexed")
    made = [one.body for one in work(a_job).create]
    assert [one["metadata"]["generateName"] for one in made] == ["j-0-", "j-1-", "j-2-"]
    assert made[1]["spec"]["hostname"] == "j-1"
    assert made[1]["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
    found = work(a_job, pod("a", "Succeeded", 0), pod("b", "Failed", 1), pod("c", "Running", 2))
    assert [one.body["metadata"]["generateName"] for one in found.create] == ["j-1-"]
    assert status(found)["completedIndexes"] == "0"
    twice = work(a_job, pod("a", "Succeeded", 0), pod("b", "Succeeded", 0))
    assert status(twice)["succeeded"] == 1


def test_indexes_are_written_as_ranges_and_read_back() -> None:
    assert format_indexes({5, 0, 1, 2, 7, 8}) == "0-2,5,7-8"
    assert parse_indexes("0-2,5,7-8") == {0, 1, 2, 5, 7, 8}
    assert parse_indexes("") == parse_indexes("x") == set()
