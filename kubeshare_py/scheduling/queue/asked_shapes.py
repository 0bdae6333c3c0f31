"""The shape of a waiting pod: what it asks for, what its profile adds, and what others ask of it.

Its isolation back-end and nodes to which the API server refuses to bind it are part of that.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from kubeshare_py.cluster.cluster_objects import DefaultSelectors
from kubeshare_py.cluster.columns import ABSENT
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.pod_kinds import HeldTerm, HeldTerms
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.card_reading import (
    UNHELD,
    IsolationBackend,
    Part,
    in_words,
    not_ready_reason,
)
from kubeshare_py.domain.cluster_objects import Labels
from kubeshare_py.domain.gpu_capacities import scaled
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodUid
from kubeshare_py.domain.pod import (
    InterPodTerms,
    Pod,
    PodSelector,
    Shape,
    SpreadConstraint,
    avoiding,
    with_images,
    with_inter_pod,
    with_isolation,
    with_origin,
    without_resources,
)
from kubeshare_py.domain.printable import listed
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.timers import Alarms, Timers
from kubeshare_py.views.view import CardsNotReadyView

# The isolation back-end that enforces a pod's share of a card, and whether it works there.


@dataclass(frozen=True, slots=True)
class IsolationHold:
    """How far a placed pod's share is enforced.

    `unheld` are the parts that are not enforced. `not_ready` are cards on which its back-end does
    not work, with the reason; `unreported` are cards without a report.
    """

    unheld: tuple[Part, ...] = ()
    not_ready: tuple[tuple[GpuUuid, str], ...] = ()
    unreported: tuple[GpuUuid, ...] = ()


_HELD, _NOT_HELD = IsolationHold(), IsolationHold(UNHELD[IsolationBackend.NONE])


def chosen_backend(pod: Pod, profile: Profile) -> IsolationBackend | None:
    """The back-end of a waiting pod; None for one that asks for no share."""
    if pod.request is None or pod.request.is_exclusive:
        return None
    return profile.isolation.chosen(pod.isolation)


def backend_of(record: Record, profiles: Mapping[str, Profile]) -> IsolationBackend | None:
    """Its back-end; None for a pod without a share. The pod must be this scheduler's."""
    if record.node is not None:
        return record.allocation.backend if record.allocation else None
    return chosen_backend(record.pod, profiles[record.pod.scheduler_name])


def hold_on(ledger: Ledger, node: NodeName, allocation: Allocation | None) -> IsolationHold:
    """How far the share of a placed pod is enforced, by its cards' present readiness.

    Cards that are for the pod alone need no back-end. A back-end that is not ready on one of its
    cards enforces nothing.
    """
    backend = allocation.backend if allocation is not None else None
    if allocation is None or backend is None:
        return _HELD
    if backend is IsolationBackend.NONE:
        return _NOT_HELD
    reasons = [
        (card.uuid, not_ready_reason(ledger.readiness_of(node, card.uuid), backend))
        for card in allocation.cards
        if not card.exclusive
    ]
    not_ready = tuple((uuid, reason) for uuid, reason in reasons if reason)
    return IsolationHold(
        unheld=tuple(Part) if not_ready else UNHELD[backend],
        not_ready=not_ready,
        unreported=tuple(uuid for uuid, reason in reasons if reason is None),
    )


def not_ready_on(ledger: Ledger, row: int, shape: Shape) -> tuple[CardsNotReadyView, ...]:
    """On how many of a row's cards the shape's back-end is not ready, by reason."""
    columns, backend = ledger.columns, shape.isolation
    if not shape.claims or backend is IsolationBackend.NONE:
        return ()
    reports = columns.readiness_sets
    counts = Counter(
        reason
        for slot in range(len(columns.uuids[row]))
        if not columns.flags.item(row, slot) & ABSENT
        and (reason := not_ready_reason(reports[columns.readiness.item(row, slot)], backend)) != ""
    )
    return tuple(
        CardsNotReadyView(cards=cards, reason=in_words(reason) if reason else "")
        for reason, cards in sorted(
            counts.items(), key=lambda item: (item[0] is None, item[0] or "")
        )
    )


# The shape of a pod with what it asks of other pods, and what terms of placed pods ask of it.
#
# A pod's shape has its labels only if they matter: if the pod has terms of its own, or if a term of
# a placed pod selects it. Of the labels it has those that some term names. As placed pods come and
# go, other labels may matter, so that a pod's shape may become stale while it waits.


class _TermsOfPods(Protocol):
    """Terms of placed pods."""

    def selecting(self, namespace: str, labels: Labels) -> Sequence[HeldTerm]:
        """The terms that select a pod with these labels."""

    def names(self, key: str) -> bool:
        """Whether one of them names this label key."""


def with_terms(pod: Pod, shape: Shape, terms: _TermsOfPods) -> Shape:
    """This shape of a pod with the labels that matter now."""
    own, namespace = shape.inter_pod, pod.key.namespace
    if own is None and not terms.selecting(namespace, pod.labels):
        return shape
    keys = own.named_keys if own is not None else frozenset()
    labels = tuple([pair for pair in pod.labels if pair[0] in keys or terms.names(pair[0])])
    return _with(shape, own, namespace, labels)


@remembered(4096)
def _with(shape: Shape, own: InterPodTerms | None, namespace: str, labels: Labels) -> Shape:
    asked = InterPodTerms(namespace=namespace) if own is None else own
    return with_inter_pod(shape, replace(asked, labels=labels))


# Pods that the API server refuses to bind: to which nodes, and how soon they are tried again.
#
# A policy or a webhook may refuse one node, all nodes to one pod, or, like a missing right, every
# Binding. Nothing says which of these it is. So after some refusals of a node the pod is tried on
# others for a while, and all such pods together send few Bindings a second.


#: After so many refusals of a node, the pod is tried on others, for so long (s) since the last one.
#: The first may be due to a policy that has just changed.
MOST_REFUSALS, AVOIDED_S = 2, 300.0
#: The most nodes that are avoided for one pod; with another one, the oldest is tried again.
MOST_AVOIDED = 16
#: The most pods a second that are tried again after a refusal.
RETRIES_A_SECOND = 20


@dataclass(slots=True)
class NodeRefusals:
    """How often a pod was refused for a node, until when (s) that counts, and the last answer."""

    times: int
    until: float
    answer: str

    @property
    def is_avoided(self) -> bool:
        """Whether the pod is tried on other nodes."""
        return self.times >= MOST_REFUSALS


@dataclass(slots=True)
class RefusedPod:
    """A pod that was refused lately: until when (s) that counts, and for which nodes."""

    until: float
    nodes: dict[NodeName, NodeRefusals] = field(default_factory=dict)


class RefusedBinds:
    """The pods whose Bindings were refused lately."""

    def __init__(self, alarms: Alarms) -> None:
        #: To be read: empty, so that nothing is asked about plain pods, unless there are any.
        self.pods: dict[PodUid, RefusedPod] = {}
        self._ends: Timers[PodUid] = Timers(alarms)

    @property
    def pause_s(self) -> float:
        """The shortest pause (s) before a refused pod is tried again, given how many there are."""
        return len(self.pods) / RETRIES_A_SECOND

    def refused(self, uid: PodUid, now: float) -> None:
        """A Binding was refused, and would be for any node."""
        self._noted(uid, now)

    def refused_for(self, uid: PodUid, node: NodeName, answer: str, now: float) -> None:
        """A Binding was refused, perhaps because of its node; `answer` is the API server's."""
        nodes = self._noted(uid, now).nodes
        before = nodes.pop(node, None)
        nodes[node] = NodeRefusals(1 + (before.times if before else 0), now + AVOIDED_S, answer)
        if len(nodes) > MOST_AVOIDED:
            del nodes[next(iter(nodes))]

    def avoided(self, uid: PodUid) -> tuple[NodeName, ...]:
        """The nodes that a pod is not to be placed on, sorted."""
        return tuple(sorted(node for node, one in self.of(uid).items() if one.is_avoided))

    def in_words(self, uid: PodUid) -> str:
        """Which nodes are avoided, with the API server's last answer; "" if none are."""
        nodes = [node for node, one in self.of(uid).items() if one.is_avoided]
        if not nodes:
            return ""
        answer = self.of(uid)[nodes[-1]].answer
        where = listed(sorted(nodes))
        return f"The API server refused to bind it to {where}: {answer.rstrip('.')}."

    def of(self, uid: PodUid) -> dict[NodeName, NodeRefusals]:
        """The nodes that were refused to a pod lately, the latest last; to be read."""
        found = self.pods.get(uid)
        return {} if found is None else found.nodes

    def ended(self, now: float) -> list[PodUid]:
        """Forget refusals that are over; the pods that had nodes to avoid and have fewer."""
        freed = []
        for uid in self._ends.due(now):
            pod = self.pods.get(uid)
            if pod is None:
                continue
            over = [node for node, one in pod.nodes.items() if one.until <= now]
            if any(pod.nodes[node].is_avoided for node in over):
                freed.append(uid)
            for node in over:
                del pod.nodes[node]
            if pod.until <= now:
                del self.pods[uid]
            else:
                dues = (one.until for one in pod.nodes.values())
                self._ends.add(min(dues, default=pod.until), uid)
        return freed

    def forget(self, uid: PodUid) -> None:
        """The pod is bound, or gone."""
        self.pods.pop(uid, None)

    def _noted(self, uid: PodUid, now: float) -> RefusedPod:
        until = now + AVOIDED_S
        pod = self.pods.get(uid)
        if pod is None:
            pod = self.pods[uid] = RefusedPod(until)
            self._ends.add(until, uid)
        pod.until = until
        return pod


# The shape of a waiting pod: what it asks for, what its profile adds, and what others ask of it.
#
# Nodes to which the API server refuses to bind the pod are part of it for a while.
#
# A profile may add constraints of spread to pods without any of their own. Which pods they count
# follows from Services and from the pod's controller, so that a shape may become stale as these
# come and go, and as terms of placed pods do (`_TermsOfPods`).


class AskedShapes:
    """Shapes by terms of placed pods, Services and controllers as they are now."""

    def __init__(
        self, terms: HeldTerms, selectors: DefaultSelectors, refused: RefusedBinds
    ) -> None:
        self._terms = terms
        self._selectors = selectors
        self.refused = refused

    def version(self, profile: Profile) -> int:
        """A number that grows when the shape of a pod of this profile may have become another."""
        version = self._terms.version
        return version + self._selectors.version if profile.default_spread else version

    def of(self, pod: Pod, profile: Profile) -> Shape | None:
        """The pod's shape; None if that is the one that it has without any additions."""
        asked = _asked(pod, profile)
        if asked is not None and (profile.reads_namespace or profile.reads_labels):
            asked = _with_origin(pod, asked, profile)
        if asked is not None and profile.default_spread:
            asked = self._spread(pod, asked, profile.default_spread)
        if asked is not None and (self._terms or asked.inter_pod is not None):
            asked = with_terms(pod, asked, self._terms)
        if asked is not None and self.refused.pods and (nodes := self.refused.avoided(pod.uid)):
            asked = avoiding(asked, nodes)
        return None if asked is pod.shape else asked

    def _spread(self, pod: Pod, shape: Shape, constraints: tuple[SpreadConstraint, ...]) -> Shape:
        """The shape with its profile's constraints, unless it has some, or no pods to count."""
        own = shape.inter_pod
        if own is not None and own.spread:
            return shape
        namespace = pod.key.namespace
        selector = self._selectors.of(namespace, pod.labels, pod.controller)
        return shape if selector is None else _spread(shape, namespace, constraints, selector)


def is_scaled(pod: Pod) -> bool:
    """Whether the pod asks for a share of a model, which a profile's capacities scale."""
    first, others = pod.shape.claims[:1], pod.shape.claims[1:]
    if first and first[0].share_of:
        return True
    return others != () and any(claim.share_of for claim in others)


def _asked(pod: Pod, profile: Profile) -> Shape | None:
    """The pod's shape as its profile understands it; None if it cannot be understood."""
    shape = scaled(pod.shape, profile.capacities) if is_scaled(pod) else pod.shape
    if shape is not None and profile.reads_images and pod.images is not None:
        shape = with_images(shape, pod.images)
    if shape is not None and profile.ignores_resource is not None:
        ignored = tuple(name for name, _ in shape.resources if profile.ignores_resource(name))
        shape = without_resources(shape, ignored) if ignored else shape
    if shape is None or pod.request is None or pod.request.is_exclusive:
        return shape
    backend = profile.isolation.chosen(pod.isolation)
    return shape if backend is IsolationBackend.NONE else with_isolation(shape, backend)


def _with_origin(pod: Pod, shape: Shape, profile: Profile) -> Shape:
    """The shape with what the profile's plugins read of the pod."""
    namespace = pod.key.namespace if profile.reads_namespace else ""
    read = profile.reads_labels
    labels = tuple(label for label in pod.labels if label[0] in read) if read else ()
    return with_origin(shape, namespace, labels) if namespace or labels else shape


@remembered(4096)
def _spread(
    shape: Shape,
    namespace: str,
    constraints: tuple[SpreadConstraint, ...],
    selector: PodSelector,
) -> Shape:
    own = shape.inter_pod or InterPodTerms(namespace=namespace)
    spread = tuple(replace(one, selector=selector) for one in constraints)
    return with_inter_pod(shape, replace(own, spread=spread))
