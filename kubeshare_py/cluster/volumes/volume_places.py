"""On which rows the claims of a pod can have their volumes, and which volumes these are.

As FindPodVolumes of kube-scheduler's VolumeBinding plugin.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.volumes.claim_states import PodClaims
from kubeshare_py.cluster.volumes.mounted import MountedVolumes, assumed
from kubeshare_py.cluster.volumes.node_labels import LabelledRows, NodeLabels, RowFlags
from kubeshare_py.cluster.volumes.static_volumes import NONE, StaticVolumes
from kubeshare_py.cluster.volumes.storage_index import StorageIndex
from kubeshare_py.domain.needs.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from kubeshare_py.domain.needs.volumes import StaticBinding, VolumeChoice


@dataclass(slots=True)
class VolumePlaces:
    """Why rows do not do, and the volumes of those that do.

    Flags are (k,) bool: `elsewhere`, a bound volume does not allow the node; `none_found`, a claim
    can get no volume there; `too_little`, there is too little storage; `missing`, the volume of a
    bound claim is not there.
    """

    elsewhere: RowFlags
    none_found: RowFlags
    too_little: RowFlags
    missing: RowFlags
    #: The claims that choose among existing volumes, and the number of the volume of each on each
    #: row, (matched, k).
    matched: Sequence[PersistentVolumeClaim]
    chosen: NDArray[np.int64]
    volumes: Sequence[PersistentVolume]
    #: Claims whose node is decided already.
    selected: Sequence[PersistentVolumeClaim]

    @property
    def fits(self) -> RowFlags:
        """The rows that do, (k,) bool."""
        fits: RowFlags = ~(self.elsewhere | self.none_found | self.too_little | self.missing)
        return fits

    def choice(self, position: int) -> VolumeChoice | None:
        """What has to be done on a row that does; None if nothing is."""
        bindings, provisions = [], [claim.name for claim in self.selected]
        for claim, number in zip(self.matched, self.chosen[:, position].tolist(), strict=True):
            if number == NONE:
                provisions.append(claim.name)
            else:
                bindings.append(StaticBinding(claim.name, self.volumes[number].name))
        claims = (*self.selected, *self.matched)
        if not claims:
            return None
        return VolumeChoice(
            namespace=claims[0].namespace, bindings=tuple(bindings), provisions=tuple(provisions)
        )


def volume_places(
    claims: PodClaims, rows: LabelledRows, storage: StorageIndex, mounted: MountedVolumes
) -> VolumePlaces:
    """Where the claims can have their volumes, among the rows of some tables."""
    labels = NodeLabels(rows)
    elsewhere, none_found, too_little, missing = np.zeros((4, labels.count), np.bool_)
    no_choice: NDArray[np.int64] = np.zeros((0, labels.count), np.int64)
    places = VolumePlaces(
        elsewhere, none_found, too_little, missing, (), no_choice, volumes=(), selected=()
    )
    _see_bound(places, claims.bound, rows, labels, storage)
    if claims.waiting:
        _Waiting(places, rows, labels, storage, mounted).see(claims.waiting)
    return places


def _see_bound(
    places: VolumePlaces,
    claims: Sequence[PersistentVolumeClaim],
    rows: LabelledRows,
    labels: NodeLabels,
    storage: StorageIndex,
) -> None:
    """The first claim that does not allow a row decides what is said of it."""
    for claim in claims:
        volume = storage.volume(claim.volume)
        if volume is None:
            places.missing |= ~places.elsewhere
            return
        allowed = labels.any_of(volume.node_terms)
        if volume.in_tree and volume.migrated_terms != volume.node_terms:
            migrated = rows.named(storage.migrated_nodes(volume.in_tree))
            allowed = np.where(migrated, labels.any_of(volume.migrated_terms), allowed)
        places.elsewhere |= ~allowed


class _Waiting:
    """Adds to places what claims need that get their volumes once the pod has a node."""

    def __init__(
        self,
        places: VolumePlaces,
        rows: LabelledRows,
        labels: NodeLabels,
        storage: StorageIndex,
        mounted: MountedVolumes,
    ) -> None:
        self._places, self._rows, self._labels = places, rows, labels
        self._storage = storage
        self._volumes_of, self._rows_of = assumed(mounted)

    def see(self, waiting: Sequence[PersistentVolumeClaim]) -> None:
        places = self._places
        selected = [claim for claim in waiting if self._selected_row(claim) is not None]
        for claim in selected:
            places.none_found |= ~self._is_selected(claim)
        others = [claim for claim in waiting if self._selected_row(claim) is None]
        # As kube-scheduler: the smallest first. The sort is stable.
        others.sort(key=lambda claim: claim.requested or 0)
        static = StaticVolumes(self._storage, self._labels, self._volumes_of)
        places.selected, places.matched = selected, others
        places.chosen = static.choose(others)
        places.volumes = static.volumes
        asked = ~places.none_found
        for claim in selected:
            self._provision(claim, asked)
        for claim, chosen in zip(others, places.chosen, strict=True):
            self._provision(claim, asked & (chosen == NONE))

    def _provision(self, claim: PersistentVolumeClaim, asked: RowFlags) -> None:
        """Note the asked rows on which no volume can be made for a claim."""
        places = self._places
        asked = asked & ~places.none_found & ~places.too_little
        if not asked.any():
            return
        storage_class = self._storage.storage_class(claim.class_name)
        if storage_class is None or not storage_class.provisions:
            places.none_found |= asked
            return
        if storage_class.topologies:
            allowed = np.zeros(self._labels.count, np.bool_)
            for term in storage_class.topologies:
                if term:
                    allowed |= self._labels.all_hold(term)
            places.none_found |= asked & ~allowed
            asked &= allowed
        room = self._room(claim, storage_class)
        if room is not None:
            places.too_little |= asked & ~room

    def _room(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> RowFlags | None:
        """Rows with enough storage for a new volume; None if nothing is known of it."""
        driver = self._storage.csi_driver(storage_class.provisioner)
        if claim.requested is None or driver is None or not driver.tracks_capacity:
            return None
        room: RowFlags = np.zeros(self._labels.count, np.bool_)
        for one in self._storage.capacities(storage_class.name):
            largest = -1 if one.largest is None else one.largest
            if one.segment is not None and largest >= claim.requested:
                room[self._labels.where_all_hold(one.segment)] = True
        return room

    def _selected_row(self, claim: PersistentVolumeClaim) -> int | str | None:
        row = self._rows_of.get(claim.key)
        return claim.selected_node if row is None else row

    def _is_selected(self, claim: PersistentVolumeClaim) -> RowFlags:
        """The rows of the node that was selected for a claim."""
        row = self._rows_of.get(claim.key)
        if row is not None:
            found: RowFlags = self._rows.index == row
            return found
        return self._rows.named([claim.selected_node or ""])
