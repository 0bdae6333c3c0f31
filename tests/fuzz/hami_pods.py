"""What users write on HAMi's pods, and what schedulers wrote on bound ones."""

import re
from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import Any

from kubeshare_py.dialects.cambricon import MLU, MLU_KEYS, Cambricon
from kubeshare_py.dialects.dialect import (
    ContainerAmounts,
    Dialect,
    NodeCard,
    PlacedNode,
    PodAsk,
    UnreadableHolding,
    read_back_by,
    read_by,
    results_by,
)
from kubeshare_py.dialects.dialects import DialectTable, owned_part
from kubeshare_py.dialects.hami.annotations import (
    MIB,
    NVIDIA,
    NVIDIA_KEYS,
    DeviceRecord,
    HamiSettings,
    decode,
    encode,
    encode_as_seed,
)
from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.dialects.predecessors import held_by_predecessor
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.quantity import CARDS_OF_NODE, CLAIMED_CARDS, HELD_BYTES, HELD_MILLI
from kubeshare_py.domain.request import ContainerRef, GpuRequest, InvalidRequest
from tests.fuzz import odd
from tests.fuzz.family import Family, said

_OURS = HamiSettings()
_DIALECTS: dict[str, Dialect] = {
    "hami": Hami(),
    "4paradigm": Hami(profile="4paradigm"),
    "cambricon": Cambricon(),
}
_TABLES = {name: DialectTable((SHAREDGPU, one)) for name, one in _DIALECTS.items()}
_NAMES = (_OURS.count, _OURS.memory, _OURS.memory_percentage, _OURS.cores, _OURS.priority)
_COUNT, _MEMORY, _PERCENT, _CORES, _ = _NAMES
_AMOUNTS = (0, 1, 2, 50, 99, 100, 101, 120, 3000, 2**31 - 1, 2**31, 2**53, 2**63 - 1)
_WRITTEN = {
    "nvidia.com/use-gputype": "A100,V100",
    "nvidia.com/nouse-gputype": "1080,2080",
    "nvidia.com/use-gpuuuid": "GPU-a, GPU-b",
    "nvidia.com/nouse-gpuuuid": "GPU-c",
    "nvidia.com/numa-bind": "true",
    "nvidia.com/vgpu-mode": "hami-core",
    "hami.io/node-scheduler-policy": "binpack",
    "hami.io/gpu-scheduler-policy": "binpack,numa",
    "hami.io/device-scoring-weights": "slot=1,core=1,memory=3",
}


def _odd_asks(rng: Random) -> dict[str, Any]:
    """A pod by its annotations, and its containers' amounts: kind and pairs of each."""
    told = {key: text for key, text in _WRITTEN.items() if rng.random() < 0.4}
    for _ in range(rng.randint(0, 2)):
        key = rng.choice([*_WRITTEN]) if rng.random() < 0.9 else odd.text(rng, _MEMORY)
        told[key] = odd.text(rng, told.get(key, _WRITTEN.get(key, "")))
    containers = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice(("app", "app", "init", "sidecar"))
        names = [name for name in _NAMES if rng.random() < 0.5]
        containers.append([kind, {name: rng.choice(_AMOUNTS) for name in names}])
    return {"profile": rng.choice(("hami", "4paradigm")), "told": told, "containers": containers}


def judge_asks(given: Any) -> None:
    """The dialect's reading, against rules of our own."""
    dialect = _DIALECTS[given["profile"]]
    containers = _containers(given["containers"])
    pod = PodAsk({}, given["told"], containers)
    found = read_by(dialect, owned_part(dialect, pod))
    backwards = PodAsk({}, dict(reversed(given["told"].items())), containers)
    assert found == read_by(dialect, owned_part(dialect, backwards)), "the order matters"
    asking = {
        one.container: dict(one.amounts)
        for one in containers
        if _count(dict(one.amounts), given["profile"])
    }
    if found is None:
        assert not asking
        return
    if isinstance(found, InvalidRequest):
        assert not found.rule.startswith("failed: "), found
        said(str(found), found.field[:60])
        return
    guests = {one.container for one in found.guests}
    assert {one.container for one in found.claims} | guests == {*asking}
    for one in found.claims:
        assert one.container is not None
        _judge_claim(one.claim, asking[one.container], given)


def _judge_claim(claim: Any, amounts: dict[str, int], given: Any) -> None:
    assert claim.count == _count(amounts, given["profile"])
    assert CLAIMED_CARDS.allows(claim.count)
    memory, percent = amounts.get(_MEMORY, 0), amounts.get(_PERCENT, 0)
    cores = amounts.get(_CORES)
    if cores is None:
        is_whole = amounts.get(_PERCENT, 100 if _MEMORY not in amounts else 0) == 100
        cores = 100 if is_whole and given["profile"] == "hami" else 0
    is_mig = claim.exclusive and cores < 100
    assert not is_mig or "mig" in given["told"]["nvidia.com/vgpu-mode"]
    assert claim.milli == (1000 if claim.exclusive else cores * 10)
    assert claim.exclusive == (cores >= 100) or is_mig
    assert claim.memory_bytes == (memory * MIB if memory else None)
    if not memory and not claim.exclusive:
        assert claim.memory_milli == (percent or 100) * 10
    named = {text.strip() for text in given["told"].get("nvidia.com/use-gpuuuid", "").split(",")}
    assert {*claim.uuids} <= named


def _count(amounts: dict[str, int], profile: str) -> int:
    if _COUNT in amounts or profile == "4paradigm":
        return amounts.get(_COUNT, 0)
    return int(any(name in amounts for name in (_MEMORY, _PERCENT, _CORES)))


def _containers(given: Sequence[Any]) -> tuple[ContainerAmounts, ...]:
    """Containers by kind, init containers first, as a pod has them."""
    found = []
    for is_init in (True, False):
        these = [one for one in given if (one[0] != "app") is is_init]
        for at, (kind, amounts) in enumerate(these):
            ref = ContainerRef(is_init, at)
            pairs = tuple(sorted(amounts.items()))
            found.append(ContainerAmounts(str(ref), ref, kind == "sidecar", pairs))
    return tuple(found)


_CARDS = ("GPU-a", "GPU-b", "GPU-c", "GPU-a[1-0]", "MIG-d")
_MLUS = ("n1-cambricon-mlu-0", "MLU-45013011")
_ANNOTATIONS = {
    "hami": NVIDIA_KEYS["hami"].allocated,
    "4paradigm": NVIDIA_KEYS["4paradigm"].allocated,
    "cambricon": MLU_KEYS["hami"].allocated,
}
#: A record, by rules of our own.
_RECORD = re.compile(r"([^,:;]+),([^,:;]*),([+-]?[0-9]{1,10}),([+-]?[0-9]{1,10})(,[^:;]*)?")


def _odd_held(rng: Random) -> dict[str, Any]:
    """The annotation of a bound pod of each release, and containers that ask, or do not."""
    system = rng.choice([*_ANNOTATIONS])
    vendor, cards = (MLU, _MLUS) if system == "cambricon" else (NVIDIA, _CARDS)
    slots, containers = [], []
    for _ in range(rng.randint(1, 4)):
        number = rng.choice((0, 1, 1, 2))
        slots.append(
            [
                DeviceRecord(
                    rng.choice(cards), vendor, rng.choice((0, 1, 3000, 40_960)),
                    rng.choice((0, 1, 30, 100)),
                )
                for _ in range(number)
            ]
        )  # fmt: skip
        kind = rng.choice(("app", "app", "init", "sidecar"))
        containers.append([kind, {_COUNT: number, _MEMORY: 3000} if number else {}])
    containers.sort(key=_is_app)
    way = rng.random()
    if way < 0.2:  # no places of leading containers without cards
        slots = [slot for at, slot in enumerate(slots) if slot or any(slots[:at])]
    text = encode_as_seed(slots) if way > 0.7 else encode(slots)
    if rng.random() < 0.6:
        text = odd.garbled(rng, text) if rng.random() < 0.8 else odd.text(rng, text)
    if rng.random() < 0.2:
        containers.pop(rng.randrange(len(containers)))
    return {"system": system, "text": text, "containers": containers}


def judge_held(given: Any) -> None:
    """What a bound pod holds: all that its text says, or whole cards, or a sentence."""
    system, text, containers = given["system"], given["text"], _containers(given["containers"])
    dialect, table, key = _DIALECTS[system], _TABLES[system], _ANNOTATIONS[system]
    pod = PodAsk({}, {key: text}, containers)
    found = read_back_by(dialect, pod)
    assert found == read_back_by(dialect, pod)
    assert not isinstance(found, str), found
    request = read_by(dialect, pod)
    held = held_by_predecessor(table, pod, request if isinstance(request, GpuRequest) else None)
    if found is None:
        assert not any(_is_own(record, system) for record in _records(text))
        return
    if isinstance(found, UnreadableHolding):
        said(found.problem, key)
        _judge_named(found, text)
        assert held.problem == found.problem
        charged = held.allocation.cards if held.allocation is not None else ()
        assert [card.uuid for card in charged] == [*found.cards]
        assert {(card.milli, card.exclusive) for card in charged} <= {(1000, True)}
        return
    _judge_sums(found, text, system)
    _judge_collapsed(found, text, given)
    assert held.allocation is not None
    for card, more in zip(found.cards, held.allocation.cards, strict=True):
        assert card.uuid == more.uuid
        assert (more.milli, more.memory_bytes) >= (card.milli, 0)
        assert more.memory_bytes >= card.memory_bytes
    if system != "cambricon" and found.claims:
        _judge_written_again(found, containers, given)


def _records(text: str) -> list[tuple[str, str, int, int]]:
    found = (_RECORD.fullmatch(part) for part in re.split("[:;]", text))
    return [(one[1], one[2], int(one[3]), int(one[4])) for one in found if one is not None]


def _is_own(record: tuple[str, str, int, int], system: str) -> bool:
    return record[1] == (MLU if system == "cambricon" else NVIDIA)


def _judge_named(found: UnreadableHolding, text: str) -> None:
    assert CARDS_OF_NODE.allows(len(found.cards))
    assert len({*found.cards}) == len(found.cards)
    assert all(map(re.compile("GPU-.|MIG-.|MLU-|.*-cambricon-mlu-").match, found.cards))
    parts = [part for part in re.split("[:;]", text) if part]
    assert all(any(part.startswith(uuid) for part in parts) for uuid in found.cards)
    assert not found.cards or all(part.startswith(tuple(found.cards)) for part in parts)


def _judge_sums(found: Allocation, text: str, system: str) -> None:
    """Of each card no more than its records say, and no less than one of them."""
    said_of: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for uuid, vendor, mib, cores in _records(text):
        if _is_own((uuid, vendor, mib, cores), system):
            said_of[uuid.partition("[")[0]].append((max(cores, 0) * 10, max(mib, 0) * MIB))
    assert {card.uuid for card in found.cards} == {*said_of}
    assert len({card.uuid for card in found.cards}) == len(found.cards)
    for card in found.cards:
        records = said_of[card.uuid]
        assert HELD_MILLI.allows(card.milli)
        assert HELD_BYTES.allows(card.memory_bytes)
        assert card.memory_bytes <= sum(memory for _, memory in records)
        assert card.memory_bytes >= max(memory for _, memory in records)
        assert max(milli for milli, _ in records) <= card.milli
        assert card.milli <= sum(milli for milli, _ in records)


def _judge_collapsed(found: Allocation, text: str, given: Any) -> None:
    """Of each card the larger of what one init container and all others together have of it.

    Only where each container that asks has its part of the text.
    """
    parts = [
        [one for one in _records(part) if _is_own(one, given["system"])] for part in text.split(";")
    ]
    parts = [part for part in parts if part]
    kinds = [kind for kind, amounts in sorted(given["containers"], key=_is_app) if amounts]
    if given["system"] == "cambricon" or len(parts) != len(kinds):
        return
    most: dict[str, tuple[int, int]] = {}
    together: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for kind, part in zip(kinds, parts, strict=True):
        own: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        held = own if kind == "init" else together
        for uuid, _, mib, cores in part:
            milli, memory = held[uuid.partition("[")[0]]
            held[uuid.partition("[")[0]] = milli + cores * 10, memory + mib * MIB
        for uuid, one in own.items():
            known = most.get(uuid, (0, 0))
            most[uuid] = max(one[0], known[0]), max(one[1], known[1])
    for card in found.cards:
        first, others = most.get(card.uuid, (0, 0)), together[card.uuid]
        wanted = max(first[0], others[0]), max(first[1], others[1])
        assert (card.milli, card.memory_bytes) == wanted


def _is_app(container: Any) -> bool:
    return bool(container[0] == "app")


def _judge_written_again(
    found: Allocation, containers: tuple[ContainerAmounts, ...], given: Any
) -> None:
    """What ours would write of it, `to-allocate` too, has each container's cards in its place."""
    dialect = _DIALECTS[given["system"]]
    asked = read_by(dialect, PodAsk({}, {}, containers))
    if not isinstance(asked, GpuRequest):
        return
    notes = dict(asked.notes)
    if not all(notes[str(one.container)] for one in found.claims):
        return
    cards = {GpuUuid(name): NodeCard(0, 40_960 * MIB, "A100") for name in _CARDS}
    node = PlacedNode(cards=cards, offered={}, decided_at_ns=0, notes=asked.notes, name="n1")
    written = results_by(dialect, found, node)
    assert not isinstance(written, str), written
    keys = NVIDIA_KEYS[given["system"]]
    assert written[keys.to_allocate] == written[keys.allocated]
    slots = decode(written[keys.to_allocate])
    assert not isinstance(slots, str)
    named = [record.uuid for slot in slots for record in slot]
    assert named == [card.uuid for one in sorted(found.claims, key=_place) for card in one.cards]
    if given["system"] == "hami":
        assert len(slots) == len(containers) + 1


def _place(charge: Any) -> tuple[bool, int]:
    return not charge.container.init, charge.container.index


FAMILIES = (
    Family(name="hami-asks", make=_odd_asks, judge=judge_asks, share=4),
    Family(name="hami-held", make=_odd_held, judge=judge_held, share=4),
)
