"""Which collectors to ask, and which of several on one node."""

from collections.abc import Iterable
from dataclasses import dataclass

from kubeshare_py.domain.identity import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A collector's pod: where it answers, and the node that it runs on, as Kubernetes says.

    `is_ready` is what its probe says; `is_ending`: it is being deleted.
    """

    node: NodeName
    host: str
    is_ready: bool = True
    is_ending: bool = False


def chosen(targets: Iterable[Target]) -> dict[NodeName, Target]:
    """One of each node: rather one that stays, is ready, and comes first by address."""
    found: dict[NodeName, Target] = {}
    for target in sorted(targets, key=lambda one: (one.is_ending, not one.is_ready, one.host)):
        found.setdefault(target.node, target)
    return found
