from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.quantity import MAX
from tests.manifests.written import container, pod, sidecar

MI = 2**20


def resources(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, int]:
    return dict(pod(spec, status=status).shape.resources)


def cpu(**spec: Any) -> int:
    return resources(spec).get("cpu", 0)


@pytest.mark.parametrize(
    ("containers", "inits", "expected"),
    [
        (["1"], [], 1000),
        (["1", "500m"], [], 1500),
        (["1"], ["3"], 3000),
        (["2", "2"], ["3"], 4000),
        (["1"], ["2", "3"], 3000),
        (["1"], ["+1"], 2000),
        (["1"], ["+1", "3"], 4000),
        (["1"], ["3", "+1"], 3000),
        (["1"], ["+1", "1", "+2", "1"], 4000),
        (["1"], ["+1", "3", "+5"], 7000),
        (["1"], ["2.5", "+1", "2.5", "+0.1"], 3500),
        ([], ["+1", "+1"], 2000),
    ],
)
def test_init_containers_run_before_and_sidecars(
    containers: list[str], inits: list[str], expected: int
) -> None:
    assert (
        cpu(
            containers=[container(f"c{i}", cpu=text) for i, text in enumerate(containers)],
            initContainers=[
                (sidecar if text[0] == "+" else container)(f"i{i}", cpu=text.lstrip("+"))
                for i, text in enumerate(inits)
            ],
        )
        == expected
    )


inits = st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=5)


@given(st.lists(st.integers(0, 9), max_size=4), inits)
def test_the_sum_is_the_most_that_ever_runs_at_once(
    mains: list[int], before: list[tuple[bool, int]]
) -> None:
    running, moments = 0, []
    for stays, amount in before:
        moments.append(running + amount)
        running += amount if stays else 0
    moments.append(running + sum(mains))
    assert cpu(
        containers=[container(f"c{i}", cpu=str(n)) for i, n in enumerate(mains)],
        initContainers=[
            (sidecar if stays else container)(f"i{i}", cpu=str(n))
            for i, (stays, n) in enumerate(before)
        ],
    ) == 1000 * max(moments)


def test_overhead_comes_on_top() -> None:
    spec = {
        "containers": [container(cpu="1", memory="1Mi")],
        "initContainers": [container("i", cpu="2")],
        "overhead": {"cpu": "250m", "memory": "2Mi", "example.com/foo": "1"},
    }
    assert resources(spec) == {"cpu": 2250, "memory": 3 * MI, "example.com/foo": 1}


def test_a_limit_is_a_request_where_nothing_is_asked() -> None:
    limited = {
        "name": "main",
        "resources": {
            "limits": {"cpu": "2", "memory": "8Mi", "example.com/foo": "3"},
            "requests": {"memory": "4Mi"},
        },
    }
    assert resources({"containers": [limited]}) == {
        "cpu": 2000,
        "memory": 4 * MI,
        "example.com/foo": 3,
    }


def test_each_resource_has_its_own_peak() -> None:
    spec = {
        "containers": [container(cpu="1", memory="8Mi")],
        "initContainers": [container("i", cpu="2", memory="1Mi", ephemeral_storage="5")],
    }
    assert resources(spec) == {"cpu": 2000, "memory": 8 * MI, "ephemeral-storage": 5}


def test_nothing_asked_is_nothing_and_pods_are_not_a_request() -> None:
    assert resources({"containers": [container(cpu="0", pods="3"), {"name": "bare"}]}) == {}


def test_huge_pages_are_ordinary_resources() -> None:
    found = pod({"containers": [{"name": "m", "resources": {"limits": {"hugepages-2Mi": "4Mi"}}}]})
    assert found.shape.resources == (("hugepages-2Mi", 4 * MI),)
    assert found.unsupported == ()


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ({"requests": {"cpu": "3"}}, {"cpu": 3000, "memory": MI, "example.com/foo": 1}),
        ({"requests": {"cpu": "500m"}}, {"cpu": 500, "memory": MI, "example.com/foo": 1}),
        ({"requests": {"memory": "9Mi"}}, {"cpu": 1000, "memory": 9 * MI, "example.com/foo": 1}),
        (
            {"requests": {"hugepages-2Mi": "2Mi"}},
            {"cpu": 1000, "memory": MI, "example.com/foo": 1, "hugepages-2Mi": 2 * MI},
        ),
        (
            {"requests": {"example.com/foo": "7"}},
            {"cpu": 1000, "memory": MI, "example.com/foo": 1},
        ),
        ({"limits": {"cpu": "8"}}, {"cpu": 1000, "memory": MI, "example.com/foo": 1}),
        (
            {"limits": {"hugepages-2Mi": "2Mi"}},
            {"cpu": 1000, "memory": MI, "example.com/foo": 1, "hugepages-2Mi": 2 * MI},
        ),
    ],
)
def test_pod_level_resources_replace_the_sum(
    level: dict[str, Any], expected: dict[str, int]
) -> None:
    foo = {
        "name": "main",
        "resources": {"requests": {"cpu": "1", "memory": "1Mi", "example.com/foo": "1"}},
    }
    assert resources({"containers": [foo], "resources": level}) == expected


def test_overhead_comes_on_top_of_pod_level_resources() -> None:
    spec = {
        "containers": [container(cpu="1")],
        "resources": {"requests": {"cpu": "2"}},
        "overhead": {"cpu": "100m"},
    }
    assert resources(spec) == {"cpu": 2100}


def resized(name: str, allocated: str | None = None, actual: str | None = None) -> dict[str, Any]:
    status: dict[str, Any] = {"name": name, "resources": {}}
    if allocated:
        status["allocatedResources"] = {"cpu": allocated}
    if actual:
        status["resources"] = {"requests": {"cpu": actual}}
    return status


INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = INFEASIBLE | {"reason": "Deferred"}


@pytest.mark.parametrize(
    ("wanted", "allocated", "actual", "expected"),
    [
        ("1", "1", "1", 1000),
        ("1", "2", "2", 2000),
        ("3", "2", "1", 3000),
        ("1", "1", "4", 4000),
        ("1", "4", "1", 4000),
        ("1", None, None, 1000),
    ],
)
def test_during_a_resize_a_bound_pod_takes_the_most_of_wanted_granted_and_had(
    wanted: str, allocated: str | None, actual: str | None, expected: int
) -> None:
    spec = {"nodeName": "n", "containers": [container(cpu=wanted)]}
    status = {"containerStatuses": [resized("main", allocated, actual)]}
    assert resources(spec, status) == {"cpu": expected}


@pytest.mark.parametrize(("condition", "expected"), [(INFEASIBLE, 1000), (DEFERRED, 9000)])
def test_what_a_node_refused_for_good_is_not_taken(
    condition: dict[str, str], expected: int
) -> None:
    spec = {"nodeName": "n", "containers": [container(cpu="9")]}
    status = {"containerStatuses": [resized("main", "1", "1")], "conditions": [condition]}
    assert resources(spec, status) == {"cpu": expected}


def test_sidecars_are_resized_too() -> None:
    spec = {
        "nodeName": "n",
        "containers": [container(cpu="1")],
        "initContainers": [sidecar(cpu="1")],
    }
    status = {"initContainerStatuses": [resized("side", "3", "3")]}
    assert resources(spec, status) == {"cpu": 4000}


def test_init_containers_that_end_take_what_they_ask_for_whatever_they_had() -> None:
    spec = {
        "nodeName": "n",
        "containers": [container(cpu="1")],
        "initContainers": [container("i", cpu="2")],
    }
    assert resources(spec, {"initContainerStatuses": [resized("i", "5", "5")]}) == {"cpu": 2000}


def test_a_container_that_has_nothing_and_may_get_nothing_takes_nothing() -> None:
    spec = {"nodeName": "n", "containers": [container("a", cpu="9"), container("b", cpu="1")]}
    status = {"containerStatuses": [resized("a")], "conditions": [INFEASIBLE]}
    assert resources(spec, status) == {"cpu": 1000}


def test_a_pod_without_actual_resources_of_its_own_takes_what_it_asks_for() -> None:
    spec = {
        "nodeName": "n",
        "containers": [container(cpu="1")],
        "resources": {"requests": {"cpu": "2"}},
    }
    assert resources(spec, {"allocatedResources": {"cpu": "4"}}) == {"cpu": 2000}


def test_pods_are_resized_as_a_whole_too() -> None:
    spec = {
        "nodeName": "n",
        "containers": [container(cpu="1")],
        "resources": {"requests": {"cpu": "2"}},
    }
    status = {
        "containerStatuses": [resized("main", "1", "1")],
        "allocatedResources": {"cpu": "4"},
        "resources": {"requests": {"cpu": "3"}},
    }
    assert resources(spec, status) == {"cpu": 4000}
    refused = status | {"conditions": [INFEASIBLE]}
    assert resources(spec | {"resources": {"requests": {"cpu": "9"}}}, refused) == {"cpu": 4000}


def test_a_status_without_actual_resources_says_nothing() -> None:
    spec = {"nodeName": "n", "containers": [container("a", cpu="1"), container("b", cpu="1")]}
    silent = {"name": "a", "allocatedResources": {"cpu": "9"}}
    status = {"containerStatuses": [silent, resized("b", "2", "2")]}
    assert resources(spec, status) == {"cpu": 3000}


def test_the_status_of_a_pod_without_a_node_says_nothing() -> None:
    spec = {"containers": [container(cpu="1")]}
    status = {"containerStatuses": [resized("main", "5", "5")]}
    assert resources(spec, status) == {"cpu": 1000}


def test_a_sum_of_impossible_amounts_is_still_the_most() -> None:
    spec = {"containers": [container("a", memory="1E"), container("b", memory="1E")]}
    assert resources(spec) == {"memory": MAX}


def test_what_is_no_quantity_keeps_the_pod_waiting_with_a_reason() -> None:
    found = pod({"containers": [container(cpu="much", memory="1Mi")]})
    assert found.shape.resources == (("memory", MI),)
    assert found.unsupported == ('resources[cpu]: "much" is not a quantity',)
