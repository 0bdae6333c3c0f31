"""Where a pod's volumes can be mounted, among some rows of some tables: what plugins ask."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.volumes.attached import attached_volumes, over_limit
from kubeshare_py.cluster.volumes.claim_states import ClaimProblem, not_found, pod_claims
from kubeshare_py.cluster.volumes.mounted import MountedVolumes, disks_on
from kubeshare_py.cluster.volumes.node_labels import NodeLabels, RowFlags
from kubeshare_py.cluster.volumes.storage_index import StorageIndex
from kubeshare_py.cluster.volumes.volume_places import VolumePlaces, volume_places
from kubeshare_py.cluster.volumes.zones import in_zone, volume_topologies
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.needs.cluster_objects import ObjectKey
from kubeshare_py.domain.needs.placed_pod import PlacedPod
from kubeshare_py.domain.needs.storage import READ_WRITE_ONCE_POD, PersistentVolume
from kubeshare_py.domain.needs.volumes import PodVolumes


class NamedRows(Protocol):
    """The part of `Rows` that is asked here."""

    @property
    def index(self) -> NDArray[np.int64]:
        """The numbers of the rows in the tables, (k,)."""

    @property
    def names(self) -> list[NodeName | None]:
        """Node names; None for rows that are not in use."""

    def label_numbers(self, key: str) -> tuple[NDArray[np.int64], Mapping[str | None, int]]:
        """A label: the number of each row's value, (k,), and the number of each value."""

    def named(self, names: Collection[str]) -> RowFlags:
        """Which of the asked rows are nodes of these names; (k,) bool."""


class RowVolumes:
    """Answers about k rows. Flags are (k,) bool.

    In place of an answer there may be a sentence about the pod: then it fits no row.
    """

    __slots__ = ("_mounted", "_rows", "_storage")

    def __init__(self, rows: NamedRows, storage: StorageIndex, mounted: MountedVolumes) -> None:
        self._rows, self._storage, self._mounted = rows, storage, mounted

    def places(self, volumes: PodVolumes) -> VolumePlaces | str:
        """Where the claims can have their volumes."""
        claims = pod_claims(volumes, self._storage)
        if isinstance(claims, ClaimProblem):
            return claims.sentence
        return volume_places(claims, self._rows, self._storage, self._mounted)

    def in_zone(self, volumes: PodVolumes) -> RowFlags | str:
        """The rows in the zones and regions of the volumes."""
        topologies = volume_topologies(volumes, self._storage)
        if isinstance(topologies, ClaimProblem):
            return topologies.sentence
        return in_zone(NodeLabels(self._rows), topologies)

    def in_use(self, volumes: PodVolumes) -> bool | str:
        """Whether another pod has a claim that only one pod may have (ReadWriteOncePod)."""
        used = False
        for one in volumes.claims:
            if one.owner is None:
                claim = self._storage.claim(volumes.namespace, one.name)
                if claim is None:
                    return not_found(one, self._storage)
                key = ObjectKey(volumes.namespace, one.name)
                alone = READ_WRITE_ONCE_POD in claim.access_modes
                used |= alone and self._mounted.users(key) > 0
        return used

    def with_conflict(self, volumes: PodVolumes) -> RowFlags | None:
        """The rows with pods whose disks this pod cannot share; None for none."""
        disks = [one for one in volumes.disks if one.is_exclusive]
        if not disks:
            return None
        found = [
            row
            for row in self._mounted.rows_with_disks()
            if any(mine.conflicts(one) for one in disks_on(self._mounted, row) for mine in disks)
        ]
        conflicts: RowFlags = np.isin(self._rows.index, np.array(found, np.int64))
        return conflicts

    def over_limit(self, volumes: PodVolumes) -> RowFlags | str | None:
        """The rows whose CSI drivers would attach more volumes than they can; None for none."""
        for one in volumes.claims:
            if self._storage.claim(volumes.namespace, one.name) is None:
                missing = not_found(one, self._storage)
                return f"looking up PVC {volumes.namespace}/{one.name}: {missing}"
        new = [*attached_volumes(volumes, self._storage)]
        if not new:
            return None
        names, index = self._rows.names, self._rows.index
        return over_limit(new, names, index, self._storage, self._mounted)

    def allowed(self, volume: PersistentVolume) -> RowFlags:
        """The rows that a volume's node affinity allows."""
        return NodeLabels(self._rows).any_of(volume.node_terms)

    def with_choice(self, pod: PlacedPod) -> PlacedPod:
        """The pod on the only row, with the volumes that its claims get there, if it fits."""
        if pod.volumes is None or not pod.volumes.claims:
            return pod
        places = self.places(pod.volumes)
        if isinstance(places, str) or not places.fits.all():
            return pod
        choice = places.choice(0)
        return pod if choice is None else replace(pod, choice=choice)
