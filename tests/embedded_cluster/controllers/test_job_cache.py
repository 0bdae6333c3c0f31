"""What a Job controller knows, in whatever order it hears it."""

import msgspec
import pytest

from kubeshare_py.embedded_cluster.controllers.jobs import JobCache, pod_of
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    JOBS,
    PODS,
    UnstructuredMetadata,
    UnstructuredObject,
)

NOW = 1_700_000_000.0
JOB = UnstructuredObject(
    metadata=UnstructuredMetadata(name="j", namespace="ns", uid="uid-j"),
    spec={"parallelism": 2, "completions": 2, "template": {"spec": {}}},
)


def pod(name: str, phase: str = "Running") -> UnstructuredObject:
    made = pod_of(JOB)
    metadata = msgspec.convert(
        {**made["metadata"], "name": name, "uid": name}, UnstructuredMetadata
    )
    return UnstructuredObject(metadata=metadata, status={"phase": phase})


@pytest.fixture
def book() -> JobCache:
    book = JobCache()
    book.listed(PODS, [], 0.0)
    book.listed(JOBS, [JOB], 0.0)
    return book


def created(book: JobCache) -> int:
    return sum(len(work.create) for _, work in book.work(NOW))


@pytest.mark.parametrize("first", ["jobs", "pods"])
def test_nothing_is_done_before_both_lists_are_in(first: str) -> None:
    book = JobCache()
    if first == "jobs":
        book.listed(JOBS, [JOB], 0.0)
    else:
        book.listed(PODS, [pod("a"), pod("b")], 0.0)
    assert not book.has_work()
    assert book.work(NOW) == []
    if first == "jobs":
        book.listed(PODS, [pod("a"), pod("b")], 0.0)
    else:
        book.listed(JOBS, [JOB], 0.0)
    assert (book.has_work(), created(book)) == (True, 0)


def test_pods_just_created_count_before_the_watch_shows_them(book: JobCache) -> None:
    assert created(book) == 2
    book.created(pod("a"), 1.0)
    book.created(pod("b"), 1.0)
    assert created(book) == 0
    book.seen(PODS, pod("a"))
    assert created(book) == 0


def test_a_list_asked_for_before_a_creation_does_not_hide_the_pod(book: JobCache) -> None:
    created(book)
    for name in ("a", "b"):
        book.created(pod(name), 5.0)
    book.listed(PODS, [], 4.0)
    assert created(book) == 0
    book.listed(PODS, [pod("a")], 6.0)
    assert created(book) == 1


def test_an_answer_after_the_pods_end_does_not_bring_it_back(book: JobCache) -> None:
    created(book)
    book.seen(PODS, pod("a"))
    book.gone(PODS, "a")
    book.created(pod("a"), 5.0)
    book.created(pod("b"), 5.0)
    assert created(book) == 1


def test_a_pod_that_succeeded_and_went_is_remembered(book: JobCache) -> None:
    created(book)
    book.seen(PODS, pod("a", "Succeeded"))
    book.gone(PODS, "a")
    ((_, work),) = book.work(NOW)
    assert len(work.create) == 1
    assert work.status is not None
    assert work.status["status"]["succeeded"] == 1


def test_pods_of_nobody_and_unchanged_jobs_are_no_work(book: JobCache) -> None:
    created(book)
    book.seen(
        PODS, UnstructuredObject(metadata=UnstructuredMetadata(name="x", namespace="ns", uid="x"))
    )
    assert not book.has_work()
    book.look_again("uid-j")
    assert book.has_work()


def test_a_job_that_is_gone_needs_nothing(book: JobCache) -> None:
    book.gone(JOBS, "uid-j")
    assert book.work(NOW) == []
