"""Which locks of nodes are freed by the scheduler. The times are Unix time in seconds."""

import math
from random import Random

import pytest

from kubeshare_py.dialects.cambricon import DSMLU_LOCK, DSMLU_OLDEST_S
from kubeshare_py.dialects.hami.annotations import write_lock
from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.inventory.hami_locks import (
    LOOK_S,
    OLDEST_S,
    UNBOUND_S,
    KnownLock,
    LockAges,
    LockOwner,
)
from tests.scale import seeds

NOW = 1_700_000_000.0
N1, N2 = NodeName("n1"), NodeName("n2")
KEY = "hami.io/mutex.lock"
P = PodKey("team", "p")
HERE = LockOwner(node=N1, phase="allocating")


def ages(text: str, key: str = KEY) -> LockAges:
    found = LockAges()
    assert found.take(N1, key, text, NOW)
    return found


def freed_at(text: str, owner: LockOwner | None, key: str = KEY) -> float | None:
    """How long (s) after it was first seen this lock is freed, if ever within ten minutes."""
    found = ages(text, key)
    for later in range(600):
        for lock in found.due(NOW + later):
            if found.judge(lock, owner, NOW + later):
                return later
    return None


TAKEN = write_lock(NOW, P)


def test_a_lock_whose_pod_is_on_its_way_is_kept_for_five_minutes() -> None:
    """Within five minutes the next pod is refused, afterwards it gets the lock."""
    assert freed_at(TAKEN, HERE) == OLDEST_S
    assert freed_at(write_lock(NOW - 200, P), HERE) == OLDEST_S - 200
    assert freed_at(write_lock(NOW - 400, P), HERE) == LOOK_S


def test_a_time_that_has_not_come_yet_counts_from_when_it_is_seen() -> None:
    assert freed_at(write_lock(NOW + 8 * 3600, P), HERE) == OLDEST_S
    assert freed_at("9999-12-31T23:59:59Z,team,p", HERE) == OLDEST_S


def test_a_malformed_lock_is_freed_at_once() -> None:
    """HAMi's node takes no pod until an administrator removes it."""
    assert freed_at("garbage", None) == 0


def test_a_bare_time_is_honoured_and_old_ones_are_freed() -> None:
    """HAMi's ancestor wrote a time alone, and HAMi still honours it."""
    assert freed_at(write_lock(NOW, None), None) == OLDEST_S


def test_the_lock_of_cambricons_plugin_is_freed_after_two_minutes() -> None:
    """LockNode of HAMi's Cambricon devices takes it over then."""
    assert freed_at(write_lock(NOW, None), None, DSMLU_LOCK) == DSMLU_OLDEST_S == 120


def test_a_lock_whose_pod_is_gone_or_over_is_freed_soon() -> None:
    """The owner was deleted, or will use no device any more."""
    assert freed_at(TAKEN, None) == LOOK_S
    assert freed_at(TAKEN, LockOwner(node=N1, phase="allocating", is_over=True)) == LOOK_S


@pytest.mark.parametrize("phase", ["success", "failed"])
def test_a_lock_whose_plugin_has_answered_is_freed_soon(phase: str) -> None:
    assert freed_at(TAKEN, LockOwner(node=N1, phase=phase)) == LOOK_S


@pytest.mark.parametrize("node", ["", "n2"])
def test_a_lock_whose_pod_is_not_on_the_node_is_freed_later(node: str) -> None:
    assert freed_at(TAKEN, LockOwner(node=node)) == UNBOUND_S


def test_a_lock_that_is_free_or_changes_hands_is_not_looked_at() -> None:
    found = ages(TAKEN)
    assert found.next_at == NOW + LOOK_S
    assert not found.take(N1, KEY, TAKEN, NOW + 0.5)
    assert found.take(N1, KEY, write_lock(NOW + 1, PodKey("team", "q")), NOW + 0.9)
    assert found.due(NOW + LOOK_S) == []
    assert found.take(N1, KEY, "", NOW + 1.5)
    assert found.next_at == math.inf


def test_a_node_that_is_gone_has_no_locks() -> None:
    found = ages(TAKEN)
    found.take(N2, KEY, TAKEN, NOW)
    found.gone(N1)
    found.only([N1])
    assert found.due(NOW + 1000) == []


@pytest.mark.parametrize("seed", seeds(40))
def test_any_lock_of_any_history_is_freed_in_time_and_not_too_early(seed: int) -> None:
    """Safety: while a pod is on its way its lock stays for five minutes. Liveness: none stays."""
    rng = Random(seed)
    found, now = LockAges(), NOW
    # The books: since when the text has been there, and what its pod does.
    text, since, owner = "", now, HERE
    for _ in range(400):
        now += rng.choice([0.1, 0.5, 1.0, 7.0])
        if not text or rng.random() < 0.05:
            held = rng.choice([P, PodKey("team", f"q{rng.randrange(9)}"), None])
            text = rng.choice([write_lock(now, held), write_lock(now, held), "odd"])
            since, owner = now, rng.choice([HERE, HERE, LockOwner(), LockOwner(node="n2")])
            found.take(N1, KEY, text, now)
        if rng.random() < 0.1:
            owner = rng.choice([HERE, LockOwner(node=N1, phase="success"), LockOwner(is_over=True)])
        for lock in found.due(now):
            assert isinstance(lock, KnownLock)
            if found.judge(lock, owner, now):
                is_on_its_way = owner == HERE and text != "odd"
                assert not is_on_its_way or now - since >= OLDEST_S - 1
                text = ""
                found.take(N1, KEY, "", now)
        if text:
            assert now - since < OLDEST_S + 10, "a lock is forgotten"
