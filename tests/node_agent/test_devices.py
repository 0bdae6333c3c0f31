"""What each resource advertises of the cards of a node."""

import pytest

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.node_agent.devices import (
    KNOWN,
    MOST_BYTES,
    DeviceList,
    MemoryUnit,
    MigStrategy,
    UnknownResource,
    Unplaced,
    chosen,
    device_lists,
    is_own,
    message_bytes,
    not_offered,
    preferred,
)

T4_BYTES = 15109 << 20


def card(index: int, memory_bytes: int = T4_BYTES, **given: object) -> Gpu:
    fields = {"uuid": GpuUuid(f"GPU-{index}"), "model": "Tesla T4", **given}
    return Gpu(index=index, memory_bytes=memory_bytes, **fields)  # type: ignore[arg-type]


def instance(index: int, number: int, profile: str) -> Gpu:
    model = f"NVIDIA A100-SXM4-40GB MIG {profile}"
    uuid, parent = GpuUuid(f"MIG-{index}-{number}"), GpuUuid(f"GPU-{index}")
    return card(index, 5 << 30, uuid=uuid, model=model, parent=parent)


def listed(
    *cards: Gpu, unit: MemoryUnit = MemoryUnit.GIB, **given: MigStrategy
) -> dict[str, DeviceList]:
    strategy = given.get("strategy", MigStrategy.NONE)
    return device_lists(chosen(KNOWN, unit), cards, strategy)


def test_each_resource_counts_its_own_pieces_of_a_card() -> None:
    counts = {name: one.count for name, one in listed(card(0), card(1)).items()}
    assert counts == {
        "aliyun.com/gpu-mem": 28,
        "aliyun.com/gpu-count": 2,
        "nano-gpu.io/gpu-core": 200,
        "nano-gpu.io/gpu-memory": 28,
        "nano-gpu/gpu-percent": 200,
        "elastic-gpu/gpu-percent": 200,
        "elasticgpu.io/gpu-core": 200,
        "elasticgpu.io/gpu-memory": 30218,
        "nvidia.com/gpu": 2,
    }


def test_each_card_counts_with_its_own_memory() -> None:
    found = listed(card(0, 45 << 30), card(1, 15 << 30))["aliyun.com/gpu-mem"]
    assert [one.count for one in found.cards] == [45, 15]


def test_devices_are_unhealthy_with_their_card_alone() -> None:
    found = listed(card(0, 2 << 30, healthy=False), card(1, 1 << 30))["aliyun.com/gpu-mem"]
    assert [*found.devices()] == [("0-0", False), ("0-1", False), ("1-0", True)]
    assert all(is_own(device) for device, _ in found.devices())


@pytest.mark.parametrize("device", ["GPU-1", "GPU-1-_-0", "nano-0-01", "0", "pgpu0-01", "MIG-1"])
def test_devices_of_other_plugins_are_told_apart(device: str) -> None:
    assert not is_own(device)


@pytest.mark.parametrize(
    ("devices", "why"),
    [
        (["0-1", "1-0"], ""),
        ([], "no device of aliyun.com/gpu-mem was named"),
        (["0-1", "0-1"], "a device of aliyun.com/gpu-mem was named twice"),
        (["0-0", "0-2"], "this node offers no such devices of aliyun.com/gpu-mem: 0-2"),
        (["2-0"], "this node offers no such devices of aliyun.com/gpu-mem: 2-0"),
        (["0-01", "00-1"], "this node offers no such devices of aliyun.com/gpu-mem: 0-01, 00-1"),
        (["\u0660-\u0660"], "offers no such devices of aliyun.com/gpu-mem: \u0660-\u0660"),
        (["GPU-1"], "this node offers no such devices of aliyun.com/gpu-mem: GPU-1"),
        (["x" * 500], "x" * 200 + "…"),
    ],
)
def test_devices_that_the_node_does_not_offer_are_named(devices: list[str], why: str) -> None:
    offered = listed(card(0, 2 << 30, healthy=False), card(1, 1 << 30))["aliyun.com/gpu-mem"]
    said = not_offered(offered, devices)
    assert said.endswith(why)
    assert bool(said) == bool(why)


def test_memory_in_mib_that_makes_a_message_too_long_is_refused_with_advice_g55() -> None:
    cards = [card(index, 141 << 30) for index in range(8)]
    refused = listed(*cards, unit=MemoryUnit.MIB)["aliyun.com/gpu-mem"]
    assert refused.count == 0
    assert "needs 1155072 devices in a message of" in refused.refusal
    assert refused.refusal.endswith("kubelet takes 4194304: choose GiB as its unit")
    elastic = listed(*cards)["elasticgpu.io/gpu-memory"]
    assert elastic.refusal.endswith("leave elasticgpu.io/gpu-memory out of the agent's resources")
    assert listed(*cards)["aliyun.com/gpu-mem"].count == 8 * 141


def test_short_ids_leave_room_for_more_than_gpushares() -> None:
    """An answer of gRPC takes 4 MiB, which gpushare's ids fill with 68,900 MiB a node."""
    found = listed(*(card(index, 80 << 30) for index in range(2)), unit=MemoryUnit.MIB)
    two = found["aliyun.com/gpu-mem"]
    assert two.count == 163_840
    assert message_bytes(two) < MOST_BYTES


def test_mig_instances_are_left_out_unless_they_are_asked_for() -> None:
    cards = (card(0), instance(1, 0, "1g.5gb"), instance(1, 1, "1g.5gb"), instance(1, 2, "3g.20gb"))
    assert listed(*cards)["nvidia.com/gpu"].count == 1
    single = listed(*cards, strategy=MigStrategy.SINGLE)
    assert single["nvidia.com/gpu"].count == 4
    assert single["aliyun.com/gpu-mem"].count == 14
    mixed = listed(*cards, strategy=MigStrategy.MIXED)
    assert mixed["nvidia.com/gpu"].count == 1
    assert [*mixed["nvidia.com/mig-1g.5gb"].devices()] == [("1-0", True), ("1-1", True)]
    assert mixed["nvidia.com/mig-3g.20gb"].count == 1


def test_a_profile_with_a_plus_has_a_name_that_kubernetes_takes() -> None:
    mixed = listed(instance(0, 0, "1g.10gb+me"), strategy=MigStrategy.MIXED)
    assert "nvidia.com/mig-1g.10gb.me" in mixed


def test_slices_are_so_many_devices_of_each_card_c1() -> None:
    """HAMi: cards x deviceSplitCount, also of unhealthy cards."""
    cards = [card(0), card(1, healthy=False)]
    resources = chosen(["nvidia.com/gpu"], MemoryUnit.GIB, slices=10)
    found = device_lists(resources, cards, MigStrategy.NONE)["nvidia.com/gpu"]
    assert found.count == 20
    assert [*found.devices()][9:11] == [("0-9", True), ("1-0", False)]
    assert found.resource.unplaced is Unplaced.REFUSED


def test_an_instance_is_one_device_among_slices_c1() -> None:
    cards = [card(0), instance(1, 0, "3g.20gb"), instance(1, 1, "3g.20gb")]
    resources = chosen(["nvidia.com/gpu"], MemoryUnit.GIB, slices=10)
    found = device_lists(resources, cards, MigStrategy.SINGLE)["nvidia.com/gpu"]
    assert [one.count for one in found.cards] == [10, 1, 1]
    assert device_lists(resources, cards, MigStrategy.NONE)["nvidia.com/gpu"].count == 10


def test_too_many_slices_are_refused_with_what_to_do() -> None:
    resources = chosen(["nvidia.com/gpu"], MemoryUnit.GIB, slices=1_000_000)
    found = device_lists(resources, [card(0)], MigStrategy.NONE)["nvidia.com/gpu"]
    assert found.count == 0
    assert found.refusal.endswith("choose fewer slices")


def test_kubelet_is_to_take_devices_of_the_first_cards() -> None:
    free = ["1-10", "1-9", "0-3", "GPU-of-another-plugin", "1-2"]
    memory = KNOWN["aliyun.com/gpu-mem"]
    assert preferred(memory, free, (), 2) == ["0-3", "1-2"]
    assert preferred(memory, free, ["1-9"], 3) == ["1-9", "0-3", "1-2"]
    assert preferred(memory, free, (), 5)[3:] == ["1-10", "GPU-of-another-plugin"]


def test_kubelet_is_to_take_the_devices_of_the_last_cards_where_they_stand_for_free_ones() -> None:
    free = ["0-0", "GPU-of-another-plugin", "10-0", "9-0"]
    assert preferred(KNOWN["nvidia.com/gpu"], free, (), 2) == ["10-0", "9-0"]
    assert preferred(KNOWN["nvidia.com/gpu"], free, (), 4)[3] == "GPU-of-another-plugin"


# --- The resources that the node agent can serve, by name -----------------------------------------


def test_only_gpushares_memory_has_a_choice_of_units() -> None:
    units = {one.name: one.unit for one in chosen(KNOWN, MemoryUnit.MIB) if one.unit}
    assert units == {
        "aliyun.com/gpu-mem": "MiB",
        "nano-gpu.io/gpu-memory": "GiB",
        "elasticgpu.io/gpu-memory": "MiB",
    }


def test_a_vendors_name_stands_for_a_known_resource() -> None:
    [found] = chosen(["cerit.io/gpu-mem=aliyun.com/gpu-mem"], MemoryUnit.MIB)
    assert (found.name, found.unit, found.counts) == ("cerit.io/gpu-mem", "MiB", "memory")


@pytest.mark.parametrize("written", ["gpu-mem", "example.com/gpu", "a=b", "x=aliyun.com/gpu-mem"])
def test_other_names_are_refused_with_those_that_there_are(written: str) -> None:
    with pytest.raises(UnknownResource, match=r"aliyun.com/gpu-mem, .*NAME=ONE-OF-THESE"):
        chosen([written], MemoryUnit.GIB)


def test_only_nvidias_devices_are_slices_also_under_a_vendors_name() -> None:
    names = ["aliyun.com/gpu-mem", "hami.io/gpu=nvidia.com/gpu"]
    memory, slices = chosen(names, MemoryUnit.GIB, slices=10)
    assert (memory.slices, slices.slices) == (0, 10)
    assert (memory.reported, slices.reported) == ("aliyun.com/gpu-mem", "hami.io/gpu as slices")
