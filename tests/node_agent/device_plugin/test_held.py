"""Which cards other plugins and schedulers gave to pods, by kubelet's list."""

import pytest

from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.node_agent.device_plugin.container_cards import (
    CardsUnknown,
    DevicePod,
    placed_cards,
)
from kubeshare_py.node_agent.device_plugin.given import CardChoice, Given
from kubeshare_py.node_agent.device_plugin.held import held_cards
from kubeshare_py.node_agent.device_plugin.owners import ContainerDevices
from kubeshare_py.node_agent.device_plugin.resources import NVIDIA_GPU

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
