"""Small clusters with storage objects, and shapes of pods that mount claims and disks."""

from kubeshare_py.domain.cluster_objects import WatchedKind
from kubeshare_py.domain.events import AnyObject
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import InlineDisk, PlacedPod, PodVolumes, Shape
from kubeshare_py.domain.values import replace
from kubeshare_py.testing import SmallCluster
from tests.cluster.storage_world import HOST, NS, ZONE, mounting
from tests.making import a_shape


class VolumeCluster(SmallCluster):
    """Nodes n1, n2 and n3 in zones `a` and `b` by turns, with all storage objects listed."""

    def __init__(self, plugin: object, *objects: AnyObject) -> None:
        super().__init__(plugin)
        for number in range(3):
            name = f"n{number + 1}"
            self.node(name, labels={HOST: name, ZONE: "ab"[number % 2]})
        for kind in WatchedKind:
            self.ledger.columns.objects.put_all(kind, (), "", ())
        self.put(*objects)

    def put(self, *objects: AnyObject) -> None:
        for one in objects:
            self.ledger.columns.objects.put(one)

    def mount(self, node: str, volumes: PodVolumes, uid: str = "other") -> None:
        """Place a pod that mounts these."""
        placed = PlacedPod(namespace=NS, volumes=volumes)
        self.ledger.charge(PodUid(uid), NodeName(node), (), None, placed)

    def said(self, shape: Shape) -> str:
        """The message about a shape that fits nowhere."""
        return self.evaluator.diagnose(shape).message


def with_claims(*names: str) -> Shape:
    return replace(a_shape(), volumes=mounting(*names))


def with_disks(*disks: InlineDisk) -> Shape:
    return replace(a_shape(), volumes=disks_of(*disks))


def disks_of(*disks: InlineDisk) -> PodVolumes:
    return PodVolumes(namespace=NS, disks=disks)
