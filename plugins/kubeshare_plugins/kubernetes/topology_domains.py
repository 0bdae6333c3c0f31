"""Topology domains: the nodes that have the same value of a label; and how pods spread over them.

These are functions of arrays. (rows,) is one entry for each row of the tables, (k,) one for each of
the rows that are asked about, and (domains,) one for each domain of a label.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kubeshare_plugins.kubernetes.label_judge import Flags
from kubeshare_py.plugin import MAX_SCORE, IntArray, Rows

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
