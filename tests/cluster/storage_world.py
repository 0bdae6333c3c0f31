"""A few nodes and storage objects, and what is said of a pod's claims on each node."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.mounted_volumes import PlacedVolumes
from kubeshare_py.cluster.rows import Rows, SomeRows
from kubeshare_py.cluster.storage_index import StorageIndex
from kubeshare_py.cluster.volume_places import PodClaims, VolumePlaces, pod_claims, volume_places
from kubeshare_py.domain.cluster_objects import Requirement, WatchedKind
from kubeshare_py.domain.events import AnyObject
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import (
    NodeTerm,
    PlacedPod,
    PodClaim,
    PodVolumes,
    StaticBinding,
    VolumeChoice,
)
from kubeshare_py.domain.storage import PersistentVolume, PersistentVolumeClaim
from kubeshare_py.testing import a_node

NS = "ns"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
MARKS = {
    "elsewhere": "elsewhere",
    "none_found": "no volume",
    "too_little": "too little",
    "missing": "missing",
}


def on(*values: str, key: str = HOST) -> tuple[NodeTerm, ...]:
    """A node affinity for nodes with one of these values of a label."""
    return (NodeTerm((Requirement(key, "In", values),)),)


def a_claim(name: str, requested: int | None = 5, **fields: Any) -> PersistentVolumeClaim:
    """A claim without a volume, of the class `local`."""
    known = {"uid": f"uid-{name}", "class_name": "local", "requested": requested}
    return PersistentVolumeClaim(namespace=NS, name=name, **{**known, **fields})


def a_volume(name: str, capacity: int = 10, **fields: Any) -> PersistentVolume:
    """A free volume of the class `local`."""
    known: dict[str, Any] = {"class_name": "local", "phase": "Available"}
    return PersistentVolume(name=name, **{"capacity": capacity, **known, **fields})


class StorageWorld:
    """Nodes `n1` … in zones `a` and `b` by turns, and these objects."""

    def __init__(self, *objects: AnyObject, nodes: int = 3) -> None:
        self.ledger = Ledger()
        for number in range(nodes):
            name = f"n{number + 1}"
            labels = {HOST: name, ZONE: "ab"[number % 2]}
            self.ledger.put_node(a_node(name, labels=labels))
        self.objects = self.ledger.columns.objects
        for kind in WatchedKind:
            self.objects.put_all(kind, (), "", ())
        self.storage = StorageIndex(self.objects)
        self.mounted = PlacedVolumes()
        self.put(*objects)

    @property
    def rows(self) -> Rows:
        """The nodes in the order of their names."""
        row_of = self.ledger.columns.row_of
        return SomeRows(self.ledger.columns, np.array([row_of[name] for name in sorted(row_of)]))

    def put(self, *objects: AnyObject) -> None:
        for one in objects:
            self.objects.put(one)

    def placed(self, node: str, volumes: PodVolumes, choice: VolumeChoice | None = None) -> None:
        pod = PlacedPod(namespace=NS, volumes=volumes, choice=choice)
        self.mounted.add(self.ledger.columns.row_of[NodeName(node)], pod, 1)

    def claims(self, *names: str) -> PodClaims | str:
        """The claims by their state, or why a pod with them waits."""
        found = pod_claims(mounting(*names), self.storage)
        return found if isinstance(found, PodClaims) else found.sentence

    def places(self, *names: str) -> VolumePlaces:
        found = self.claims(*names)
        assert isinstance(found, PodClaims), found
        return volume_places(found, self.rows, self.storage, self.mounted)

    def said(self, *names: str) -> list[str]:
        """Of each node what is wrong with it, or what the claims get there."""
        places = self.places(*names)
        return [self._said(places, row) for row in range(len(self.rows.index))]

    def _said(self, places: VolumePlaces, row: int) -> str:
        wrong = [mark for flag, mark in MARKS.items() if getattr(places, flag)[row]]
        if wrong:
            assert not places.fits[row]
            return ", ".join(wrong)
        assert places.fits[row]
        choice = places.choice(row)
        return "" if choice is None else in_words(choice)


def mounting(*names: str) -> PodVolumes:
    return PodVolumes(namespace=NS, claims=tuple(PodClaim(name) for name in names))


def in_words(choice: VolumeChoice) -> str:
    made = [f"new {claim}" for claim in choice.provisions]
    return ", ".join([*map(_bound, choice.bindings), *made])


def chosen(*bindings: tuple[str, str], provisions: Sequence[str] = ()) -> VolumeChoice:
    pairs = tuple(StaticBinding(claim, volume) for claim, volume in bindings)
    return VolumeChoice(namespace=NS, bindings=pairs, provisions=tuple(provisions))


def _bound(binding: StaticBinding) -> str:
    return f"{binding.claim}={binding.volume}"
