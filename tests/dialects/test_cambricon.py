"""Cambricon's MLUs: what pods ask for, and the annotations that answer."""

import pytest

from kubeshare_py.dialects.cambricon import (
    ASSIGNED,
    DSMLU_LOCK,
    MLU,
    PROFILE,
    Cambricon,
    dsmlu_locks,
    mlu_uuid_problem,
)
from kubeshare_py.dialects.card_visibility import CardVisibility
from kubeshare_py.dialects.dialect import (
    ContainerAmounts,
    NodeCard,
    PlacedNode,
    PodAsk,
    UnreadableHolding,
)
from kubeshare_py.dialects.hami.annotations import HeldLock, read_lock, write_lock
from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.node import NodeLock
from kubeshare_py.domain.request import ContainerRef, GpuClaim, GpuRequest, InvalidRequest

MIB = 2**20
VMLU, VMEMORY, VCORE = (
    "cambricon.com/vmlu", "cambricon.com/mlu.smlu.vmemory", "cambricon.com/mlu.smlu.vcore",
)  # fmt: skip
MLUNUM, MLUMEM = "cambricon.com/mlunum", "cambricon.com/mlumem"
CARD = GpuUuid("n1-cambricon-mlu-1")
TO_ALLOCATE = "hami.io/cambricon-mlu-devices-to-allocate"
ALLOCATED = "hami.io/cambricon-mlu-devices-allocated"


def asking(*containers: dict[str, int], **annotations: str) -> PodAsk:
    found = tuple(
        ContainerAmounts(
            name=f"c{index}",
            container=ContainerRef(False, index),
            sidecar=False,
            amounts=tuple(sorted(amounts.items())),
        )
        for index, amounts in enumerate(containers)
    )
    return PodAsk(labels={}, annotations=annotations, containers=found)


def request(pod: PodAsk) -> GpuRequest:
    found = Cambricon().read(pod)
    assert isinstance(found, GpuRequest)
    return found


def claim(*containers: dict[str, int], **annotations: str) -> GpuClaim:
    (one,) = request(asking(*containers, **annotations)).claims
    return one.claim


def test_a_part_of_an_mlu_has_units_of_256_mib_and_percents_of_cores() -> None:
    """HAMi's example: vmlu 1, vmemory 20, vcore 10."""
    found = claim({VMLU: 1, VMEMORY: 20, VCORE: 10})
    assert (found.count, found.milli, found.memory_bytes) == (1, 100, 5120 * MIB)
    assert (found.vendor, found.exclusive) == (MLU, False)
    assert found.takes("MLU")
    assert not found.takes("NVIDIA-A100")


def test_an_mlu_without_more_words_is_taken_alone() -> None:
    """HAMi's example: a whole MLU."""
    found = claim({VMLU: 2})
    assert (found.count, found.exclusive) == (2, True)


def test_memory_without_cores_takes_all_cores_and_cores_of_0_take_none() -> None:
    assert claim({VMLU: 1, VMEMORY: 20}).exclusive
    free = claim({VMLU: 1, VCORE: 0})
    assert (free.milli, free.memory_milli, free.exclusive) == (0, 1000, False)
    assert claim({VMLU: 1, VCORE: 120}).exclusive


def test_the_ancestors_memory_is_in_mib_and_of_an_mlu370_alone() -> None:
    found = claim({MLUNUM: 1, MLUMEM: 10240})
    assert (found.milli, found.memory_bytes) == (0, 10240 * MIB)
    assert found.takes("MLU-MLU370-X4")
    assert not found.takes("MLU-MLU270-F4")
    whole = claim({MLUNUM: 1})
    assert whole.exclusive
    assert whole.takes("MLU-MLU270-F4")


@pytest.mark.parametrize(
    "part", ["370", "mlu", "X4", "MLU370-X4", "70-x", "mlu37", "37", "7", "cambricon,x4"]
)
def test_memory_is_of_those_mlu370s_that_the_pod_accepts(part: str) -> None:
    found = claim({MLUNUM: 1, MLUMEM: 1}, **{"cambricon.com/use-mlutype": part})
    assert found.takes("MLU-MLU370-X4")
    assert not found.takes("MLU-MLU270-F4")


@pytest.mark.parametrize("part", ["270", "X8", "MLU370-X8"])
def test_memory_is_of_no_mlu370_that_the_pod_does_not_accept(part: str) -> None:
    """4paradigm's example asks for 10240 MiB of a 270, which no card has."""
    found = claim({MLUNUM: 1, MLUMEM: 10240}, **{"cambricon.com/use-mlutype": part})
    assert not any(found.takes(f"MLU-MLU{name}") for name in ("370-X4", "270-F4"))


def test_types_and_uuids_are_chosen_and_denied() -> None:
    found = claim(
        {MLUNUM: 1},
        **{
            "cambricon.com/use-mlutype": "270, 370",
            "cambricon.com/nouse-mlutype": "X8",
            "cambricon.com/use-gpuuuid": " MLU-b,MLU-a,",
            "cambricon.com/nouse-gpuuuid": "MLU-c",
        },
    )
    assert found.takes("MLU-MLU270-F4")
    assert not found.takes("MLU-MLU370-X8")
    assert (found.uuids, found.denied_uuids) == (("MLU-a", "MLU-b"), ("MLU-c",))


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (asking({VMLU: 1}, {MLUNUM: 1}), "are of two systems"),
        (asking({VMLU: 2_000_000}), "resources[cambricon.com/vmlu]"),
        (asking({VMLU: 1, VMEMORY: 2**40}), "resources[cambricon.com/mlu.smlu.vmemory]"),
        (
            asking({VMLU: 1}, **{"cambricon.com/use-mlutype": "c!d"}),
            "is no part of a model's name",
        ),
        (asking(*({VMLU: 1} for _ in range(40))), "number of containers"),
        (
            asking({VMLU: 1}, **{"cambricon.com/use-gpuuuid": ",".join(map(str, range(200)))}),
            "number of cards",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_field(pod: PodAsk, words: str) -> None:
    found = Cambricon().read(pod)
    assert isinstance(found, InvalidRequest)
    assert words in str(found)


def test_a_pod_without_mlus_asks_for_none() -> None:
    assert Cambricon().read(asking({})) is None
    assert Cambricon().read(asking({VMEMORY: 3})) is None


def test_its_containers_see_no_card_of_nvidia() -> None:
    assert Cambricon().visibility(asking({VMLU: 1})) is CardVisibility.VOID


def placed(pod: PodAsk, *claims: ClaimCharge) -> dict[str, str]:
    cards = tuple(card for one in claims for card in one.cards)
    held = Allocation(token=DecisionToken("t"), dialect="cambricon", cards=cards, claims=claims)
    node = PlacedNode(
        name="n1",
        cards={CARD: NodeCard(index=1, memory_bytes=24576 * MIB, model="MLU")},
        offered={},
        decided_at_ns=7 * 10**9 + 1,
        notes=request(pod).notes,
    )
    return dict(Cambricon().results(held, node))


def test_a_placed_pod_has_its_devices_in_hamis_encoding_and_its_profile() -> None:
    pod = asking({}, {VMLU: 1, VMEMORY: 20, VCORE: 10})
    charge = CardCharge(CARD, 100, 5120 * MIB)
    told = placed(pod, ClaimCharge(container=ContainerRef(False, 1), cards=(charge,)))
    text = ";n1-cambricon-mlu-1,MLU,5120,10:;"
    of_any_vendor = {
        "hami.io/vgpu-node": "n1", "hami.io/vgpu-time": "7", "hami.io/bind-time": "7",
        "hami.io/bind-phase": "allocating",
    }  # fmt: skip
    of_mlus = {TO_ALLOCATE: text, ALLOCATED: text, ASSIGNED: "false", PROFILE: "1_10_20"}
    assert told == of_any_vendor | of_mlus


def test_what_it_wrote_is_read_back() -> None:
    pod = asking({}, {VMLU: 1, VMEMORY: 20, VCORE: 10})
    charge = CardCharge(CARD, 100, 5120 * MIB)
    container = ClaimCharge(container=ContainerRef(False, 1), cards=(charge,))
    told = placed(pod, container)
    found = Cambricon().read_back(
        PodAsk(labels={}, annotations={ALLOCATED: told[ALLOCATED]}, containers=pod.containers)
    )
    assert isinstance(found, Allocation)
    assert (found.cards, found.claims) == ((charge,), (container,))


@pytest.mark.parametrize(
    ("containers", "places"),
    [(({}, {VMLU: 1}), ""), (({}, {VMLU: 1}), ";"), (({VMLU: 1}, {VMLU: 1}), ""), ((), ";;")],
)
def test_a_card_is_charged_wherever_its_place_is_in_the_text(
    containers: tuple[dict[str, int], ...], places: str
) -> None:
    """HAMi leaves out the places of leading containers without cards (#2899)."""
    text = f"{places}{CARD},MLU,5120,10:;"
    found = Cambricon().read_back(asking(*containers, **{ALLOCATED: text}))
    assert isinstance(found, Allocation)
    assert found.cards == (CardCharge(CARD, 100, 5120 * MIB),)


@pytest.mark.parametrize("text", ["", ";"])
def test_what_says_nothing_charges_nothing(text: str) -> None:
    assert Cambricon().read_back(asking({VMLU: 1}, **{ALLOCATED: text})) is None


@pytest.mark.parametrize(("text", "cards"), [("a,b:;", ()), (f"{CARD},MLU,1:;", (CARD,))])
def test_what_is_odd_may_name_its_mlus(text: str, cards: tuple[GpuUuid, ...]) -> None:
    found = Cambricon().read_back(asking({VMLU: 1}, **{ALLOCATED: text}))
    assert isinstance(found, UnreadableHolding)
    assert (found.cards, "fields, not 4" in found.problem) == (cards, True)


@pytest.mark.parametrize(
    "uuid", ["MLU-45013011-2257-0000-0000-000000000000", "n-1.a-cambricon-mlu-0"]
)
def test_uuids_of_both_systems_are_names_of_cards(uuid: str) -> None:
    assert mlu_uuid_problem(uuid) == ""


@pytest.mark.parametrize("uuid", ["all", "GPU-a", "MLU-a/b", "../MLU-a", "MLU-a,b"])
def test_other_texts_are_none(uuid: str) -> None:
    assert mlu_uuid_problem(uuid)


# --- The lock of a node whose MLUs Cambricon's own device plugin divides --------------------------


NOW = 1_700_000_000.0
PLUGINS = ("cambricon.com/mlu.smlu.vcore", "cambricon.com/mlu.smlu.vmemory")
FREE = NodeLock(dialect="cambricon", key="cambricon.com/dsmlu.lock", names_owner=False)


def test_a_node_that_advertises_parts_of_mlus_has_a_lock_without_a_name() -> None:
    """DsmluLockTime in HAMi's source: its value is a time alone."""
    assert dsmlu_locks({}, PLUGINS) == (FREE,)
    text = write_lock(NOW, None)
    assert (text, read_lock(text)) == ("2023-11-14T22:13:20Z", HeldLock(NOW))
    (held,) = dsmlu_locks({DSMLU_LOCK: text}, PLUGINS)
    assert (held.text, held.owner) == (text, None)


@pytest.mark.parametrize("offered", [(), ("nvidia.com/gpu",), ("cambricon.com/mlunum",)])
def test_other_nodes_have_none_whatever_was_written_once(offered: tuple[str, ...]) -> None:
    assert dsmlu_locks({DSMLU_LOCK: write_lock(NOW, None)}, offered) == ()
