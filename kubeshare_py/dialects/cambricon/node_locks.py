"""The lock of a node on which Cambricon's own device plugin divides MLUs.

Its value is a time in Go's RFC 3339. HAMi's scheduler writes it before it binds a pod with MLUs,
and takes it over when it is two minutes old; the plugin removes it when it has given the pod its
part (DsmluLockTime and LockNode of pkg/device/cambricon/device.go in github.com/Project-HAMi/HAMi).
"""

from collections.abc import Collection, Mapping

from kubeshare_py.dialects.cambricon.keys import SMLU
from kubeshare_py.domain.node import NodeLock

DSMLU_LOCK = "cambricon.com/dsmlu.lock"
#: The age (s) at which it is freed.
DSMLU_OLDEST_S = 120.0
_DIALECT = "cambricon"


def dsmlu_locks(annotations: Mapping[str, str], offered: Collection[str]) -> tuple[NodeLock, ...]:
    """The lock of a node, none if the plugin does not divide its MLUs.

    `offered` are the names of the node's allocatable resources.
    """
    if SMLU.cores not in offered:
        return ()
    text = annotations.get(DSMLU_LOCK, "")
    return (NodeLock(dialect=_DIALECT, key=DSMLU_LOCK, text=text, names_owner=False),)
