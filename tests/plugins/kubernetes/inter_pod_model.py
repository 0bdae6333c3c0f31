"""Pod affinity and topology spread by their definitions: pod by pod, node by node, without arrays.

Written from the rules of kube-scheduler 1.36 (InterPodAffinity and PodTopologySpread), to judge the
plugins, which compute the same from counts.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kubeshare_py.domain.cluster_objects import all_hold
from kubeshare_py.domain.pod import AffinityTerm, InterPodTerms, PodSelector, SpreadConstraint

NEAR = "node(s) didn't match pod affinity rules"
FAR = "node(s) didn't match pod anti-affinity rules"
OTHERS_FAR = "node(s) didn't satisfy existing pods anti-affinity rules"
SKEWED = "node(s) didn't match pod topology spread constraints"
UNLABELLED = "node(s) didn't match pod topology spread constraints (missing required label)"


@dataclass(frozen=True)
class ModelNode:
    name: str
    labels: Mapping[str, str]
    #: Whether the pod's node affinity allows it, and whether the pod tolerates its taints.
    is_allowed: bool = True
    is_tolerated: bool = True


@dataclass(frozen=True)
class ModelPod:
    namespace: str
    labels: Mapping[str, str]
    terms: InterPodTerms | None = None
    terminating: bool = False


@dataclass
class Model:
    nodes: list[ModelNode]
    #: (node's name, pod).
    placed: list[tuple[str, ModelPod]] = field(default_factory=list)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    # --- which pods a selector selects, and where they are -------------------------------------

    def selects(self, selector: PodSelector, pod: ModelPod) -> bool:
        if selector.labels is None or not all_hold(selector.labels, pod.labels):
            return False
        if pod.namespace in selector.namespaces:
            return True
        of_namespaces = selector.namespace_selector
        labels = self.namespaces.get(pod.namespace, {})
        return of_namespaces is not None and all_hold(of_namespaces, labels)

    def in_domain(self, node: ModelNode, key: str) -> list[ModelPod]:
        """The pods on nodes with the same value of a label; none if the node lacks it."""
        if key not in node.labels:
            return []
        value = node.labels[key]
        names = {one.name for one in self.nodes if one.labels.get(key) == value}
        return [pod for name, pod in self.placed if name in names]

    # --- pod affinity --------------------------------------------------------------------------

    def refusal(self, pod: ModelPod, node: ModelNode) -> str | None:
        """Why InterPodAffinity refuses the node: its first reason."""
        terms = pod.terms
        if terms is not None and not self._is_near(pod, terms.affinity, node):
            return NEAR
        for term in terms.anti_affinity if terms is not None else ():
            others = self.in_domain(node, term.topology_key)
            if any(self.selects(term.selector, one) for one in others):
                return FAR
        for key in node.labels:
            for other in self.in_domain(node, key):
                for term in other.terms.anti_affinity if other.terms is not None else ():
                    if term.topology_key == key and self.selects(term.selector, pod):
                        return OTHERS_FAR
        return None

    def _is_near(self, pod: ModelPod, terms: tuple[AffinityTerm, ...], node: ModelNode) -> bool:
        def matches_all(one: ModelPod) -> bool:
            return all(self.selects(term.selector, one) for term in terms)

        if any(term.topology_key not in node.labels for term in terms):
            return False
        if all(any(map(matches_all, self.in_domain(node, term.topology_key))) for term in terms):
            return True
        keys = {term.topology_key for term in terms}
        anywhere = any(
            matches_all(other) and not keys.isdisjoint(self._node(name).labels)
            for name, other in self.placed
        )
        return not anywhere and matches_all(pod)

    def _node(self, name: str) -> ModelNode:
        return next(node for node in self.nodes if node.name == name)

    def affinity_points(self, pod: ModelPod, node: ModelNode, hard_weight: int = 1) -> int:
        """InterPodAffinity's score before it is normalised."""
        points = 0
        for one in pod.terms.preferred if pod.terms is not None else ():
            others = self.in_domain(node, one.term.topology_key)
            points += one.weight * sum(self.selects(one.term.selector, each) for each in others)
        for name, other in self.placed:
            if other.terms is None:
                continue
            weighted = [(one.term, one.weight) for one in other.terms.preferred]
            weighted += [(term, hard_weight) for term in other.terms.affinity]
            for term, weight in weighted:
                key = term.topology_key
                there = self._node(name).labels
                if key in there and there[key] == node.labels.get(key):
                    points += weight * self.selects(term.selector, pod)
        return points

    # --- spread --------------------------------------------------------------------------------

    def skew_refusal(self, pod: ModelPod, node: ModelNode) -> str | None:
        """Why PodTopologySpread refuses the node: its first reason."""
        hard = [one for one in self._constraints(pod) if one.hard]
        for constraint in hard:
            if constraint.topology_key not in node.labels:
                return UNLABELLED
            counts = self._counts(pod, constraint, hard)
            there = counts.get(node.labels[constraint.topology_key], 0)
            least = min(counts.values(), default=0)
            if len(counts) < constraint.min_domains:
                least = 0
            if there + self.selects(constraint.selector, pod) - least > constraint.max_skew:
                return SKEWED
        return None

    def _constraints(self, pod: ModelPod) -> tuple[SpreadConstraint, ...]:
        return pod.terms.spread if pod.terms is not None else ()

    def _counts(
        self, pod: ModelPod, constraint: SpreadConstraint, together: Iterable[SpreadConstraint]
    ) -> dict[str, int]:
        """The number of matching pods by domain, over the nodes that count."""
        counts: dict[str, int] = {}
        for node in self.nodes:
            if any(one.topology_key not in node.labels for one in together):
                continue
            if constraint.honours_affinity and not node.is_allowed:
                continue
            if constraint.honours_taints and not node.is_tolerated:
                continue
            value = node.labels[constraint.topology_key]
            counts[value] = counts.get(value, 0) + self._matching_on(node, constraint.selector)
        return counts

    def _matching_on(self, node: ModelNode, selector: PodSelector) -> int:
        # An empty selector selects every pod, but its pods are not counted.
        if selector.labels == ():
            return 0
        return sum(
            name == node.name and not other.terminating and self.selects(selector, other)
            for name, other in self.placed
        )

    def spread_scores(self, pod: ModelPod, fitting: list[ModelNode]) -> dict[str, int]:
        """PodTopologySpread's normalised scores of the nodes that fit, by name."""
        soft = [one for one in self._constraints(pod) if not one.hard]
        scored = [node for node in fitting if all(one.topology_key in node.labels for one in soft)]
        points: dict[str, float] = {node.name: 0.0 for node in scored}
        for constraint in soft:
            key = constraint.topology_key
            per_node = key == "kubernetes.io/hostname"
            domains = len(scored) if per_node else len({node.labels[key] for node in scored})
            counts = self._counts(pod, constraint, soft)
            for node in scored:
                there = counts.get(node.labels[key], 0)
                if per_node:
                    there = self._matching_on(node, constraint.selector)
                points[node.name] += there * math.log(domains + 2) + constraint.max_skew - 1
        whole = {name: math.floor(one + 0.5) for name, one in points.items()}
        most, least = max(whole.values(), default=0), min(whole.values(), default=0)
        ignored = {node.name: 0 for node in fitting}
        if most == 0:
            return ignored | dict.fromkeys(whole, 100)
        return ignored | {name: 100 * (most + least - one) // most for name, one in whole.items()}


def normalised(points: Mapping[str, int]) -> dict[str, int]:
    """InterPodAffinity's scores: from the least to the most."""
    least, most = min(points.values(), default=0), max(points.values(), default=0)

    return {
        name: int(100 * ((one - least) / (most - least))) if most > least else 0
        for name, one in points.items()
    }
