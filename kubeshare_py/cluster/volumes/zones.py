"""Zones and regions of volumes, as labels of PersistentVolumes name them.

As kube-scheduler's VolumeZone. A volume in several zones has them all in one value.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kubeshare_py.cluster.volumes.claim_states import ClaimProblem, claim_problem, unread
from kubeshare_py.cluster.volumes.node_labels import NodeLabels, RowFlags
from kubeshare_py.cluster.volumes.storage_index import StorageIndex
from kubeshare_py.domain.label_selector import Requirement
from kubeshare_py.domain.needs.cluster_objects import WatchedKind
from kubeshare_py.domain.needs.storage import PersistentVolume, PersistentVolumeClaim
from kubeshare_py.domain.needs.volumes import PodVolumes

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
