"""Filter and score: pods near some pods and far from others, by kube-scheduler's InterPodAffinity.

A pod is near another if both are in one topology domain: on nodes with the same value of a label.
Required terms of the pod must hold, and so must the required anti-affinity of pods that are placed
already. Preferences of both sides make the score; a required affinity of a placed pod counts among
them. All pods of the cluster count, also those that terminate.

Source: k8s.io/kubernetes pkg/scheduler/framework/plugins/interpodaffinity, v1.36.
"""

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from msgspec import Meta

from kubeshare_plugins.kubernetes.node_affinity import Flags
from kubeshare_plugins.kubernetes.pod_topology_spread import (
    between_least_and_most,
    domains_by,
    far_from,
    near_all,
)
from kubeshare_py.domain.cluster_objects import all_hold
from kubeshare_py.plugin import (
    BestCards,
    Depends,
    IntArray,
    InterPodTerms,
    NamespaceObject,
    Normaliser,
    ObjectKey,
    PodSelector,
    ReasonTable,
    RowFilter,
    Rows,
    RowScore,
    Shape,
    TermKind,
    checked,
)

NOT_NEAR = "node(s) didn't match pod affinity rules"
NOT_FAR = "node(s) didn't match pod anti-affinity rules"
OTHERS_NOT_FAR = "node(s) didn't satisfy existing pods anti-affinity rules"

_Weight = Annotated[int, Meta(ge=0, le=100)]


class InterPodAffinity:
    """Required terms decide, in both directions; preferences score."""

    name = "InterPodAffinity"
    only_for = ("inter_pod",)
    depends = score_depends = Depends.CLUSTER
    normaliser: Normaliser | None = staticmethod(between_least_and_most)

    def __init__(
        self,
        hardPodAffinityWeight: object = 1,
        ignorePreferredTermsOfExistingPods: object = False,
    ) -> None:
        """`hardPodAffinityWeight`, 0 to 100, is what a required affinity of a placed pod counts.

        With `ignorePreferredTermsOfExistingPods`, pods without preferences of their own get no
        score. Raises ArgumentError.
        """
        self._hard_weight = checked(hardPodAffinityWeight, _Weight, "hardPodAffinityWeight")
        self._ignores_others = checked(
            ignorePreferredTermsOfExistingPods, bool, "ignorePreferredTermsOfExistingPods"
        )

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """No question for pods without terms that no term of a placed pod selects."""
        terms = shape.inter_pod
        if terms is None:
            return None
        not_near = reasons.register(self.name, NOT_NEAR, resolvable=False)
        not_far = reasons.register(self.name, NOT_FAR)
        others_not_far = reasons.register(self.name, OTHERS_NOT_FAR)

        def ask(rows: Rows) -> IntArray | None:
            # kube-scheduler names the first reason only: each replaces those below.
            mask: IntArray | None = None
            for fits, reason in (
                (_far_for_others(rows, terms), others_not_far),
                (_far_enough(rows, terms), not_far),
                (_near_enough(rows, terms), not_near),
            ):
                if fits is not None:
                    mask = np.where(fits, 0 if mask is None else mask, reason)
            return None if mask is None else mask[rows.index]

        return ask

    def score(self, shape: Shape) -> RowScore | None:
        """No question for pods without terms that no term of a placed pod selects."""
        terms = shape.inter_pod
        if terms is None or (self._ignores_others and not terms.preferred):
            return None
        hard_weight = self._hard_weight

        def points(rows: Rows, cards: BestCards | None) -> IntArray:
            by_key: dict[str, IntArray] = {}
            for key, counts in _weighted(rows, terms, hard_weight):
                by_key[key] = by_key[key] + counts if key in by_key else counts
            total = np.zeros(len(rows.index), np.int64)
            for key, counts in by_key.items():
                domains = domains_by(rows.everywhere, key)
                total += domains.sums(counts)[domains.codes[rows.index]]
            return total

        return points


def _near_enough(rows: Rows, terms: InterPodTerms) -> Flags | None:
    """Which rows of the tables satisfy the pod's affinity, (rows,); None: it has none."""
    if not terms.affinity:
        return None
    selectors = [term.selector for term in terms.affinity]
    keys = dict.fromkeys(term.topology_key for term in terms.affinity)
    return near_all(
        [domains_by(rows.everywhere, key) for key in keys],
        rows.pod_counts(*selectors),
        all(_selects(one, terms, rows) for one in selectors),
    )


def _far_enough(rows: Rows, terms: InterPodTerms) -> Flags | None:
    """Which rows of the tables satisfy the pod's anti-affinity, (rows,); None: it has none."""
    far: Flags | None = None
    for term in terms.anti_affinity:
        domains = domains_by(rows.everywhere, term.topology_key)
        here = far_from(domains, rows.pod_counts(term.selector))
        far = here if far is None else far & here
    return far


def _far_for_others(rows: Rows, terms: InterPodTerms) -> Flags | None:
    """Which rows satisfy the anti-affinity of all placed pods, (rows,); None: it selects none."""
    by_key: dict[str, IntArray] = {}
    for one in rows.terms_selecting(terms.namespace, terms.labels):
        if one.held.kind is TermKind.ANTI_AFFINITY:
            key = one.held.term.topology_key
            by_key[key] = by_key[key] + one.counts if key in by_key else one.counts
    far: Flags | None = None
    for key, counts in by_key.items():
        here = far_from(domains_by(rows.everywhere, key), counts)
        far = here if far is None else far & here
    return far


def _weighted(rows: Rows, terms: InterPodTerms, hard_weight: int) -> Iterator[tuple[str, IntArray]]:
    """Topology keys, and pods times their weights, (rows,), by the preferences of both sides."""
    for one in terms.preferred:
        yield one.term.topology_key, one.weight * rows.pod_counts(one.term.selector)
    for other in rows.terms_selecting(terms.namespace, terms.labels):
        held = other.held
        if held.kind is TermKind.PREFERRED:
            yield held.term.topology_key, held.weight * other.counts
        elif held.kind is TermKind.AFFINITY and hard_weight:
            yield held.term.topology_key, hard_weight * other.counts


def _selects(selector: PodSelector, pod: InterPodTerms, rows: Rows) -> bool:
    """Whether a selector selects the pod that asks."""
    if selector.labels is None or not all_hold(selector.labels, dict(pod.labels)):
        return False
    if pod.namespace in selector.namespaces:
        return True
    wanted = selector.namespace_selector
    if not wanted:
        return wanted is not None
    namespace = rows.objects(NamespaceObject).get(ObjectKey("", pod.namespace))
    return namespace is not None and all_hold(wanted, dict(namespace.labels))
