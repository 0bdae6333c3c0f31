"""How many volumes CSI drivers attach to nodes, and how many they could.

As kube-scheduler's NodeVolumeLimits: a volume counts once on a node, however many pods have it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.volumes.mounted import MountedVolumes
from kubeshare_py.cluster.volumes.node_labels import RowFlags
from kubeshare_py.cluster.volumes.storage_index import StorageIndex
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.needs.storage import VolumeAttachment
from kubeshare_py.domain.needs.volumes import PodVolumes


class AttachedVolume(NamedTuple):
    """A volume, by its driver and by the driver's name for it."""

    driver: str
    handle: str


def attached_volumes(volumes: PodVolumes, storage: StorageIndex) -> Iterator[AttachedVolume]:
    """What drivers attach for a pod; of claims that are not there, nothing."""
    for disk in volumes.disks:
        if disk.csi_driver:
            yield AttachedVolume(disk.csi_driver, disk.disk)
    for one in volumes.claims:
        found = _of_claim(volumes.namespace, one.name, storage)
        if found is not None and found.driver and found.handle:
            yield found


def over_limit(
    new: Sequence[AttachedVolume],
    names: Sequence[NodeName | None],
    index: NDArray[np.int64],
    storage: StorageIndex,
    mounted: MountedVolumes,
) -> RowFlags:
    """The rows, of these names and numbers, whose limits these volumes would exceed, (k,) bool."""
    full: RowFlags = np.zeros(len(names), np.bool_)
    limits = {driver: storage.limits(driver) for driver in sorted({one.driver for one in new})}
    limits = {driver: known for driver, known in limits.items() if known}
    if not limits:
        return full
    most, attaches = mounted.most_on(), storage.has_attachments()
    for position, (name, row) in enumerate(zip(names, index.tolist(), strict=True)):
        if name is None:
            continue
        here = {driver: known[name] for driver, known in limits.items() if name in known}
        if not here:
            continue
        # Counting with repeats is nearly always enough.
        attached = len([*storage.attachments(name)]) if attaches else 0
        if len(new) + most.get(row, 0) + attached > min(here.values()):
            at = _AttachingNode(name, row, storage, mounted)
            full[position] = at.exceeds(here, new)
    return full


class _AttachingNode:
    """What is attached to one node."""

    __slots__ = ("_mounted", "_name", "_row", "_storage")

    def __init__(
        self, name: NodeName, row: int, storage: StorageIndex, mounted: MountedVolumes
    ) -> None:
        self._name, self._row = name, row
        self._storage, self._mounted = storage, mounted

    def exceeds(self, limits: Mapping[str, int], new: Sequence[AttachedVolume]) -> bool:
        """Whether one driver would attach more than its limit."""
        pods = self._mounted.on(self._row)
        attachments = self._storage.attachments(self._name)
        held = {volume for one in pods for volume in attached_volumes(one, self._storage)}
        count = Counter(one.driver for one in held)
        count.update(one.driver for one in {*self._attached(attachments)} - held)
        more = Counter(one.driver for one in {*new} - held)
        return any(count[driver] + more[driver] > limits[driver] for driver in more.keys() & limits)

    def _attached(self, attachments: Iterable[VolumeAttachment]) -> Iterator[AttachedVolume]:
        """The volumes of CSI drivers among the node's VolumeAttachments."""
        for one in attachments:
            volume = self._storage.volume(one.attached_volume)
            if one.attacher and volume is not None and volume.csi_driver and not volume.in_tree:
                yield AttachedVolume(one.attacher, volume.handle)


def _of_claim(namespace: str, name: str, storage: StorageIndex) -> AttachedVolume | None:
    """A claim's volume; while it has none, the one that its class would make."""
    claim = storage.claim(namespace, name)
    if claim is None:
        return None
    volume = storage.volume(claim.volume) if claim.volume else None
    if volume is not None:
        return AttachedVolume(volume.csi_driver, volume.handle)
    storage_class = storage.storage_class(claim.class_name)
    if storage_class is None:
        return None
    return AttachedVolume(storage_class.csi_driver, f"{namespace}/{name}")
