"""Storage objects as values."""

import pytest

from kubeshare_py.domain.storage import ClaimReference, PersistentVolumeClaim, StorageClass


@pytest.mark.parametrize(
    ("reference", "names"),
    [
        (ClaimReference("a", "c"), True),
        (ClaimReference("a", "c", "1"), True),
        (ClaimReference("a", "c", "2"), False),
        (ClaimReference("b", "c"), False),
        (ClaimReference("a", "d", "1"), False),
    ],
)
def test_a_reference_names_a_claim_by_its_uid_if_it_has_one(
    reference: ClaimReference, names: bool
) -> None:
    claim = PersistentVolumeClaim(namespace="a", name="c", uid="1")
    assert reference.names(claim) is names


@pytest.mark.parametrize(
    ("volume", "completed", "bound"),
    [("", False, False), ("v", False, False), ("v", True, True), ("", True, False)],
)
def test_a_claim_is_bound_once_the_controller_says_so(
    volume: str, completed: bool, bound: bool
) -> None:
    claim = PersistentVolumeClaim(namespace="a", name="c", volume=volume, bind_completed=completed)
    assert claim.is_bound is bound


@pytest.mark.parametrize(
    ("provisioner", "provisions"),
    [("", False), ("kubernetes.io/no-provisioner", False), ("csi.example.com", True)],
)
def test_a_class_without_a_provisioner_makes_no_volumes(provisioner: str, provisions: bool) -> None:
    assert StorageClass(name="s", provisioner=provisioner).provisions is provisions
