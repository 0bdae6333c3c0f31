"""The collectors to ask, and which one of several on a node."""

from collections.abc import Iterable
from dataclasses import dataclass

from kubeshare_py.domain.identity import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapeTarget:
    """A collector's pod, as Kubernetes shows it: its address, and its node.

    `is_ready` is from its readiness probe; `is_ending`: it is being deleted.
    """

    node: NodeName
    host: str
    is_ready: bool = True
    is_ending: bool = False


def chosen(targets: Iterable[ScrapeTarget]) -> dict[NodeName, ScrapeTarget]:
    """One collector for each node: first one that stays, then a ready one, then by address."""
    found: dict[NodeName, ScrapeTarget] = {}
    for target in sorted(targets, key=lambda one: (one.is_ending, not one.is_ready, one.host)):
        found.setdefault(target.node, target)
    return found
