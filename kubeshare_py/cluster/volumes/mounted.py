"""What placed pods mount, by row and by claim, and the volumes that their claims are to get."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from kubeshare_py.domain.needs.cluster_objects import ObjectKey
from kubeshare_py.domain.needs.placed_pod import PlacedPod
from kubeshare_py.domain.needs.volumes import InlineDisk, PodVolumes, VolumeChoice

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
