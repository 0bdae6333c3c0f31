"""The lock of a node whose device plugin is HAMi's, as an annotation of the Node.

HAMi's value is `TIME,NAMESPACE,POD`, the ancestor's only `TIME`, in Go's RFC 3339. The plugin gives
its devices to the pod that it names, and removes it (GetPendingPod in pkg/util/util.go and
ParseNodeLock in pkg/util/nodelock of github.com/Project-HAMi/HAMi). Other vendors' plugins have
locks of their own: `dialects/cambricon/node_locks`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from kubeshare_py.dialects.agent_annotation import read_agent
from kubeshare_py.dialects.hami.keys import HAMI, NVIDIA_KEYS, SEED, SYSTEMS
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.node import NodeLock

_DIALECT = "hami"
_TIME = re.compile(
    r"(?P<moment>\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:[.,]\d+)?(?P<zone>Z|[+-]\d{2}:\d{2})"
)
_PARTS = 3
#: A name of a pod or a namespace, RFC 1123.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class HeldLock:
    """Since when (Unix, s) a lock is held; `owner` is None if its value names no pod."""

    since: float
    owner: PodKey | None = None


def write_lock(now: float, owner: PodKey | None) -> str:
    """The value of a lock that is taken at `now` (Unix, s), in UTC."""
    moment = f"{datetime.fromtimestamp(int(now), UTC):%Y-%m-%dT%H:%M:%SZ}"
    return moment if owner is None else f"{moment},{owner.namespace},{owner.name}"


def read_lock(text: str) -> HeldLock | None:
    """What the value says; None if it is malformed.

    The names of an owner become a path of a request: what no pod can be named is malformed.
    """
    moment, *owner = text.split(",")
    if owner and (len(owner) + 1 != _PARTS or not all(map(_NAME.fullmatch, owner))):
        return None
    since = _unix(moment)
    if since is None:
        return None
    return HeldLock(since, PodKey(*owner) if owner else None)


def node_locks(annotations: Mapping[str, str], resource: str) -> tuple[NodeLock, ...]:
    """The locks of a node: those of plugins that have registered it, and are not ours.

    `resource` is what the plugin advertises. If a plugin of the node's own agent serves it, HAMi's
    does not, whatever it wrote once.
    """
    for profile in (HAMI, SEED):
        if annotations.get(NVIDIA_KEYS[profile].register):
            break
    else:
        return ()
    if read_agent(annotations).serves(resource):
        return ()
    key = SYSTEMS[profile].lock
    text = annotations.get(key, "")
    held = read_lock(text) if text else None
    return (
        NodeLock(
            dialect=_DIALECT,
            key=key,
            text=text,
            owner=held.owner if held is not None else None,
            names_owner=profile == HAMI,
        ),
    )


def _unix(text: str) -> float | None:
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    zone = "+00:00" if found["zone"] == "Z" else found["zone"]
    try:
        return datetime.fromisoformat(f"{found['moment']}{zone}").timestamp()
    except (ValueError, OverflowError):
        return None
