"""What large pods weigh is free again once they are gone."""

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from kubeshare_py.domain.pod import Pod
from tests.manifests.written import pod

PODS, MEGABYTE = 40, 1_000_000
#: Two of the tables that a pod's parts may be in, full, and what else Python keeps.
MAX_LEFT = 20 * MEGABYTE

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def distinct(number: int, count: int, length: int) -> list[str]:
    return [f"{number}-{one}-".ljust(length, "x") for one in range(count)]


def with_affinity(number: int) -> Pod:
    """Nearly as much as is read."""
    lines = [{"key": "k", "operator": "In", "values": distinct(number, 4999, 50)}]
    selector = {"nodeSelectorTerms": [{"matchExpressions": lines}]}
    return pod({"affinity": {"nodeAffinity": {REQUIRED: selector}}})


def with_labels(number: int) -> Pod:
    labels = dict.fromkeys(distinct(number, 10_000, 60), "v" * 40)
    return pod({"nodeName": "n1"}, labels=labels)


def with_resources(number: int) -> Pod:
    names = distinct(number, 10_000, 90)
    requests = {f"example.com/{name}": "1" for name in names}
    main = {"name": "main", "resources": {"requests": requests}}
    return pod({"nodeName": "n1", "containers": [main]})


def with_terms(number: int) -> Pod:
    """As many terms and values as are read."""
    lines = [
        [{"key": "zone", "operator": "In", "values": distinct(number * 500 + term, 10, 1)}]
        for term in range(500)
    ]
    selector = {"nodeSelectorTerms": [{"matchExpressions": line} for line in lines]}
    return pod({"affinity": {"nodeAffinity": {REQUIRED: selector}}})


@pytest.mark.slow
def test_forty_pods_of_many_terms_wait_in_little_more_than_their_text() -> None:
    with_terms(PODS)
    gc.collect()
    tracemalloc.start()
    try:
        waiting = [with_terms(number) for number in range(PODS)]
        with_terms(PODS)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(one.problem is None for one in waiting)
    assert kept < PODS * MEGABYTE / 8


@pytest.mark.slow
@pytest.mark.parametrize(
    "written",
    [
        with_labels,
        *(pytest.param(one, marks=pytest.mark.long) for one in (with_affinity, with_resources)),
    ],
)
def test_forty_large_pods_are_forgotten(written: Callable[[int], Any]) -> None:
    written(PODS)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(PODS):
            written(number)
        gc.collect()
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left < MAX_LEFT
