"""Which existing volumes the waiting claims of a pod get on each row.

As FindMatchingVolume of k8s.io/component-helpers: the smallest claim first, and for each the
volume that names it, else the smallest free one that fits. Volumes of one size are taken by name.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.volumes.node_labels import NodeLabels
from kubeshare_py.cluster.volumes.storage_index import StorageIndex
from kubeshare_py.domain.label_selector import all_hold
from kubeshare_py.domain.needs.cluster_objects import ObjectKey
from kubeshare_py.domain.needs.storage import PersistentVolume, PersistentVolumeClaim

#: In place of a volume's number: the claim gets none on that row.
NONE = -1


class StaticVolumes:
    """Volumes for claims, chosen on all rows of one question.

    `assumed` are the claims of volumes that are chosen already, but do not show it.
    """

    def __init__(
        self, storage: StorageIndex, labels: NodeLabels, assumed: Mapping[str, ObjectKey]
    ) -> None:
        self._storage, self._labels, self._assumed = storage, labels, assumed
        self._kept: dict[ObjectKey, list[str]] = {}
        for volume, key in assumed.items():
            self._kept.setdefault(key, []).append(volume)
        #: Volumes by number.
        self.volumes: list[PersistentVolume] = []
        self._numbers: dict[str, int] = {}

    def choose(self, claims: Sequence[PersistentVolumeClaim]) -> NDArray[np.int64]:
        """The number of the volume of each claim on each row, (claims, k), or NONE.

        The claims must be in the order in which they choose.
        """
        count = self._labels.count
        chosen: NDArray[np.int64] = np.full((len(claims), count), NONE, np.int64)
        for at, claim in enumerate(claims):
            kept = self._named(claim)
            if kept is not None:
                allowed = self._labels.where_any_of(kept.node_terms)
                chosen[at][allowed] = self._number(kept)
                continue
            candidates = self._candidates(claim)
            if candidates:
                self._take_first(chosen, at, self._nearest(candidates, at + 1))
        return chosen

    def _take_first(self, chosen: NDArray[np.int64], at: int, offers: NDArray[np.int64]) -> None:
        """Give the claim `at` on each row the first offer, (offers, k), that no claim has."""
        for offer in offers:
            taken = (chosen[:at] == offer).any(0)
            free = (chosen[at] == NONE) & ~taken
            chosen[at][free] = offer[free]

    def _nearest(self, candidates: Sequence[PersistentVolume], most: int) -> NDArray[np.int64]:
        """The first `most` candidates that may be on each row: numbers or NONE, (most, k)."""
        count = self._labels.count
        offers: NDArray[np.int64] = np.full((most, count), NONE, np.int64)
        filled = np.zeros(count, np.int64)
        for volume in candidates:
            rows = self._labels.where_any_of(volume.node_terms)
            rows = rows[filled[rows] < most]
            offers[filled[rows], rows] = self._number(volume)
            filled[rows] += 1
            if volume.node_terms is None and filled.min(initial=most) >= most:
                break
        return offers

    def _named(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """The first volume that is this claim's and large enough."""
        key = claim.key
        known = [*self._storage.kept_volumes(key)]
        others = (self._storage.volume(name) for name in sorted(self._kept.get(key, ())))
        known += [one for one in others if one is not None and one.class_name == claim.class_name]
        for volume in known:
            is_its = volume.claim is None or volume.claim.names(claim)
            if is_its and volume.class_name == claim.class_name and _is_like(volume, claim):
                return volume
        return None

    def _candidates(self, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        return [
            volume
            for volume in self._storage.free_volumes(claim.class_name)
            if volume.name not in self._assumed
            and _is_like(volume, claim)
            and {*claim.access_modes} <= {*volume.access_modes}
            and (claim.selector is None or all_hold(claim.selector, dict(volume.labels)))
        ]

    def _number(self, volume: PersistentVolume) -> int:
        number = self._numbers.setdefault(volume.name, len(self.volumes))
        if number == len(self.volumes):
            self.volumes.append(volume)
        return number


def _is_like(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is large enough, of the same mode, and of the same attributes class."""
    return (
        volume.capacity >= (claim.requested or 0)
        and volume.volume_mode == claim.volume_mode
        and volume.attributes_class == claim.attributes_class
        and not volume.deleting
    )
