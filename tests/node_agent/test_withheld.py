"""Cards that are not given away: others have them, or pods have shares of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, PodKey, PodUid
from kubeshare_py.node_agent.allocation import (
    CardChoice,
    CardsUnknown,
    ContainerDevices,
    DevicePod,
    Given,
    placed_cards,
)
from kubeshare_py.node_agent.devices import KNOWN, NVIDIA_GPU, CardDevices, DeviceList
from kubeshare_py.node_agent.tenants import NodeTenant
from kubeshare_py.node_agent.withheld import held_cards, shared_cards, without_taken
from tests.scale import examples

# --- Which cards other plugins and schedulers gave to pods, by kubelet's list ---------------------


A = PodKey("default", "a")
UIDS = {A: PodUid("uid-of-a")}


def listed(*devices: str, resource: str = NVIDIA_GPU) -> list[ContainerDevices]:
    return [ContainerDevices(A, "main", {resource: frozenset(devices)})]


def test_devices_of_nvidias_plugin_are_uuids() -> None:
    [held] = held_cards(listed("GPU-1", "GPU-2::3", "rdma0"), Given(), (), UIDS)
    assert (held.uid, held.key, held.cards) == ("uid-of-a", A, ("GPU-1", "GPU-2"))


UUID = "5e3d2a1f-8b4c-4d6e-9fa0-123456789abc"


@pytest.mark.parametrize(
    ("device", "card"),
    [
        *((f"GPU-{UUID}{end}", f"GPU-{UUID}") for end in ("", "::3", "__12", "-3")),
        *((f"MIG-{UUID}{end}", f"MIG-{UUID}") for end in ("", "::3")),
        *((f"MIG-GPU-{UUID}/7/0{end}", f"MIG-GPU-{UUID}/7/0") for end in ("", "::3")),
    ],
)
def test_parts_of_cards_are_called_by_the_card_with_a_number(device: str, card: str) -> None:
    """Time slices of NVIDIA's plugin, nvshare's, and HAMi's and Volcano's parts, by any name."""
    [held] = held_cards(listed(device, resource="example.com/part"), Given(), (), UIDS)
    assert held.cards == (card,)


def test_our_own_devices_are_no_cards() -> None:
    assert held_cards(listed("0-0"), Given(), (NVIDIA_GPU,), UIDS) == ()


def test_cards_that_the_agent_chose_are_held() -> None:
    given = Given(choices=(CardChoice(NVIDIA_GPU, "0-0", "GPU-7", "u", "default", "a"),))
    [held] = held_cards(listed("0-0"), given, (NVIDIA_GPU,), UIDS)
    assert (held.uid, held.cards) == ("u", ("GPU-7",))


def test_a_pod_that_the_agent_does_not_know_yet_is_left_out() -> None:
    assert held_cards(listed("GPU-1"), Given(), (), {}) == ()


def test_a_pod_without_a_placement_is_told_whose_it_should_be() -> None:
    asking = DevicePod(A, PodUid("u"), {}, {})
    with pytest.raises(CardsUnknown, match=r"default/a has no GPU allocation: .* schedulerName"):
        placed_cards(asking, "main", "aliyun.com/gpu-mem", ())


# --- Devices of whole cards that are not given away while pods have shares of cards ---------------


def cards(count: int, *sick: int, resource: str = NVIDIA_GPU) -> DeviceList:
    found = [CardDevices(GpuUuid(f"GPU-{at}"), at, 0, 1, at not in sick) for at in range(count)]
    return DeviceList(KNOWN[resource], tuple(found))


def free(listed: DeviceList) -> set[str]:
    return {device for device, healthy in listed.devices() if healthy}


def tenant(name: str, dialect: str, *held: int) -> NodeTenant:
    charges = tuple(CardCharge(GpuUuid(f"GPU-{at}"), 100, 1) for at in held)
    allocation = Allocation(token=DecisionToken("t"), dialect=dialect, cards=charges)
    return NodeTenant(uid=PodUid(name), key=PodKey("default", name), allocation=allocation)


def test_cards_of_sharepods_are_advertised_as_taken() -> None:
    """A native pod cannot get the card, and no dummy pod has to hold it."""
    tenants = [tenant("a", "sharepod", 1), tenant("b", "sharepod", 1), tenant("c", "nvidia", 2)]
    shared = shared_cards([*tenants, NodeTenant(uid=PodUid("d"), key=PodKey("x", "d"))], {"nvidia"})
    assert shared == {"GPU-1"}
    assert free(without_taken(cards(3), shared, {"2-0"})) == {"0-0", "2-0"}


def test_a_device_that_a_pod_has_stays_well_and_another_is_taken() -> None:
    shown = without_taken(cards(3), {GpuUuid("GPU-0")}, {"0-0"})
    assert free(shown) == {"0-0", "1-0"}
    assert [one.healthy for one in shown.cards] == [True, True, True]


def test_what_names_its_cards_itself_is_not_taken() -> None:
    listed = cards(2, resource="aliyun.com/gpu-mem")
    assert without_taken(listed, {GpuUuid("GPU-0")}, ()) == listed


@examples(200)
@given(
    st.integers(1, 8),
    st.sets(st.integers(0, 7)),
    st.sets(st.integers(0, 7)),
    st.sets(st.integers(0, 7)),
)
def test_as_many_devices_are_left_as_cards_are_free(
    count: int, sick: set[int], shared: set[int], used: set[int]
) -> None:
    """By counting: no more pods get a device than there are cards that no other pod has."""
    listed = cards(count, *sick)
    held = {GpuUuid(f"GPU-{at}") for at in shared}
    have = {f"{at}-0" for at in used if at < count}
    shown = free(without_taken(listed, held, have))
    assert (shown | have) - have <= free(listed)
    assert have & free(listed) <= shown
    well = [at for at in range(count) if at not in sick]
    unused = [at for at in well if at not in used]
    lost = sum(at in shared for at in well)
    assert len(shown - have) == max(0, len(unused) - lost)


@pytest.mark.parametrize("used", [(), ("1-0",)])
def test_what_is_taken_is_well_again_when_the_share_ends(used: tuple[str, ...]) -> None:
    assert without_taken(cards(2), (), used) == cards(2)
