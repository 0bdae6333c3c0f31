"""The lock of a node whose MLUs Cambricon's own device plugin divides."""

import pytest

from kubeshare_py.dialects.cambricon.node_locks import DSMLU_LOCK, dsmlu_locks
from kubeshare_py.dialects.hami.node_locks import HeldLock, read_lock, write_lock
from kubeshare_py.domain.node import NodeLock

NOW = 1_700_000_000.0
PLUGINS = ("cambricon.com/mlu.smlu.vcore", "cambricon.com/mlu.smlu.vmemory")
FREE = NodeLock(dialect="cambricon", key="cambricon.com/dsmlu.lock", names_owner=False)


def test_a_node_that_advertises_parts_of_mlus_has_a_lock_without_a_name() -> None:
    """DsmluLockTime in HAMi's source: its value is a time alone."""
    assert dsmlu_locks({}, PLUGINS) == (FREE,)
    text = write_lock(NOW, None)
    assert (text, read_lock(text)) == ("2023-11-14T22:13:20Z", HeldLock(NOW))
    (held,) = dsmlu_locks({DSMLU_LOCK: text}, PLUGINS)
    assert (held.text, held.owner) == (text, None)


@pytest.mark.parametrize("offered", [(), ("nvidia.com/gpu",), ("cambricon.com/mlunum",)])
def test_other_nodes_have_none_whatever_was_written_once(offered: tuple[str, ...]) -> None:
    assert dsmlu_locks({DSMLU_LOCK: write_lock(NOW, None)}, offered) == ()
