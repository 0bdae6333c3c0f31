"""What the agent gave to containers: kept, found again, and forgotten."""

import pytest

from kubeshare_py.domain.identity import GpuUuid, PodKey, PodUid
from kubeshare_py.node_agent.allocation import (
    AllocatedDevices,
    CardsUnknown,
    ContainerDevices,
    DevicePod,
    Given,
    WrittenClaim,
    free_cards,
    restored,
    still_given,
    stored,
)
from kubeshare_py.node_agent.devices import KNOWN, NVIDIA_GPU, CardDevices, DeviceList


def offered(*sick: int) -> DeviceList:
    cards = [CardDevices(GpuUuid(f"GPU-{at}"), at, 0, 1, at not in sick) for at in range(3)]
    return DeviceList(KNOWN[NVIDIA_GPU], tuple(cards))


def pod(name: str, uid: str = "") -> DevicePod:
    return DevicePod(PodKey("default", name), PodUid(uid or f"uid-of-{name}"), {}, {})


def listed(name: str) -> list[ContainerDevices]:
    """A pod whose app container has no device."""
    return [ContainerDevices(PodKey("default", name), "main", {})]


def allocated(*devices: str, claim: str = "c1") -> list[AllocatedDevices]:
    """An init container of pod a."""
    found = AllocatedDevices(PodUid("uid-of-a"), "first", NVIDIA_GPU, frozenset(devices), (claim,))
    return [found]


def test_devices_stand_for_the_last_free_cards_whichever_they_are() -> None:
    """The scheduler holds the last idle cards back: tests/cluster/test_native_gpus.py."""
    assert free_cards(Given(), pod("a"), offered(), ["0-0"], ())[1] == ("GPU-2",)
    assert free_cards(Given(), pod("a"), offered(), ["2-0"], {"GPU-2"})[1] == ("GPU-1",)
    assert free_cards(Given(), pod("a"), offered(2), ["0-0", "1-0"], ())[1] == ("GPU-0", "GPU-1")


def test_a_container_that_starts_again_has_the_same_card() -> None:
    given, cards = free_cards(Given(), pod("a"), offered(), ["0-0"], {"GPU-2"})
    again = restored(stored(given))
    assert free_cards(again, pod("a"), offered(), ["0-0"], ())[1] == cards == ("GPU-1",)


def test_no_two_pods_have_the_same_card() -> None:
    given, first = free_cards(Given(), pod("a"), offered(), ["0-0"], {"GPU-2"})
    given, second = free_cards(given, pod("b"), offered(), ["1-0"], ())
    assert (first, second) == (("GPU-1",), ("GPU-2",))
    with pytest.raises(CardsUnknown, match=r"no card is free for nvidia\.com/gpu"):
        free_cards(given, pod("c"), offered(), ["2-0"], {"GPU-0"})


def test_a_device_of_another_pod_now_stands_for_a_card_anew() -> None:
    """elastic-gpu-agent kept the card of the pod before, until it cleaned up."""
    given, _ = free_cards(Given(), pod("a"), offered(), ["0-0"], ())
    _, cards = free_cards(given, pod("b"), offered(), ["0-0"], {"GPU-2"})
    assert cards == ("GPU-1",)


def test_a_new_pod_of_the_same_name_does_not_inherit() -> None:
    given, _ = free_cards(Given(), pod("a"), offered(), ["0-0"], ())
    found, cards = free_cards(given, pod("a", uid="new"), offered(), ["1-0"], {"GPU-2"})
    assert cards == ("GPU-1",)
    assert [one.uid for one in found.choices] == ["new"]


def test_what_kubelet_no_longer_gives_is_forgotten() -> None:
    """Its checkpoint has pods that ended, and its list no init containers."""
    given, _ = free_cards(Given(), pod("a"), offered(), ["0-0"], ())
    given = given.with_claims([WrittenClaim("c1", "default", "a")])
    assert still_given(given, listed("a"), allocated("0-0")) == given
    assert still_given(given, listed("b"), allocated("0-0")) == Given()
    assert still_given(given, listed("a"), allocated("0-0", claim="c2")).claims == ()
    assert still_given(given, listed("a"), allocated("1-0")).choices == ()
    assert still_given(given, listed("a"), []) == Given()


def test_a_file_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 2 is not 1"):
        restored(b'{"v":2}')
