"""What placed pods mount, with some pods more and some fewer."""

from kubeshare_py.cluster.mounted_volumes import (
    AttachedVolume,
    MountedVolumes,
    PlacedVolumes,
    VolumesAbove,
    assumed,
    attached_volumes,
    disks_on,
    over_limit,
)
from kubeshare_py.domain.cluster_objects import ObjectKey
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import InlineDisk, PlacedPod, PodClaim, PodVolumes
from kubeshare_py.domain.storage import CsiNode, StorageClass, VolumeAttachment
from tests.cluster.storage_world import NS, StorageWorld, a_claim, a_volume, chosen, mounting

C = ObjectKey(NS, "c")
DISK = InlineDisk("iscsi", "d")
WITH_C = PlacedPod(namespace=NS, volumes=mounting("c"), choice=chosen(("c", "v")))
WITH_DISK = PlacedPod(
    namespace=NS, volumes=PodVolumes(namespace=NS, disks=(DISK,)), choice=chosen(provisions=["d"])
)


def seen(mounted: MountedVolumes) -> tuple[object, ...]:
    """All that can be asked."""
    rows = range(4)
    return (
        mounted.users(C),
        [[*mounted.on(row)] for row in rows],
        [[*disks_on(mounted, row)] for row in rows],
        {row for row in mounted.rows() if [*mounted.on(row)]},
        {row for row in mounted.rows_with_disks() if [*disks_on(mounted, row)]},
        assumed(mounted),
    )


def test_pods_that_left_leave_nothing_behind() -> None:
    mounted = PlacedVolumes()
    empty = seen(PlacedVolumes())
    for sign in (1, -1):
        mounted.add(1, WITH_C, sign)
        mounted.add(1, WITH_C, sign)
        mounted.add(2, WITH_DISK, sign)
        assert bool(mounted) is (sign > 0)
    assert seen(mounted) == empty


def test_claims_disks_and_choices_of_placed_pods_are_known() -> None:
    mounted = PlacedVolumes()
    for row, pod in ((1, WITH_C), (3, WITH_C), (2, WITH_DISK)):
        mounted.add(row, pod, 1)
    assert mounted.users(C) == 2
    assert [*mounted.on(1)] == [WITH_C.volumes]
    assert [*disks_on(mounted, 2)] == [DISK]
    assert assumed(mounted) == ({"v": C}, {ObjectKey(NS, "d"): 2})


def test_the_claim_of_an_ephemeral_volume_has_no_users_by_name() -> None:
    mounted = PlacedVolumes()
    volumes = PodVolumes(namespace=NS, claims=(PodClaim("c", PodUid("u"), "p"),))
    mounted.add(1, PlacedPod(namespace=NS, volumes=volumes), 1)
    assert mounted.users(C) == 0


def test_what_is_tried_is_as_if_it_were_so() -> None:
    below, all_of_it = PlacedVolumes(), PlacedVolumes()
    below.add(1, WITH_C, 1)
    below.add(3, WITH_C, 1)
    moves = [(1, WITH_C, -1), (2, WITH_DISK, 1), (2, WITH_C, 1), (0, PlacedPod(namespace=NS), 1)]
    for row, pod in ((3, WITH_C), (2, WITH_DISK), (2, WITH_C)):
        all_of_it.add(row, pod, 1)
    assert seen(VolumesAbove(below, moves)) == seen(all_of_it)
    gone = VolumesAbove(VolumesAbove(below, moves), [(3, WITH_C, -1), (2, WITH_C, -1)])
    assert gone.users(C) == 0
    assert assumed(gone) == ({}, {ObjectKey(NS, "d"): 2})


# --- How many volumes a node attaches, compared with its drivers' limits --------------------------


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
