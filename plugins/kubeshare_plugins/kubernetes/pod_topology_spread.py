"""Filter and score: pods spread evenly over domains, by kube-scheduler's PodTopologySpread.

A constraint that must hold (DoNotSchedule) refuses a node if with one more pod its domain had more
than the skew above the emptiest eligible domain; the others (ScheduleAnyway) score. Domains are
eligible by their nodes, which have the labels of all such constraints and satisfy the constraint's
policies for node affinity and taints. Pods that terminate do not count.

Pods without constraints of their own may get default ones, by the plugin's arguments. The framework
adds them to shapes (`default_spread`), because the pods that they count follow from Services and
controllers. The arguments' own default is none: a GPU scheduler packs, and kube-scheduler's
constraints would spread the pods of every Deployment.

Source: k8s.io/kubernetes pkg/scheduler/framework/plugins/podtopologyspread, v1.36.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from kubeshare_plugins.kubernetes.node_affinity import Flags, required_affinity
from kubeshare_plugins.kubernetes.taint_toleration import untolerated
from kubeshare_py.domain.cluster_objects import all_hold
from kubeshare_py.plugin import (
    MAX_SCORE,
    ArgumentError,
    BestCards,
    Depends,
    IntArray,
    InterPodTerms,
    Normaliser,
    PodSelector,
    ReasonTable,
    RowFilter,
    Rows,
    RowScore,
    Shape,
    SpreadConstraint,
    checked,
)

# Topology domains: the nodes that have the same value of a label; and how pods spread over them.
#
# These are functions of arrays. (rows,) is one entry for each row of the tables, (k,) one for each
# of the rows that are asked about, and (domains,) one for each domain of a label.


NodePoints = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TopologyDomains:
    """The domain of each row by one node label.

    `codes`, (rows,) int64, are the numbers of the domains, below `size`; 0 is for rows without the
    label, and for rows without a node.
    """

    codes: IntArray
    size: int

    @property
    def labelled(self) -> Flags:
        """Which rows have the label, (rows,)."""
        return self.codes > 0

    def sums(self, amounts: IntArray) -> IntArray:
        """The sum of amounts, (rows,), over the rows of each domain: (domains,), 0 for no domain.

        Amounts are summed as float64: exact below 2**53.
        """
        sums: IntArray = np.bincount(self.codes, amounts, self.size).astype(np.int64)
        sums[0] = 0
        return sums

    def among(self, codes: IntArray) -> int:
        """How many different domains these are; `codes` are some of the domains' numbers."""
        return int(np.count_nonzero(np.bincount(codes, minlength=self.size)[1:]))


def domains_by(everywhere: Rows, key: str) -> TopologyDomains:
    """The domains by a node label; `everywhere` are all rows of the tables."""
    codes, numbers = everywhere.label_numbers(key)
    # Rows whose node is gone keep its labels while pods are there.
    return TopologyDomains(np.where(everywhere.present, codes, 0), len(numbers))


# --- pod affinity ------------------------------------------------------------------------------


def near_all(domains: Sequence[TopologyDomains], matching: IntArray, is_own_match: bool) -> Flags:
    """Which rows satisfy required affinity, (rows,): one of `domains` for each topology key.

    `matching` is how many pods of each row match all terms, (rows,). The first pod of a series that
    wants to be near itself, which matches its own terms, is satisfied wherever all labels are set,
    if no such pod is in any domain.
    """
    labelled = np.logical_and.reduce([one.labelled for one in domains])
    near: Flags = labelled
    is_first = True
    for one in domains:
        has_pods = one.sums(matching) > 0
        is_first = is_first and not has_pods.any()
        near = near & has_pods[one.codes]
    return labelled if is_first and is_own_match else near


def far_from(domains: TopologyDomains, matching: IntArray) -> Flags:
    """Which rows are in no domain with pods of `matching`, (rows,) both."""
    far: Flags = (domains.sums(matching) == 0)[domains.codes]
    return far


def between_least_and_most(points: IntArray) -> IntArray:
    """Points as parts of the way from the least to the most, 0 to 100, (k,); 0 if all are equal.

    As InterPodAffinity's NormalizeScore computes it, in float64.
    """
    if not len(points) or points.min() == points.max():
        return np.zeros_like(points)
    least, most = points.min(), points.max()
    scaled: IntArray = (MAX_SCORE * ((points - least) / (most - least))).astype(np.int64)
    return scaled


# --- spread ------------------------------------------------------------------------------------


def too_many(
    domains: TopologyDomains,
    eligible: Flags,
    counts: IntArray,
    *,
    is_own_match: bool,
    max_skew: int,
    min_domains: int,
) -> Flags:
    """In which domains one more pod exceeds the skew, (domains,).

    `counts` are pods that match, (rows,), of which those on `eligible` rows, (rows,), count. Such
    rows have the label. The
    least number of all eligible domains is 0 if there are fewer than `min_domains`, 1 or more.
    """
    codes = domains.codes[eligible]
    is_eligible = np.bincount(codes, minlength=domains.size) > 0
    sums = np.bincount(codes, counts[eligible], domains.size)
    enough = np.count_nonzero(is_eligible) >= min_domains
    least = sums[is_eligible].min() if enough else 0
    skewed: Flags = sums + is_own_match - least > max_skew
    return skewed


def spread_points(counts: IntArray, domains: int, max_skew: int) -> NodePoints:
    """What one constraint adds to the points of rows, (k,): pods weighted by the domains' number.

    `counts` are the pods in each row's domain, (k,).
    """
    weight = np.float64(math.log(domains + 2))
    return counts.astype(np.float64) * weight + (max_skew - 1)


def fewest_best(points: NodePoints, ignored: Flags) -> IntArray:
    """Points, 0 or more, as scores from 100 for few pods, (k,) int64; 0 for ignored rows.

    As PodTopologySpread's NormalizeScore computes it, after rounding half away from zero.
    """
    whole = np.trunc(points)
    rounded = (whole + (2 * (points - whole) >= 1)).astype(np.int64)
    counted = rounded[~ignored]
    if not len(counted):
        return np.zeros_like(rounded)
    most, least = counted.max(), counted.min()
    if most == 0:
        return np.where(ignored, 0, MAX_SCORE)
    return np.where(ignored, 0, MAX_SCORE * (most + least - rounded) // most)


SKEWED = "node(s) didn't match pod topology spread constraints"
UNLABELLED = f"{SKEWED} (missing required label)"
_HOSTNAME = "kubernetes.io/hostname"
_NO_PODS = PodSelector((), None)


class DefaultingType(StrEnum):
    """Which constraints pods without any get: kube-scheduler's own, or those listed."""

    SYSTEM = "System"
    LIST = "List"


class DefaultConstraint(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """A v1 TopologySpreadConstraint without a selector, for pods without constraints.

    `match_label_keys` have no effect, because kube-scheduler adds them to the selector that it then
    replaces.
    """

    max_skew: Annotated[int, Meta(ge=1)]
    topology_key: Annotated[str, Meta(min_length=1)]
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    min_domains: Annotated[int, Meta(ge=1)] | None = None
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    node_taints_policy: Literal["Honor", "Ignore"] | None = None
    match_label_keys: tuple[str, ...] | None = None

    def to_domain(self) -> SpreadConstraint:
        """The constraint; its selector selects no pod."""
        return SpreadConstraint(
            max_skew=self.max_skew,
            topology_key=self.topology_key,
            selector=_NO_PODS,
            hard=self.when_unsatisfiable == "DoNotSchedule",
            min_domains=self.min_domains or 1,
            honours_affinity=self.node_affinity_policy != "Ignore",
            honours_taints=self.node_taints_policy == "Honor",
        )


def _system(max_skew: int, topology_key: str) -> SpreadConstraint:
    return SpreadConstraint(
        max_skew=max_skew,
        topology_key=topology_key,
        selector=_NO_PODS,
        hard=False,
        needs_label=False,
    )


#: kube-scheduler's own, which also score nodes that lack one of the labels.
SYSTEM_CONSTRAINTS = (_system(3, _HOSTNAME), _system(5, "topology.kubernetes.io/zone"))


def _as_they_are(scores: IntArray) -> IntArray:
    """The scores are normalised already: how many domains there are depends on the rows too."""
    return scores


class PodTopologySpread:
    """Hard constraints decide, the others score."""

    name = "PodTopologySpread"
    only_for = ("inter_pod",)
    depends = score_depends = Depends.CLUSTER
    normaliser: Normaliser | None = staticmethod(_as_they_are)

    def __init__(self, defaultingType: object = "List", defaultConstraints: object = ()) -> None:
        """Which constraints pods get that have none. Raises ArgumentError."""
        kind = checked(defaultingType, DefaultingType, "defaultingType")
        listed = checked(defaultConstraints, tuple[DefaultConstraint, ...], "defaultConstraints")
        if listed and kind is DefaultingType.SYSTEM:
            raise ArgumentError("defaultConstraints: defaultingType must be List")
        pairs = [(one.topology_key, one.when_unsatisfiable) for one in listed]
        for at, pair in enumerate(pairs):
            if pair in pairs[:at]:
                raise ArgumentError(f"defaultConstraints[{at}]: {', '.join(pair)} is there twice")
        self.default_spread = tuple(one.to_domain() for one in listed)
        if kind is DefaultingType.SYSTEM:
            self.default_spread = SYSTEM_CONSTRAINTS

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """No question for pods without hard constraints."""
        constraints = _constraints(shape, hard=True)
        if not constraints:
            return None
        unlabelled = reasons.register(self.name, UNLABELLED, resolvable=False)
        skewed = reasons.register(self.name, SKEWED)
        nodes = _CountedNodes(shape)
        own = [_selects(one, shape.inter_pod) for one in constraints]

        def ask(rows: Rows) -> IntArray:
            everywhere = rows.everywhere
            all_domains = [domains_by(everywhere, one.topology_key) for one in constraints]
            labelled = _labelled(all_domains)
            mask = np.zeros(len(rows.index), np.int64)
            for constraint, domains, is_own in zip(constraints, all_domains, own, strict=True):
                refused = too_many(
                    domains,
                    nodes.eligible(everywhere, constraint, labelled),
                    _counts(rows, constraint),
                    is_own_match=is_own,
                    max_skew=constraint.max_skew,
                    min_domains=constraint.min_domains,
                )
                reason = np.where(refused, skewed, 0)
                reason[0] = unlabelled
                # kube-scheduler names the first reason only.
                mask = np.where(mask, mask, reason[domains.codes[rows.index]])
            return mask

        return ask

    def score(self, shape: Shape) -> RowScore | None:
        """No question for pods without soft constraints."""
        constraints = _constraints(shape, hard=False)
        if not constraints:
            return None
        nodes = _CountedNodes(shape)
        needs_labels = all(one.needs_label for one in constraints)

        def scores(rows: Rows, cards: BestCards | None) -> IntArray:
            everywhere, index = rows.everywhere, rows.index
            all_domains = [domains_by(everywhere, one.topology_key) for one in constraints]
            counted = _labelled(all_domains) if needs_labels else everywhere.present
            ignored = ~counted[index]
            points = np.zeros(len(index))
            for constraint, domains in zip(constraints, all_domains, strict=True):
                codes, counts = domains.codes[index], _counts(rows, constraint)
                if constraint.topology_key == _HOSTNAME:
                    there, number = counts[index], len(index) - int(ignored.sum())
                else:
                    eligible = nodes.eligible(everywhere, constraint, counted)
                    there = domains.sums(counts * eligible)[codes]
                    number = domains.among(codes[~ignored])
                    number += not needs_labels and not codes.all()
                added = spread_points(there, number, constraint.max_skew)
                points += added if needs_labels else np.where(codes, added, 0)
            return fewest_best(points, ignored)

        return scores


class _CountedNodes:
    """Which nodes count for the constraints of a pod."""

    def __init__(self, shape: Shape) -> None:
        self._affinity = required_affinity(shape)
        self._untolerated = untolerated(shape.tolerations, 1)

    def eligible(self, everywhere: Rows, constraint: SpreadConstraint, labelled: Flags) -> Flags:
        """Those of the `labelled` rows that satisfy the constraint's policies, (rows,) both."""
        eligible = labelled
        if constraint.honours_affinity and self._affinity is not None:
            eligible = eligible & self._affinity(everywhere)
        if constraint.honours_taints:
            eligible = eligible & (self._untolerated(everywhere) == 0)
        return eligible


def _constraints(shape: Shape, *, hard: bool) -> tuple[SpreadConstraint, ...]:
    terms = shape.inter_pod
    return () if terms is None else tuple(one for one in terms.spread if one.hard is hard)


def _selects(constraint: SpreadConstraint, pod: InterPodTerms | None) -> bool:
    """Whether the constraint's pods include the one that asks; they are of its namespace."""
    wanted = constraint.selector.labels
    return pod is not None and wanted is not None and all_hold(wanted, dict(pod.labels))


def _labelled(all_domains: Sequence[TopologyDomains]) -> Flags:
    """Which rows have all labels, (rows,)."""
    labelled: Flags = np.logical_and.reduce([one.labelled for one in all_domains])
    return labelled


def _counts(rows: Rows, constraint: SpreadConstraint) -> IntArray:
    """The constraint's pods on each row of the tables, (rows,); an empty selector counts none."""
    if not constraint.selector.labels:
        return np.zeros(len(rows.everywhere.index), np.int64)
    return rows.pod_counts(constraint.selector, terminating=False)
