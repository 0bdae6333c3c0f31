"""How many volumes a node attaches, compared with its drivers' limits."""

from kubeshare_py.cluster.volumes.attached import AttachedVolume, attached_volumes, over_limit
from kubeshare_py.domain.needs.storage import CsiNode, StorageClass, VolumeAttachment
from kubeshare_py.domain.needs.volumes import InlineDisk, PodVolumes
from tests.cluster.volumes.storage_world import NS, StorageWorld, a_claim, a_volume, mounting


def world_of(limit: int | None, *, more: int | None = None) -> StorageWorld:
    """Claims `c1` to `c9`, each with a volume, and a limit on the node n1."""
    world = StorageWorld(CsiNode(name="n1", drivers=(("d", limit), ("e", more))))
    for number in range(1, 10):
        volume = a_volume(f"v{number}", csi_driver="d", handle=f"h{number}")
        world.put(volume, a_claim(f"c{number}", volume=volume.name, bind_completed=True))
    return world


def full(world: StorageWorld, *names: str) -> list[bool]:
    rows = world.rows
    new = [*attached_volumes(mounting(*names), world.storage)]
    found = over_limit(new, rows.names, rows.index, world.storage, world.mounted)
    return [bool(one) for one in found]


def test_a_node_takes_volumes_up_to_its_limit() -> None:
    world = world_of(2)
    assert full(world, "c1", "c2") == [False] * 3
    assert full(world, "c1", "c2", "c3") == [True, False, False]


def test_without_a_limit_it_takes_any_number() -> None:
    assert full(world_of(None), *(f"c{number}" for number in range(1, 10))) == [False] * 3
    assert full(world_of(None, more=0), "c1") == [False] * 3


def test_a_limit_of_0_is_one() -> None:
    assert full(world_of(0), "c1") == [True, False, False]


def test_volumes_of_placed_pods_count_once_however_many_pods_have_them() -> None:
    world = world_of(3)
    for _ in range(3):
        world.placed("n1", mounting("c1", "c2"))
    world.placed("n2", mounting("c4", "c5", "c6"))
    assert full(world, "c3") == [False] * 3
    assert full(world, "c1", "c3") == [False] * 3
    assert full(world, "c3", "c4") == [True, False, False]


def test_volumes_that_are_still_attached_count() -> None:
    world = world_of(2)
    for number in (1, 2):
        volume, node = f"v{number}", "n1"
        world.put(VolumeAttachment(name=volume, attacher="d", node=node, attached_volume=volume))
    assert full(world, "c3") == [True, False, False]
    world.put(VolumeAttachment(name="v2", attacher="d", node="n2", attached_volume="v2"))
    assert full(world, "c3") == [False] * 3
    world.placed("n1", mounting("c1"))
    assert full(world, "c3") == [False] * 3
    assert full(world, "c3", "c4") == [True, False, False]


def test_attachments_of_other_volumes_do_not_count() -> None:
    world = world_of(1)
    world.put(
        VolumeAttachment(name="a", attacher="d", node="n1", attached_volume="gone"),
        VolumeAttachment(name="b", attacher="d", node="n1"),
        VolumeAttachment(name="c", attacher="", node="n1", attached_volume="v1"),
        a_volume("nfs"),
        VolumeAttachment(name="d", attacher="d", node="n1", attached_volume="nfs"),
    )
    assert full(world, "c3") == [False] * 3


def test_each_driver_has_a_limit_of_its_own() -> None:
    world = world_of(1, more=1)
    world.put(a_volume("w", csi_driver="e", handle="h1"))
    world.put(a_claim("w", volume="w", bind_completed=True))
    assert full(world, "c1", "w") == [False] * 3
    world.placed("n1", mounting("w"))
    assert full(world, "c1") == [False] * 3


def test_a_claim_without_a_volume_counts_as_one_of_its_class() -> None:
    world = world_of(1)
    world.put(StorageClass(name="made", provisioner="in-tree", csi_driver="d", waits=True))
    world.put(a_claim("new", class_name="made"), a_claim("other", class_name="unknown"))
    found = [*attached_volumes(mounting("new", "other", "gone"), world.storage)]
    assert found == [AttachedVolume("d", f"{NS}/new")]
    assert full(world, "new") == [False] * 3
    assert full(world, "new", "c1") == [True, False, False]


def test_disks_of_drivers_count_and_others_do_not() -> None:
    disks = (InlineDisk("cinder", "x", csi_driver="d"), InlineDisk("iscsi", "y"))
    volumes = PodVolumes(namespace=NS, disks=disks)
    assert [*attached_volumes(volumes, world_of(1).storage)] == [AttachedVolume("d", "x")]


def test_volumes_that_no_driver_attaches_do_not_count() -> None:
    world = world_of(0)
    world.put(a_volume("nfs"), a_claim("c", volume="nfs", bind_completed=True))
    assert [*attached_volumes(mounting("c"), world.storage)] == []
