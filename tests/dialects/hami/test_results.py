"""The annotations that a Binding writes for HAMi's tools."""

from collections.abc import Mapping
from typing import Any

import pytest

from kubeshare_py.dialects.dialect import results_by
from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.request import ContainerRef
from tests.dialects.hami.pods import CORES, GPU, HAMI, MEM, MIB, PERCENT, SEED, a_node, request

APP, INIT = ContainerRef(False, 0), ContainerRef(True, 0)


def written(
    given: Mapping[ContainerRef, tuple[str, ...]],
    *apps: Mapping[str, int],
    node_mib: tuple[int, ...] = (7680, 24564),
    dialect: Hami = HAMI,
    served: str = "",
    **more: Any,
) -> Mapping[str, str]:
    """What is written of a pod whose containers got these cards."""
    asked = request(*apps, dialect=dialect, **more)
    node = a_node(*node_mib, notes=asked.notes, served=served)
    claims = tuple(
        ClaimCharge(
            container=one.container,
            cards=tuple(
                CardCharge(GpuUuid(uuid), one.claim.milli, one.claim.memory_bytes or 5 * MIB)
                for uuid in given[one.container]
            ),
        )
        for one in asked.claims
        if one.container is not None
    )
    held = Allocation(
        token=DecisionToken("t"),
        dialect="hami",
        cards=summed(card for one in claims for card in one.cards),
        claims=claims,
    )
    found = results_by(dialect, held, node)
    assert not isinstance(found, str), found
    return found


def text(*args: Any, **more: Any) -> str:
    return written(*args, **more)["hami.io/vgpu-devices-allocated"]


def test_the_node_the_moment_and_the_phase_are_told() -> None:
    """Moments are Unix seconds; the phase is `allocating` until the plugin has answered."""
    found = written({APP: ("GPU-0", "GPU-1")}, {GPU: 2, MEM: 1000, CORES: 30})
    cards = "GPU-0,NVIDIA,1000,30:GPU-1,NVIDIA,1000,30:;"
    assert found == {
        "hami.io/vgpu-node": "n1",
        "hami.io/vgpu-time": "1700000000",
        "hami.io/bind-time": "1700000000",
        "hami.io/bind-phase": "allocating",
        "hami.io/vgpu-devices-to-allocate": cards,
        "hami.io/vgpu-devices-allocated": cards,
    }
    assert HAMI.result_keys.labels == {"hami.io/vgpu-node"}


def test_where_the_node_agent_serves_the_devices_nothing_is_left_to_allocate() -> None:
    """HAMi's plugin erases what it gave, and then writes `success`."""
    own = {INIT: ("GPU-0",), ContainerRef(False, 1): ("GPU-1",)}
    found = written(own, {}, {GPU: 1, MEM: 10, CORES: 30}, inits=({GPU: 1, MEM: 20},), served=GPU)
    assert found == {
        "hami.io/vgpu-node": "n1",
        "hami.io/vgpu-time": "1700000000",
        "hami.io/bind-time": "1700000000",
        "hami.io/bind-phase": "success",
        "hami.io/vgpu-devices-to-allocate": ";;;",
        "hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,20,0:;;GPU-1,NVIDIA,10,30:;",
    }
    seed = written({APP: ("GPU-0",)}, {GPU: 1, MEM: 10}, {}, dialect=SEED, served=GPU)
    assert seed["4pd.io/bind-phase"] == "success"
    assert seed["hami.sh/vgpu-devices-to-allocate"] == ";"
    assert seed["hami.sh/vgpu-devices-allocated"] == "GPU-0,NVIDIA,10,0:;"


def test_an_agent_that_serves_another_name_leaves_the_devices_to_hamis_plugin() -> None:
    renamed = Hami(count="example.com/vgpu")
    of_cards = written({APP: ("GPU-0",)}, {"example.com/vgpu": 1}, dialect=renamed, served=GPU)
    assert of_cards["hami.io/bind-phase"] == "allocating"
    assert of_cards["hami.io/vgpu-devices-to-allocate"] == "GPU-0,NVIDIA,7680,100:;"
    ours = written(
        *({APP: ("GPU-0",)}, {"example.com/vgpu": 1}), dialect=renamed, served="example.com/vgpu"
    )
    assert ours["hami.io/bind-phase"] == "success"


def test_containers_without_cards_keep_their_places() -> None:
    """HAMi leaves out the places of leading containers without cards (its issue 2899)."""
    own = {ContainerRef(False, 1): ("GPU-0",), ContainerRef(True, 1): ("GPU-0",)}
    found = text(own, {}, {GPU: 1, MEM: 10}, inits=({}, {GPU: 1, MEM: 20}))
    assert found == ";GPU-0,NVIDIA,20,0:;;GPU-0,NVIDIA,10,0:;"


@pytest.mark.parametrize(
    ("amounts", "mib", "cores"),
    [
        ({GPU: 1, PERCENT: 50}, 3840, 0),
        ({GPU: 1}, 7680, 100),
        ({GPU: 1, CORES: 100, MEM: 500}, 500, 100),
        ({GPU: 1, PERCENT: 33, CORES: 120}, 2534, 100),
    ],
)
def test_a_percentage_is_of_the_card_that_was_chosen(
    amounts: dict[str, int], mib: int, cores: int
) -> None:
    """50 % of 7680 MiB is 3840 MiB; what has all cores is told as all."""
    assert text({APP: ("GPU-0",)}, amounts) == f"GPU-0,NVIDIA,{mib},{cores}:;"


def test_cards_of_different_sizes_have_their_own_amounts() -> None:
    """Half of 24 GiB is not half of 80 GiB; 33 % of 24564 MiB is 8106 MiB, rounded down."""
    found = text({APP: ("GPU-0", "GPU-1")}, {GPU: 2, PERCENT: 33})
    assert found == "GPU-0,NVIDIA,2534,0:GPU-1,NVIDIA,8106,0:;"


def test_no_part_is_so_small_that_it_would_be_no_limit() -> None:
    """HAMi books 0 MiB for 1 % of 99 MiB, which its library takes for no limit."""
    assert text({APP: ("GPU-0",)}, {GPU: 1, PERCENT: 1}, node_mib=(99,)) == "GPU-0,NVIDIA,1,0:;"


def test_a_card_that_left_the_node_is_told_with_its_charge() -> None:
    found = text({APP: ("GPU-9",)}, {GPU: 1, PERCENT: 50})
    assert found == "GPU-9,NVIDIA,5,0:;"
    assert text({APP: ("GPU-9",)}, {GPU: 1, MEM: 70}) == "GPU-9,NVIDIA,70,0:;"


def test_the_ancestor_has_its_own_keys_and_one_end() -> None:
    """Keys of 4pd.io and hami.sh, and one semicolon after all containers."""
    own = {APP: ("GPU-0",), ContainerRef(False, 1): ("GPU-1",)}
    found = written(own, {GPU: 1, MEM: 10}, {GPU: 1, MEM: 20}, dialect=SEED)
    cards = "GPU-0,NVIDIA,10,0:GPU-1,NVIDIA,20,0:;"
    assert found["hami.sh/vgpu-devices-allocated"] == cards
    assert found["hami.sh/vgpu-devices-to-allocate"] == cards
    assert found["4pd.io/vgpu-node"] == "n1"
    assert found["4pd.io/bind-phase"] == "allocating"
    assert not any(key.startswith("hami.io/") for key in found)


def test_results_belong_to_the_keys_that_users_must_not_write() -> None:
    """HAMi believes a pod that comes with them, and charges the cards that it names."""
    found = written({APP: ("GPU-0",)}, {GPU: 1})
    assert all(HAMI.result_keys.has(key) for key in found)
    assert HAMI.result_keys.device_plugin["hami.io/bind-phase"] == "kubeshare-node-agent"
    theirs = Hami(device_plugin="kube-system/hami-device-plugin").result_keys.device_plugin
    assert theirs["hami.io/vgpu-devices-to-allocate"] == "kube-system/hami-device-plugin"
