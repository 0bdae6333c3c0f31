"""Objects of lists and watches as the scheduler's events."""

from kubeshare_py.domain.events import (
    BudgetGone,
    BudgetSeen,
    FinishedMember,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
)
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.manifests import budget, node
from kubeshare_py.manifests.budget import BudgetFields
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pods import pod
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.manifests.watch import ADDED, DELETED, MODIFIED


def pod_event(change: str, fields: PodFields) -> PodSeen | PodGone | None:
    """A watch line about a pod; None for bookmarks and errors. A finished pod is gone."""
    uid = PodUid(fields.metadata.uid)
    if change == DELETED:
        return PodGone(uid, stopped=pod.is_finished(fields))
    if change in (ADDED, MODIFIED) and pod.is_finished(fields):
        return PodGone(uid, pod.finished_member(fields), stopped=True)
    if change in (ADDED, MODIFIED):
        return PodSeen(pod.to_domain(fields))
    return None


def listed_pod(fields: PodFields) -> Pod | FinishedMember | PodUid:
    """A pod of a list; of a finished pod only its uid, unless it is a member of a group."""
    if pod.is_finished(fields):
        return pod.finished_member(fields) or PodUid(fields.metadata.uid)
    return pod.to_domain(fields)


def node_event(change: str, fields: NodeFields) -> NodeSeen | NodeGone | None:
    """A watch line about a node; None for bookmarks and errors."""
    if change == DELETED:
        return NodeGone(NodeName(fields.metadata.name))
    if change in (ADDED, MODIFIED):
        return NodeSeen(node.to_domain(fields))
    return None


def budget_event(change: str, fields: BudgetFields) -> BudgetSeen | BudgetGone | None:
    """A watch line about a disruption budget; None for bookmarks and errors."""
    if change == DELETED:
        return BudgetGone(budget.key_of(fields))
    if change in (ADDED, MODIFIED):
        return BudgetSeen(budget.to_domain(fields))
    return None
