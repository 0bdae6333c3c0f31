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
#: What decides which free volumes a claim may have.
_OfferKey = tuple[object, ...]


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
        #: The rows on which a volume may be and no claim has it; of all its rows if not there.
        self._left: dict[str, NDArray[np.int64]] = {}
        #: Volumes that are given away on all their rows.
        self._given: set[str] = set()
        #: Volumes that such claims may have, without most of those.
        self._offers: dict[_OfferKey, list[PersistentVolume]] = {}

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
            asked = _asked(claim)
            offers = self._offers.get(asked)
            if offers is None:
                offers = self._candidates(claim)
            self._take_first(chosen[at], offers)
            self._offers[asked] = [one for one in offers if one.name not in self._given]
        return chosen

    def _take_first(self, chosen: NDArray[np.int64], offers: Sequence[PersistentVolume]) -> None:
        """Give a claim on each row the first of the volumes that may be there and is left."""
        missing = len(chosen)
        for volume in offers:
            if not missing:
                return
            rows = self._rows_left(volume)
            is_missing = chosen[rows] == NONE
            given = rows[is_missing]
            if len(given):
                chosen[given] = self._number(volume)
                self._left[volume.name] = rows[~is_missing]
                missing -= len(given)
                if len(given) == len(rows):
                    self._given.add(volume.name)

    def _rows_left(self, volume: PersistentVolume) -> NDArray[np.int64]:
        left = self._left.get(volume.name)
        return self._labels.where_any_of(volume.node_terms) if left is None else left

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


def _asked(claim: PersistentVolumeClaim) -> _OfferKey:
    return (
        claim.class_name,
        claim.requested,
        claim.access_modes,
        claim.volume_mode,
        claim.selector,
        claim.attributes_class,
    )


def _is_like(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is large enough, of the same mode, and of the same attributes class."""
    return (
        volume.capacity >= (claim.requested or 0)
        and volume.volume_mode == claim.volume_mode
        and volume.attributes_class == claim.attributes_class
        and not volume.deleting
    )
