"""What scores count for containers that ask for nothing, against kube-scheduler's rule."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.manifests.written import container, pod, sidecar

MI = 2**20
Amounts = dict[str, int]

ASKED = st.fixed_dictionaries(
    {}, optional={"cpu": st.integers(0, 500), "memory": st.integers(0, 400)}
)
KINDS = st.sampled_from(["main", "init", "sidecar"])
POD_LEVEL = st.one_of(st.none(), ASKED)


def unrequested(spec: dict[str, Any], status: dict[str, Any] | None = None) -> Amounts:
    return dict(pod(spec, status=status).shape.unrequested)


def written(amounts: Amounts) -> dict[str, str]:
    """Amounts of cpu in milli and memory in MiB."""
    units = {"cpu": "m", "memory": "Mi"}
    return {name: f"{amount}{units[name]}" for name, amount in amounts.items()}


def asked_of(containers: list[tuple[str, Amounts]], missing: Amounts) -> Amounts:
    """All that runs at once at the worst moment, with `missing` where a container says nothing."""
    total: Amounts = {}
    for name in ("cpu", "memory"):
        running, moments = 0, [0]
        for kind, amounts in containers:
            own = amounts.get(name, missing.get(name, 0))
            if kind == "sidecar":
                running += own
                moments.append(running)
            elif kind == "init":
                moments.append(running + own)
        mains = [amounts for kind, amounts in containers if kind == "main"]
        moments.append(running + sum(one.get(name, missing.get(name, 0)) for one in mains))
        total[name] = max(moments)
    return total


def expected(
    containers: list[tuple[str, Amounts]], level: Amounts | None, overhead: Amounts
) -> Amounts:
    missing = {"cpu": 100, "memory": 200}
    if level:
        everything = [level, overhead, *(amounts for _, amounts in containers)]
        missing = {
            name: amount
            for name, amount in missing.items()
            if not any(name in one for one in everything)
        }
    plain = {**asked_of(containers, {}), **(level or {})}
    scored = {**asked_of(containers, missing), **(level or {})}
    more = {name: scored[name] - plain[name] for name in ("cpu", "memory")}
    in_units = {"cpu": 1, "memory": MI}
    return {
        f"unrequested {name}": amount * in_units[name] for name, amount in more.items() if amount
    }


@given(st.lists(st.tuples(KINDS, ASKED), max_size=5), POD_LEVEL, ASKED)
def test_each_container_that_asks_for_nothing_counts_something(
    containers: list[tuple[str, Amounts]], level: Amounts | None, overhead: Amounts
) -> None:
    makers = {"main": container, "init": container, "sidecar": sidecar}
    made = [
        (kind, makers[kind](f"c{at}", **written(amounts)))
        for at, (kind, amounts) in enumerate(containers)
    ]
    spec: dict[str, Any] = {
        "containers": [one for kind, one in made if kind == "main"],
        "initContainers": [one for kind, one in made if kind != "main"],
        "overhead": written(overhead),
    }
    if level is not None:
        spec["resources"] = {"requests": written(level)}
    assert unrequested(spec) == expected(containers, level, overhead)


@pytest.mark.parametrize(
    ("containers", "counted"),
    [
        ([container()], {"unrequested cpu": 100, "unrequested memory": 200 * MI}),
        ([container(cpu="0"), container("b")], {"unrequested cpu": 100}),
        ([container(cpu="1", memory="1")], {}),
    ],
)
def test_an_explicit_zero_is_a_request(containers: list[Any], counted: Amounts) -> None:
    assert {
        name: amount
        for name, amount in unrequested({"containers": containers}).items()
        if name in counted or not counted
    } == counted


def test_pods_that_differ_only_in_their_containers_names_have_one_shape() -> None:
    first, second = (pod({"containers": [container(name)]}).shape for name in "ab")
    assert first is second


def test_what_counts_in_scores_is_no_request() -> None:
    assert pod({"containers": [container()]}).shape.resources == ()


def test_a_bound_pod_in_a_resize_counts_what_its_container_has() -> None:
    spec = {"nodeName": "n", "containers": [container()]}
    status = {
        "containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "300m"}}}],
    }
    assert unrequested(spec, status) == {"unrequested memory": 200 * MI}
