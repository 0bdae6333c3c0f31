"""The lock of a node whose device plugin is HAMi's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.dialects.hami.annotations import (
    NVIDIA_KEYS,
    SYSTEMS,
    HeldLock,
    node_locks,
    read_lock,
    write_lock,
)
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.node import AGENT_ANNOTATION

NOW = 1_700_000_000.0
P = PodKey("team", "p")
GPU = "nvidia.com/gpu"
HAMI = {NVIDIA_KEYS["hami"].register: "[]"}
SEED = {NVIDIA_KEYS["4paradigm"].register: ":"}


def test_a_lock_names_time_namespace_and_pod() -> None:
    """Divided by commas, the time as RFC 3339 has it."""
    assert write_lock(NOW, P) == "2023-11-14T22:13:20Z,team,p"
    assert read_lock(write_lock(NOW, P)) == HeldLock(NOW, P)


def test_a_bare_time_of_an_old_version_is_a_lock_too() -> None:
    """The ancestor's lock has no owner in its text."""
    assert write_lock(NOW, None) == "2023-11-14T22:13:20Z"
    assert read_lock(write_lock(NOW, None)) == HeldLock(NOW)


@pytest.mark.parametrize(
    "text",
    [
        "2023-11-15T06:13:20+08:00,team,p",
        "2023-11-14T17:13:20-05:00,team,p",
        "2023-11-14T22:13:20.999Z,team,p",
    ],
)
def test_a_time_is_read_in_any_timezone(text: str) -> None:
    assert read_lock(text) == HeldLock(NOW, P)


@pytest.mark.parametrize(
    "text",
    [
        "", "soon", "2023-11-14T22:13:20", "2023-13-14T22:13:20Z,team,p", ",,", ",team,p",
        "2023-11-14T22:13:20Z,team", "2023-11-14T22:13:20Z,team,p,q", "2023-11-14T22:13:20Z,,p",
        "2023-11-14T22:13:20+99:99,team,p", "2023-11-14T22:13:20Z,team,p?watch=true",
        "2023-11-14T22:13:20Z,team,../secrets/s", "2023-11-14T22:13:20Z,te/am,p",
    ],
)  # fmt: skip
def test_other_texts_are_malformed(text: str) -> None:
    """No pod can free a lock with such a text: HAMi's node takes no more pods then."""
    assert read_lock(text) is None


@given(st.text(max_size=60))
def test_no_text_is_too_odd(text: str) -> None:
    assert read_lock(text) == read_lock(text)


def test_a_node_that_hamis_plugin_registered_has_a_lock() -> None:
    (lock,) = node_locks(HAMI, GPU)
    assert (lock.dialect, lock.key, lock.text, lock.owner) == (
        "hami", SYSTEMS["hami"].lock, "", None,
    )  # fmt: skip
    (held,) = node_locks({**HAMI, lock.key: write_lock(NOW, P)}, GPU)
    assert (held.text, held.owner) == ("2023-11-14T22:13:20Z,team,p", P)
    (malformed,) = node_locks({**HAMI, lock.key: "garbage"}, GPU)
    assert (malformed.text, malformed.owner) == ("garbage", None)


def test_the_ancestors_plugin_has_its_own_lock_without_a_name() -> None:
    (lock,) = node_locks(SEED, GPU)
    assert (lock.key, lock.names_owner) == (SYSTEMS["4paradigm"].lock, False)
    (newer,) = node_locks({**SEED, **HAMI}, GPU)
    assert (newer.key, newer.names_owner) == (SYSTEMS["hami"].lock, True)


def test_a_node_without_the_plugin_has_none() -> None:
    assert node_locks({}, GPU) == ()
    assert node_locks({SYSTEMS["hami"].lock: write_lock(NOW, P)}, GPU) == ()


@pytest.mark.parametrize("served", [GPU, f"{GPU} as slices"])
def test_a_node_whose_own_agent_serves_the_resource_has_none(served: str) -> None:
    agent = f'{{"v":1,"plugins":["{served}"]}}'
    assert node_locks({**HAMI, AGENT_ANNOTATION: agent}, GPU) == ()
    assert node_locks({**HAMI, AGENT_ANNOTATION: '{"v":1,"plugins":["rdma/hca"]}'}, GPU)
