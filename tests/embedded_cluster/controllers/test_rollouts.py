"""How large the ReplicaSets of a Deployment should be, whatever happens to its pods."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.embedded_cluster.controllers.rollouts import (
    DESIRED,
    MAX_REPLICAS,
    Limits,
    Sizes,
    first_size,
    is_scaling,
    limits_of,
    rolling_sizes,
    scaled_sizes,
)
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    UnstructuredMetadata,
    UnstructuredObject,
)
from kubeshare_py.embedded_cluster.protocol.quantities import amount_of
from tests.scale import examples


def replica_set(
    name: str, size: int, available: int = 0, noted: Limits | None = None
) -> UnstructuredObject:
    """One whose name tells its age."""
    annotations = {DESIRED: str(noted.wanted), MAX_REPLICAS: str(noted.most)} if noted else {}
    born = f"2026-01-01T00:00:{name[-1:].zfill(2)}Z"
    metadata = UnstructuredMetadata(
        name=name, uid=name, annotations=annotations, creationTimestamp=born
    )
    return UnstructuredObject(
        metadata=metadata, spec={"replicas": size}, status={"availableReplicas": available}
    )


def rolling(wanted: int, surge: Any = "25%", unavailable: Any = "25%") -> dict[str, Any]:
    limits = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"replicas": wanted, "strategy": {"type": "RollingUpdate", "rollingUpdate": limits}}


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [(3, 10, 3, 3), ("25%", 10, 3, 2), ("34%", 3, 2, 1), ("0%", 7, 0, 0), ("100%", 7, 7, 7)],
)
def test_percentages_are_rounded_as_asked(value: Any, total: int, up: int, down: int) -> None:
    assert (amount_of(value, total, up=True), amount_of(value, total, up=False)) == (up, down)
    assert amount_of(None, 10, up=True) == 0


@pytest.mark.parametrize(
    ("spec", "limits"),
    [
        (rolling(10), Limits(10, 3, 2)),
        (rolling(1), Limits(1, 1, 0)),
        (rolling(2, 0, "1%"), Limits(2, 0, 1)),
        (rolling(4, 0, 9), Limits(4, 0, 4)),
        ({"replicas": 3, "strategy": {"type": "Recreate"}}, Limits(3, 0, 0)),
    ],
)
def test_limits_leave_room_for_progress(spec: dict[str, Any], limits: Limits) -> None:
    assert limits_of(spec) == limits


@pytest.mark.parametrize(
    ("old", "new", "sizes"),
    [
        # kubernetes.io's example: at once, up to the surge; then what is spare goes.
        ((10, 10), (0, 0), {"new2": 3}),
        ((10, 10), (3, 0), {"old1": 8}),
        ((8, 8), (3, 0), {"new2": 5}),
        ((8, 8), (5, 0), {}),
        ((8, 8), (5, 5), {"old1": 3}),
        ((0, 0), (10, 10), {}),
        # Old pods that are broken anyway go first, and more of them.
        ((10, 4), (3, 0), {"old1": 8}),
        ((8, 8), (12, 0), {"new2": 10}),
    ],
)
def test_steps_of_a_rolling_update(
    old: tuple[int, int], new: tuple[int, int], sizes: Sizes
) -> None:
    sets = replica_set("new2", *new), [replica_set("old1", *old)]
    assert rolling_sizes(Limits(10, 3, 2), *sets) == sizes


def test_a_new_replica_set_starts_with_what_the_limits_leave() -> None:
    limits = Limits(10, 3, 2)
    assert first_size(limits, []) == 10
    assert first_size(limits, [replica_set("old1", 10)]) == 3
    assert first_size(limits, [replica_set("old1", 13)]) == 0


@pytest.mark.parametrize(
    ("wanted", "sizes"),
    [(15, {"old1": 11, "new2": 7}), (5, {"old1": 5, "new2": 3}), (0, {"old1": 0, "new2": 0})],
)
def test_scaling_during_a_rollout_is_shared_out(wanted: int, sizes: Sizes) -> None:
    before = Limits(10, 3, 2)
    old, new = replica_set("old1", 8, 8, before), replica_set("new2", 5, 0, before)
    limits = Limits(wanted, 3, 2)
    assert is_scaling(limits, [old, new])
    assert scaled_sizes(rolling(wanted, 3, 2), limits, new, [old]) == sizes


def test_scaling_without_a_rollout_is_about_the_one_that_lives() -> None:
    old, new = replica_set("old1", 0), replica_set("new2", 3, 3, Limits(3, 1, 0))
    assert scaled_sizes(rolling(5), Limits(5, 2, 1), new, [old]) == {"new2": 5}
    assert scaled_sizes(rolling(5), Limits(5, 2, 1), None, [old]) == {"old1": 5}
    assert scaled_sizes(rolling(5), Limits(5, 2, 1), None, []) == {}
    assert not is_scaling(Limits(3, 1, 0), [old, new])


def test_a_saturated_new_one_ends_the_old_ones() -> None:
    limits = Limits(3, 1, 0)
    old, new = replica_set("old1", 2), replica_set("new2", 3, 3, limits)
    assert scaled_sizes(rolling(3), limits, new, [old]) == {"old1": 0}


class Rollout:
    """Pods that come, become available and break as chance wants; sizes are obeyed at once."""

    def __init__(self, limits: Limits, olds: int, rng: random.Random) -> None:
        self.limits = limits
        self.rng = rng
        self.sizes = {"old1": limits.wanted, "new3": 0}
        if olds > 1:
            self.sizes["old2"] = 0
        self.available = dict.fromkeys(self.sizes, 0) | {"old1": limits.wanted}

    def sets(self) -> dict[str, UnstructuredObject]:
        return {
            name: replica_set(name, size, self.available[name]) for name, size in self.sizes.items()
        }

    def step(self) -> bool:
        """One round of the controller, then something happens to the pods."""
        sets = self.sets()
        new = sets.pop("new3")
        changed = rolling_sizes(self.limits, new, list(sets.values()))
        for name, size in changed.items():
            self.sizes[name] = size
            # Pods that are not available are given up first.
            self.available[name] = min(self.available[name], size)
        for name, size in self.sizes.items():
            ready = self.rng.randint(self.available[name], size)
            self.available[name] = ready
        return bool(changed)

    def total(self) -> int:
        return sum(self.sizes.values())


@examples(200)
@given(
    wanted=st.integers(0, 12),
    surge=st.one_of(st.integers(0, 5), st.sampled_from(["0%", "10%", "25%", "100%"])),
    unavailable=st.one_of(st.integers(0, 5), st.sampled_from(["0%", "10%", "25%", "100%"])),
    seed=st.integers(0, 2**32),
)
def test_any_rolling_update_keeps_its_promises_and_ends(
    wanted: int, surge: Any, unavailable: Any, seed: int
) -> None:
    limits = limits_of(rolling(wanted, surge, unavailable))
    rollout = Rollout(limits, 1 + seed % 2, random.Random(seed))
    for _ in range(2000):
        rollout.step()
        assert rollout.total() <= max(limits.most, wanted)
        assert sum(rollout.available.values()) >= limits.least_available
        if rollout.sizes["new3"] == wanted == rollout.total() == sum(rollout.available.values()):
            break
    else:
        pytest.fail(f"it never ends: {rollout.sizes} {rollout.available}")
    assert not rollout.step()


@examples(200)
@given(
    sizes=st.lists(st.integers(1, 20), min_size=2, max_size=5),
    before=st.integers(1, 60),
    wanted=st.integers(0, 60),
    surge=st.integers(0, 5),
)
def test_any_shares_add_up_to_what_is_allowed(
    sizes: list[int], before: int, wanted: int, surge: int
) -> None:
    noted = Limits(before, surge, 0)
    sets = [replica_set(f"set{n}", size, 0, noted) for n, size in enumerate(sizes)]
    limits = Limits(wanted, surge, 0)
    found = scaled_sizes(rolling(wanted, surge, 0), limits, sets[-1], sets[:-1])
    assert all(size >= 0 for size in found.values())
    # All of it, unless the largest gave all that it has.
    largest = max(sets, key=lambda one: int(one.spec["replicas"])).uid
    allowed = limits.most if wanted else 0
    assert sum(found.values()) == allowed or found[largest] == 0
