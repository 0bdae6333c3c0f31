"""What lists and watches say, as the scheduler's events."""

from collections.abc import Iterable

from kubeshare_py.domain.events import (
    NodeGone,
    NodeSeen,
    NodesListed,
    PodGone,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.manifests import node, pod
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pod_fields import PodFields
from kubeshare_py.manifests.watch import ADDED, DELETED, MODIFIED


def pod_event(change: str, fields: PodFields) -> PodSeen | PodGone | None:
    """A watch line about a pod; None for bookmarks and errors. A finished pod is gone."""
    if change == DELETED or (change in (ADDED, MODIFIED) and pod.is_finished(fields)):
        return PodGone(PodUid(fields.metadata.uid))
    if change in (ADDED, MODIFIED):
        return PodSeen(pod.to_domain(fields))
    return None


def pods_listed(listed: Iterable[PodFields], asked_at: float) -> PodsListed:
    """A whole list of pods; finished ones are left out. `asked_at` as in PodsListed."""
    unfinished = (pod.to_domain(fields) for fields in listed if not pod.is_finished(fields))
    return PodsListed(tuple(unfinished), asked_at)


def node_event(change: str, fields: NodeFields) -> NodeSeen | NodeGone | None:
    """A watch line about a node; None for bookmarks and errors."""
    if change == DELETED:
        return NodeGone(NodeName(fields.metadata.name))
    if change in (ADDED, MODIFIED):
        return NodeSeen(node.to_domain(fields))
    return None


def nodes_listed(listed: Iterable[NodeFields]) -> NodesListed:
    """A whole list of nodes."""
    return NodesListed(tuple(node.to_domain(fields) for fields in listed))
