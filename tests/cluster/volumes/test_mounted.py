"""What placed pods mount, with some pods more and some fewer."""

from kubeshare_py.cluster.volumes.mounted import (
    MountedVolumes,
    PlacedVolumes,
    VolumesAbove,
    assumed,
    disks_on,
)
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.needs.cluster_objects import ObjectKey
from kubeshare_py.domain.needs.placed_pod import PlacedPod
from kubeshare_py.domain.needs.volumes import InlineDisk, PodClaim, PodVolumes
from tests.cluster.volumes.storage_world import NS, chosen, mounting

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
