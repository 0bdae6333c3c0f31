"""What a pod mounts, as a value."""

import pytest

from kubeshare_py.domain.pod import InlineDisk, PodClaim, PodVolumes, VolumeChoice
from kubeshare_py.domain.values import replace


def test_a_pod_without_claims_and_disks_has_no_such_value() -> None:
    with pytest.raises(ValueError, match="neither a claim nor a disk"):
        PodVolumes(namespace="a")


def test_equal_volumes_have_equal_hashes() -> None:
    one, other = (
        PodVolumes(namespace="a", claims=(PodClaim("c"),), disks=(InlineDisk("iscsi", "d"),))
        for _ in range(2)
    )
    assert one == other
    assert hash(one) == hash(other)
    assert one != PodVolumes(namespace="b", claims=one.claims, disks=one.disks)


def test_a_choice_is_empty_if_nothing_is_to_be_done() -> None:
    assert not VolumeChoice(namespace="a")
    assert VolumeChoice(namespace="a", provisions=("c",))


EBS, GCE, RBD = (
    InlineDisk(one, "d") for one in ("awsElasticBlockStore", "gcePersistentDisk", "rbd")
)


@pytest.mark.parametrize(
    ("one", "other", "conflicts"),
    [
        (GCE, GCE, True),
        (GCE, InlineDisk("gcePersistentDisk", "e"), False),
        (GCE, InlineDisk("iscsi", "d"), False),
        (replace(GCE, read_only=True), GCE, True),
        (replace(GCE, read_only=True), replace(GCE, read_only=True), False),
        (replace(EBS, read_only=True), replace(EBS, read_only=True), True),
        (InlineDisk("cinder", "d"), InlineDisk("cinder", "d"), False),
        (replace(RBD, monitors=("a", "b")), replace(RBD, monitors=("b", "c")), True),
        (replace(RBD, monitors=("a",)), replace(RBD, monitors=("c",)), False),
    ],
)
def test_disks_conflict_unless_both_are_only_read(
    one: InlineDisk, other: InlineDisk, conflicts: bool
) -> None:
    assert one.conflicts(other) is conflicts
    assert other.conflicts(one) is conflicts
