"""On which rows a pod's volumes can be mounted: what plugins ask, and how it is answered.

Claims without a volume get an existing one or are provisioned for. Zones and limits of drivers
count.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.mounted_volumes import (
    MountedVolumes,
    assumed,
    attached_volumes,
    disks_on,
    over_limit,
)
from kubeshare_py.cluster.storage_index import LabelledRows, NodeLabels, RowFlags, StorageIndex
from kubeshare_py.domain.cluster_objects import ObjectKey, Requirement, WatchedKind, all_hold
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import PlacedPod, PodClaim, PodVolumes, StaticBinding, VolumeChoice
from kubeshare_py.domain.storage import (
    READ_WRITE_ONCE_POD,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

# How far the claims of a pod are, whatever its node will be.
#
# Rules and sentences: kube-scheduler's VolumeBinding plugin,
# https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode


UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


@dataclass(frozen=True, slots=True)
class PodClaims:
    """The claims of a pod that has to wait for none.

    `bound` have volumes; `waiting` get theirs once the pod has a node. In the order of the spec.
    """

    bound: tuple[PersistentVolumeClaim, ...]
    waiting: tuple[PersistentVolumeClaim, ...]


@dataclass(frozen=True, slots=True)
class ClaimProblem:
    """Why the pod fits no node now: a sentence about a claim."""

    sentence: str


def pod_claims(volumes: PodVolumes, storage: StorageIndex) -> PodClaims | ClaimProblem:
    """The claims by their state, or what is wrong with the first that keeps the pod waiting."""
    found: list[PersistentVolumeClaim] = []
    for one in volumes.claims:
        claim = storage.claim(volumes.namespace, one.name)
        sentence = claim_problem(volumes.namespace, one, claim, storage)
        if claim is None or sentence:
            return ClaimProblem(sentence)
        found.append(claim)
    bound = tuple(claim for claim in found if claim.is_bound)
    unbound = [claim for claim in found if not claim.is_bound]
    if any(not _waits(claim, storage) for claim in unbound):
        return ClaimProblem(UNBOUND)
    return PodClaims(bound, tuple(unbound))


def claim_problem(
    namespace: str, asked: PodClaim, claim: PersistentVolumeClaim | None, storage: StorageIndex
) -> str:
    """Why a pod cannot mount the claim that it names, whatever its volume; "" if it can."""
    name = asked.name
    if claim is None:
        if asked.owner is not None and not unread(storage):
            waits = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
            return f'{waits} "{name}"'
        return not_found(asked, storage)
    if claim.lost:
        lost = "bound to non-existent persistentvolume"
        return f'persistentvolumeclaim "{name}" {lost} "{claim.volume}"'
    if claim.deleting:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if asked.owner is not None and claim.controller != asked.owner:
        pod = f"pod {namespace}/{asked.pod} (pod is not owner)"
        return f"PVC {namespace}/{name} was not created for {pod}"
    return ""


def not_found(asked: PodClaim, storage: StorageIndex) -> str:
    """The sentence about a claim that is not there, or of which is not known whether it is."""
    return unread(storage) or f'persistentvolumeclaim "{asked.name}" not found'


def unread(storage: StorageIndex, kind: WatchedKind = WatchedKind.CLAIM) -> str:
    """Why it is not known which objects of a kind there are; "" if it is."""
    problem = storage.objects.problem(kind)
    return f"{kind} {problem}" if problem else ""


def _waits(claim: PersistentVolumeClaim, storage: StorageIndex) -> bool:
    """Whether the claim gets its volume once the pod has a node; not if it names one already."""
    if claim.volume or not claim.class_name:
        return False
    storage_class = storage.storage_class(claim.class_name)
    return storage_class is not None and storage_class.waits


# Which existing volumes the waiting claims of a pod get on each row.
#
# As FindMatchingVolume of k8s.io/component-helpers: the smallest claim first, and for each the
# volume that names it, else the smallest free one that fits. Volumes of one size are taken by name.


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


# On which rows the claims of a pod can have their volumes, and which volumes these are.
#
# As FindPodVolumes of kube-scheduler's VolumeBinding plugin.


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
        for claim, volume_by_row in zip(others, places.chosen, strict=True):
            self._provision(claim, asked & (volume_by_row == NONE))

    def _provision(self, claim: PersistentVolumeClaim, asked: RowFlags) -> None:
        """Note the asked rows on which no volume can be made for a claim; `asked` stays."""
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


# Zones and regions of volumes, as labels of PersistentVolumes name them.
#
# As kube-scheduler's VolumeZone. A volume in several zones has them all in one value.


_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
#: The labels, and the one that nodes may have instead:
#: https://kubernetes.io/docs/reference/labels-annotations-taints/
TOPOLOGY_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
    _ZONE: _ZONE,
    _REGION: _REGION,
}
#: Between the zones of one volume.
SEPARATOR = "__"


class VolumeTopology(NamedTuple):
    """A label of a volume, and the values that a node may have."""

    key: str
    values: tuple[str, ...]


def volume_topologies(
    volumes: PodVolumes, storage: StorageIndex
) -> list[VolumeTopology] | ClaimProblem:
    """The zones and regions of a pod's volumes; ephemeral ones are made where the pod is."""
    found: list[VolumeTopology] = []
    for one in volumes.claims:
        if one.owner is not None:
            continue
        claim = storage.claim(volumes.namespace, one.name)
        if claim is None:
            return ClaimProblem(claim_problem(volumes.namespace, one, None, storage))
        volume = storage.volume(claim.volume) if claim.volume else None
        if volume is not None:
            found += _topologies(volume)
            continue
        sentence = _volume_problem(claim, storage)
        if sentence:
            return ClaimProblem(sentence)
    return found


def in_zone(labels: NodeLabels, topologies: Sequence[VolumeTopology]) -> RowFlags:
    """The rows that have every zone and region, or no such label at all; (k,) bool."""
    constrained: RowFlags = np.zeros(labels.count, np.bool_)
    for key in TOPOLOGY_LABELS:
        constrained = constrained | _has(labels, key)
    found = ~constrained
    fits: RowFlags = np.ones(labels.count, np.bool_)
    for key, values in topologies:
        same = labels.all_hold((Requirement(key, "In", values),))
        newer = labels.all_hold((Requirement(TOPOLOGY_LABELS[key], "In", values),))
        fits &= np.where(_has(labels, key), same, newer)
    return found | fits


def _has(labels: NodeLabels, key: str) -> RowFlags:
    return labels.all_hold((Requirement(key, "Exists"),))


def _topologies(volume: PersistentVolume) -> Iterator[VolumeTopology]:
    labels = dict(volume.labels)
    for key in TOPOLOGY_LABELS:
        values = tuple(one.strip() for one in labels.get(key, "").split(SEPARATOR))
        # A label that names a zone of no name is ignored.
        if all(values):
            yield VolumeTopology(key, values)


def _volume_problem(claim: PersistentVolumeClaim, storage: StorageIndex) -> str:
    """Why a claim without a known volume cannot be mounted; "" if it gets one later."""
    if claim.volume:
        missing = f'persistentvolume "{claim.volume}" not found'
        return unread(storage, WatchedKind.VOLUME) or missing
    if not claim.class_name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    storage_class = storage.storage_class(claim.class_name)
    if storage_class is None:
        missing = f'storageclass.storage.k8s.io "{claim.class_name}" not found'
        return unread(storage, WatchedKind.STORAGE_CLASS) or missing
    return "" if storage_class.waits else "PersistentVolume had no name"


# Where a pod's volumes can be mounted, among some rows of some tables: what plugins ask.


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
