"""Placed pods above others: some more and some fewer, to try what would be."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.cluster_objects import ClusterObjects
from kubeshare_py.cluster.pods.held_terms import HeldTerm, held_by
from kubeshare_py.cluster.pods.placed_pods import AllSelectors, PodIndex
from kubeshare_py.cluster.pods.pod_kinds import selects
from kubeshare_py.cluster.volumes.mounted import MountedVolumes, VolumesAbove
from kubeshare_py.domain.label_selector import Labels
from kubeshare_py.domain.needs.device_claims import DeviceClaims
from kubeshare_py.domain.needs.host_ports import HostPort
from kubeshare_py.domain.needs.placed_pod import PlacedPod

#: A pod that is placed on a row in what is tried (sign 1), or removed from it (-1).
PodMove = tuple[int, PlacedPod, int]


class PodsOverlay:
    """See PodIndex. What is tried stays in it."""

    def __init__(
        self, below: PodIndex, objects: ClusterObjects, moves: Iterable[PodMove] = ()
    ) -> None:
        self.below = below
        self._objects = objects
        self._moves = [*moves]
        self._own_changes = 0
        self._with_terms = sum(pod.terms is not None for _, pod, _ in self._moves)

    @property
    def changes(self) -> int:
        """See PodIndex: changes of this and of what is below."""
        return self.below.changes + self._own_changes

    @property
    def moves(self) -> Sequence[PodMove]:
        """What is tried."""
        return self._moves

    def add(self, row: int, pod: PlacedPod, sign: int) -> None:
        """Place a pod on a row (sign 1), or remove it (-1)."""
        self._moves.append((row, pod, sign))
        self._with_terms += pod.terms is not None
        self._own_changes += 1

    def clear(self) -> None:
        """Be like the pods below again."""
        if self._moves:
            self._moves.clear()
            self._with_terms = 0
            self._own_changes += 1

    def counts(self, selectors: AllSelectors, rows: int, *, terminating: bool) -> NDArray[np.int64]:
        """See PodIndex, (rows,)."""
        found = self.below.counts(selectors, rows, terminating=terminating)
        if not self._moves:
            return found
        found = found.copy()
        for row, pod, sign in self._moves:
            if pod.terminating and not terminating:
                continue
            labels = dict(pod.labels)
            if all(selects(one, pod.namespace, labels, self._objects) for one in selectors):
                found[row] += sign
        return found

    def selecting(self, namespace: str, labels: Labels) -> Sequence[HeldTerm]:
        """See PodIndex; terms may be among them that no pod holds any more."""
        found = dict.fromkeys(self.below.selecting(namespace, labels))
        named = dict(labels)
        for _, pod, _ in self._moves:
            if pod.terms is not None:
                for held in held_by(pod.terms):
                    if selects(held.term.selector, namespace, named, self._objects):
                        found[held] = None
        return [*found]

    @property
    def has_terms(self) -> bool:
        """Whether pods that are tried here have terms."""
        return self._with_terms > 0

    def names(self, key: str) -> bool:
        """See PodIndex."""
        tried = (pod.terms for _, pod, _ in self._moves)
        return self.below.names(key) or any(
            terms is not None and key in terms.named_keys for terms in tried
        )

    def holders(self, held: HeldTerm, rows: int) -> NDArray[np.int64]:
        """See PodIndex, (rows,)."""
        found = self.below.holders(held, rows)
        for row, pod, sign in self._moves:
            if pod.terms is not None:
                found[row] += sign * sum(one == held for one in held_by(pod.terms))
        return found

    @property
    def volumes(self) -> MountedVolumes:
        """See PodIndex."""
        if any(pod.volumes is not None for _, pod, _ in self._moves):
            return VolumesAbove(self.below.volumes, self._moves)
        return self.below.volumes

    def host_ports(self, row: int) -> Mapping[HostPort, int]:
        """See PodIndex."""
        found = self.below.host_ports(row)
        if not any(at == row and pod.host_ports for at, pod, _ in self._moves):
            return found
        held = Counter(found)
        for at, pod, sign in self._moves:
            if at == row:
                held.update(dict.fromkeys(pod.host_ports, sign))
        return +held

    def device_claims(self) -> Mapping[tuple[int, DeviceClaims], int]:
        """See PodIndex."""
        found = self.below.device_claims()
        moved = [
            (row, pod.device_claims, sign) for row, pod, sign in self._moves if pod.device_claims
        ]
        if not moved:
            return found
        held = Counter(found)
        for row, claims, sign in moved:
            held[row, claims] += sign
        return +held
