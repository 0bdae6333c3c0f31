"""Devices of whole cards that are not given away while pods have shares of cards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, PodKey, PodUid
from kubeshare_py.node_agent.device_plugin.devices import CardDevices, DeviceList
from kubeshare_py.node_agent.device_plugin.resources import KNOWN, NVIDIA_GPU
from kubeshare_py.node_agent.device_plugin.taken import shared_cards, without_taken
from kubeshare_py.node_agent.tenants import NodeTenant
from tests.scale import examples


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
    """kubeshare.md G-K1-09, without a pod that holds the card."""
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
