"""What placed pods mount, by row and by claim, and how many volumes CSI drivers attach to nodes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.storage_index import RowFlags, StorageIndex
from kubeshare_py.domain.cluster_objects import ObjectKey
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import InlineDisk, PlacedPod, PodVolumes, VolumeChoice
from kubeshare_py.domain.storage import VolumeAttachment

# What placed pods mount, by row and by claim, and the volumes that their claims are to get.


K = TypeVar("K")
#: A pod that is placed on a row (sign 1), or removed from it (-1).
Move = tuple[int, PlacedPod, int]


class MountedVolumes(Protocol):
    """What the placed pods of some tables mount."""

    def users(self, claim: ObjectKey) -> int:
        """How many pods mount a claim that they name themselves: no ephemeral volume."""

    def on(self, row: int) -> Iterable[PodVolumes]:
        """What the pods of a row mount."""

    def most_on(self) -> Mapping[int, int]:
        """At least as many as the volumes that pods of each row mount, by row."""

    def rows(self) -> Iterable[int]:
        """The rows with pods that mount anything."""

    def rows_with_disks(self) -> Iterable[int]:
        """The rows with pods that mount disks without a claim."""

    def choices(self) -> Iterable[tuple[int, VolumeChoice]]:
        """The volumes that claims are to get, with the row of their pod."""


class PlacedVolumes:
    """See MountedVolumes: those of the ledger, which alone changes them."""

    __slots__ = ("_choices", "_disks", "_most", "_on", "_users")

    def __init__(self) -> None:
        self._users: Counter[ObjectKey] = Counter()
        self._on: dict[int, Counter[PodVolumes]] = {}
        self._disks: Counter[int] = Counter()
        self._most: Counter[int] = Counter()
        self._choices: Counter[tuple[int, VolumeChoice]] = Counter()

    def __bool__(self) -> bool:
        return bool(self._on)

    def add(self, row: int, pod: PlacedPod, sign: int) -> None:
        """Add a pod with volumes to a row (sign 1), or remove it (-1)."""
        assert pod.volumes is not None
        held = self._on.setdefault(row, Counter())
        _count(held, pod.volumes, sign)
        if not held:
            del self._on[row]
        self._most[row] += sign * (len(pod.volumes.claims) + len(pod.volumes.disks))
        if not self._most[row]:
            del self._most[row]
        for claim in _named(pod.volumes):
            _count(self._users, claim, sign)
        if pod.volumes.disks:
            _count(self._disks, row, sign)
        if pod.choice:
            _count(self._choices, (row, pod.choice), sign)

    def users(self, claim: ObjectKey) -> int:
        """See MountedVolumes."""
        return self._users[claim]

    def on(self, row: int) -> Iterable[PodVolumes]:
        """See MountedVolumes."""
        return self._on.get(row, Counter()).elements()

    def most_on(self) -> Mapping[int, int]:
        """See MountedVolumes."""
        return self._most

    def rows(self) -> Iterable[int]:
        """See MountedVolumes."""
        return self._on

    def rows_with_disks(self) -> Iterable[int]:
        """See MountedVolumes."""
        return self._disks

    def choices(self) -> Iterable[tuple[int, VolumeChoice]]:
        """See MountedVolumes."""
        return self._choices


class VolumesAbove:
    """See MountedVolumes: those of other tables, with some pods more and some fewer."""

    __slots__ = ("_below", "_moves")

    def __init__(self, below: MountedVolumes, moves: Sequence[Move]) -> None:
        self._below = below
        self._moves = [move for move in moves if move[1].volumes is not None]

    def users(self, claim: ObjectKey) -> int:
        """See MountedVolumes."""
        return self._below.users(claim) + sum(
            sign for _, volumes, sign in self._mounts() if claim in _named(volumes)
        )

    def on(self, row: int) -> Iterable[PodVolumes]:
        """See MountedVolumes."""
        held = Counter(self._below.on(row))
        for at, volumes, sign in self._mounts():
            if at == row:
                held[volumes] += sign
        return (+held).elements()

    def most_on(self) -> Mapping[int, int]:
        """See MountedVolumes."""
        found = Counter(self._below.most_on())
        for row, volumes, sign in self._mounts():
            if sign > 0:
                found[row] += len(volumes.claims) + len(volumes.disks)
        return found

    def rows(self) -> Iterable[int]:
        """See MountedVolumes; rows may be among them that have no such pod any more."""
        return {*self._below.rows(), *(row for row, _, _ in self._moves)}

    def rows_with_disks(self) -> Iterable[int]:
        """See MountedVolumes; rows may be among them that have no such pod any more."""
        moved = (row for row, volumes, _ in self._mounts() if volumes.disks)
        return {*self._below.rows_with_disks(), *moved}

    def choices(self) -> Iterable[tuple[int, VolumeChoice]]:
        """See MountedVolumes."""
        found = Counter(self._below.choices())
        for row, pod, sign in self._moves:
            if pod.choice:
                found[row, pod.choice] += sign
        return +found

    def _mounts(self) -> Iterator[tuple[int, PodVolumes, int]]:
        for row, pod, sign in self._moves:
            if pod.volumes is not None:
                yield row, pod.volumes, sign


def disks_on(mounted: MountedVolumes, row: int) -> Iterator[InlineDisk]:
    """The disks that pods of a row mount without a claim."""
    for volumes in mounted.on(row):
        yield from volumes.disks


def assumed(
    mounted: MountedVolumes,
) -> tuple[Mapping[str, ObjectKey], Mapping[ObjectKey, int]]:
    """The claim of each volume that is to be bound, and the row of each claim to be provisioned."""
    claims: dict[str, ObjectKey] = {}
    rows: dict[ObjectKey, int] = {}
    for row, choice in mounted.choices():
        for binding in choice.bindings:
            claims[binding.volume] = ObjectKey(choice.namespace, binding.claim)
        for claim in choice.provisions:
            rows[ObjectKey(choice.namespace, claim)] = row
    return claims, rows


def _named(volumes: PodVolumes) -> list[ObjectKey]:
    """The claims that the pod itself names."""
    namespace = volumes.namespace
    return [ObjectKey(namespace, one.name) for one in volumes.claims if one.owner is None]


def _count(counter: Counter[K], key: K, sign: int) -> None:
    counter[key] += sign
    if not counter[key]:
        del counter[key]


# How many volumes CSI drivers attach to nodes, and how many they could.
#
# As kube-scheduler's NodeVolumeLimits: a volume counts once on a node, however many pods have it.


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
