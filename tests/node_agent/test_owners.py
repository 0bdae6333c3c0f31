"""Which containers have devices, by kubelet's checkpoint and its list."""

import pytest

from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.node_agent.allocation import (
    AllocatedDevices,
    ContainerDevices,
    NoOwner,
    owners_of,
    with_init_containers,
)

A, B = PodKey("default", "a"), PodKey("default", "b")
UID_A, UID_B = PodUid("uid-a"), PodUid("uid-b")
MEM, CORE = "elasticgpu.io/gpu-memory", "elasticgpu.io/gpu-core"


def allocated(uid: PodUid, name: str, resource: str, *devices: str) -> AllocatedDevices:
    return AllocatedDevices(uid, name, resource, frozenset(devices), (f"{uid}-{name}",))


FIRST = allocated(UID_A, "first", MEM, "0-0", "0-1", "0-9")
SECOND = allocated(UID_A, "second", MEM, "0-0", "0-1")
ONE = allocated(UID_A, "one", MEM, "0-0", "0-1")
TWO = allocated(UID_A, "two", MEM, "0-2", "0-3")
CHECKPOINT = [
    *(FIRST, SECOND, ONE, TWO, allocated(UID_A, "one", CORE, "0-0")),
    allocated(UID_B, "one", MEM, "0-4", "0-5"),
    allocated(UID_B, "one", CORE, "0-1"),
]


def test_the_container_with_exactly_these_devices_has_them_g50() -> None:
    assert owners_of(MEM, ["0-3", "0-2"], CHECKPOINT) == (TWO,)
    assert [one.uid for one in owners_of(MEM, ["0-4", "0-5"], CHECKPOINT)] == [UID_B]


def test_devices_of_two_resources_may_have_the_same_ids() -> None:
    assert [one.uid for one in owners_of(CORE, ["0-1"], CHECKPOINT)] == [UID_B]


def test_containers_that_run_one_after_the_other_may_have_the_same_devices() -> None:
    assert owners_of(MEM, ["0-1", "0-0"], CHECKPOINT) == (SECOND, ONE)
    assert owners_of(MEM, ["0-0", "0-1", "0-9"], CHECKPOINT) == (FIRST,)


@pytest.mark.parametrize(
    ("devices", "text"),
    [
        (["0-7"], "checkpoint has no pod with these 1 devices of elasticgpu.io/gpu-memory"),
        (["0-0"], "checkpoint has no pod with these 1 devices"),
        (["0-2", "0-3"], "checkpoint has pod uid-a and pod uid-c with these 2 devices"),
    ],
)
def test_devices_of_no_one_pod_have_no_owner(devices: list[str], text: str) -> None:
    other = allocated(PodUid("uid-c"), "main", MEM, "0-2", "0-3")
    with pytest.raises(NoOwner, match=text):
        owners_of(MEM, devices, [*CHECKPOINT, other])


def test_kubelets_list_lacks_init_containers_which_the_checkpoint_has() -> None:
    """Of pods that have ended only the checkpoint tells, and it is late."""
    listed = [
        ContainerDevices(A, "one", {MEM: ONE.devices}),
        ContainerDevices(B, "one", {}),
    ]
    keys = {UID_A: A, UID_B: B, PodUid("uid-gone"): PodKey("default", "gone")}
    rows = [FIRST, ONE, allocated(PodUid("uid-gone"), "main", MEM, "1-0")]
    found = with_init_containers(listed, rows, keys)
    assert found == [*listed, ContainerDevices(A, "first", {MEM: FIRST.devices})]
