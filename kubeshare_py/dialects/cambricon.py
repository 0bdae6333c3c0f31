"""Cambricon's MLUs as a dialect: pods written for HAMi, or for its ancestor, ask for them."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from kubeshare_py.dialects.card_visibility import CardVisibility
from kubeshare_py.dialects.dialect import (
    ContainerAmounts,
    Dialect,
    OwnedKeys,
    PlacedNode,
    PodAsk,
    ResultKeys,
    UnreadableHolding,
    Words,
)
from kubeshare_py.dialects.hami.annotations import (
    HAMI,
    MIB,
    SEED,
    DeviceRecord,
    VendorKeys,
    encode,
    encode_as_seed,
)
from kubeshare_py.dialects.hami.annotations import SYSTEMS as HAMI_SYSTEMS
from kubeshare_py.dialects.hami.hami_dialect import CardKind, held_by_records
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.gpu import ANY, WHOLE_MILLI, PreferredModels, name_part, names_model
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.node import NodeLock
from kubeshare_py.domain.quantity import (
    CARD_NAME,
    CLAIMED_CARDS,
    CLAIMED_MODELS,
    CLAIMED_UUIDS,
    HELD_BYTES,
    POD_CLAIMS,
)
from kubeshare_py.domain.request import ContainerClaim, GpuClaim, GpuRequest, InvalidRequest

# Names of Cambricon's MLUs in HAMi and in its ancestor, and the sizes of their units.
#
# HAMi's device is a part that Cambricon's own plugin makes (smlu): one `vmlu` with so many units of
# 256 MiB and percents of cores. The ancestor's is a part of an MLU370's memory, in MiB. Sources:
# pkg/device/cambricon/device.go of github.com/Project-HAMi/HAMi (v2.10.0) and of
# github.com/4paradigm/k8s-vgpu-scheduler.


#: The vendor of the cards, the word in a record of an assignment, and the beginning of a model.
MLU = "MLU"
#: Part of the models of which the ancestor shares the memory.
MLU370 = f"{ANY}370{ANY}"
#: How many percents of cores a card has.
CARD_CORES = 100

USE_TYPE, NO_TYPE = "cambricon.com/use-mlutype", "cambricon.com/nouse-mlutype"
USE_UUID, NO_UUID = "cambricon.com/use-gpuuuid", "cambricon.com/nouse-gpuuuid"
ASKS = frozenset({USE_TYPE, NO_TYPE, USE_UUID, NO_UUID})

#: What Cambricon's plugin reads of a pod: whether it has its part, and INDEX_CORES_UNITS.
ASSIGNED, PROFILE = "CAMBRICON_DSMLU_ASSIGNED", "CAMBRICON_DSMLU_PROFILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class MluNames:
    """The resources of one system: cards, memory in units of so many bytes, and percents of cores.

    `cores` is "" where they are not divided.
    """

    system: str
    count: str
    memory: str
    unit: int
    cores: str = ""

    @property
    def resources(self) -> frozenset[str]:
        """The names of all resources that the system has."""
        return frozenset({self.count, self.memory, self.cores} - {""})


SMLU = MluNames(
    system=HAMI,
    count="cambricon.com/vmlu",
    memory="cambricon.com/mlu.smlu.vmemory",
    unit=256 * MIB,
    cores="cambricon.com/mlu.smlu.vcore",
)
MLUNUM = MluNames(
    system=SEED, count="cambricon.com/mlunum", memory="cambricon.com/mlumem", unit=MIB
)
SYSTEMS = (SMLU, MLUNUM)

MLU_KEYS = {
    HAMI: VendorKeys(
        word=MLU,
        register="hami.io/node-mlu-register",
        handshake="hami.io/node-handshake-mlu",
        to_allocate="hami.io/cambricon-mlu-devices-to-allocate",
        allocated="hami.io/cambricon-mlu-devices-allocated",
    ),
    SEED: VendorKeys(
        word=MLU,
        register="4pd.io/node-mlu-register",
        handshake="4pd.io/node-handshake-mlu",
        to_allocate="hami.sh/vgpu-devices-to-allocate",
        allocated="hami.sh/vgpu-devices-allocated",
    ),
}

_FORM = re.compile("[0-9A-Za-z][0-9A-Za-z._-]*")


def mlu_uuid_problem(uuid: str) -> str:
    """Why this cannot be an MLU's uuid, to follow its name in a sentence; "" if it can.

    The ancestor's begin with `MLU-`, HAMi's are `NODE-cambricon-mlu-INDEX`.
    """
    if _FORM.fullmatch(uuid) and (uuid.startswith(f"{MLU}-") or "-cambricon-mlu-" in uuid):
        return ""
    return f"{uuid[:60]!r} is neither MLU-… nor NODE-cambricon-mlu-INDEX"


# The lock of a node on which Cambricon's own device plugin divides MLUs.
#
# Its value is a time in Go's RFC 3339. HAMi's scheduler writes it before it binds a pod with MLUs,
# and takes it over when it is two minutes old; the plugin removes it when it has given the pod its
# part (DsmluLockTime and LockNode of pkg/device/cambricon/device.go in
# github.com/Project-HAMi/HAMi).


DSMLU_LOCK = "cambricon.com/dsmlu.lock"
#: The age (s) at which it is freed.
DSMLU_OLDEST_S = 120.0
_DIALECT = "cambricon"


def dsmlu_locks(annotations: Mapping[str, str], offered: Collection[str]) -> tuple[NodeLock, ...]:
    """The lock of a node, none if the plugin does not divide its MLUs.

    `offered` are the names of the node's allocatable resources.
    """
    if SMLU.cores not in offered:
        return ()
    text = annotations.get(DSMLU_LOCK, "")
    return (NodeLock(dialect=_DIALECT, key=DSMLU_LOCK, text=text, names_owner=False),)


# What containers ask for of MLUs: how many, and memory and cores of each.
#
# Without memory they get all of it. With HAMi's names, cores are 100 if none are asked for, and 100
# take the card alone. The ancestor divides no cores: without memory a card is taken alone, and
# memory can be asked for of an MLU370 only.


_MILLI_OF_CORE = WHOLE_MILLI // CARD_CORES
_370 = MLU370.strip(ANY)


def read(pod: PodAsk, dialect: str) -> GpuRequest | InvalidRequest | None:
    """The request of a pod; None if no container asks for MLUs."""
    asked = {name for one in pod.containers for name, amount in one.amounts if amount}
    used = [names for names in SYSTEMS if asked & names.resources]
    if not used:
        return None
    if len(used) > 1:
        first, other = (min(asked & one.resources) for one in used)
        rule = f"and resources[{other}] are of two systems: a pod can only use one"
        return InvalidRequest(field=f"resources[{first}]", rule=rule)
    wishes = _wishes(pod.annotations)
    if isinstance(wishes, InvalidRequest):
        return wishes
    return _request(pod, used[0], wishes, dialect)


def _request(
    pod: PodAsk, names: MluNames, wishes: "_Wishes", dialect: str
) -> GpuRequest | InvalidRequest | None:
    claims, notes = [], [("", names.system)]
    for one in pod.containers:
        notes.append((str(one.container), ""))
        claim = _claim(one, names, wishes)
        if isinstance(claim, InvalidRequest):
            return claim
        if claim is not None:
            claims.append(ContainerClaim(claim=claim, container=one.container))
    if not claims:
        return None
    if not POD_CLAIMS.allows(len(claims)):
        rule = f"number of containers that ask for it {POD_CLAIMS.problem(len(claims))}"
        return InvalidRequest(field=f"resources[{names.count}]", rule=rule)
    return GpuRequest(
        claims=tuple(claims), dialect=dialect, guarantee=pod.guarantee, notes=tuple(notes)
    )


#: The models and cards that the pod's annotations accept, as fields of a claim.
_Wishes = tuple[PreferredModels, tuple[GpuUuid, ...], tuple[GpuUuid, ...]]


def _claim(
    container: ContainerAmounts, names: MluNames, wishes: _Wishes
) -> GpuClaim | InvalidRequest | None:
    amounts = dict(container.amounts)
    count, memory = amounts.get(names.count, 0), amounts.get(names.memory, 0)
    cores = amounts.get(names.cores, CARD_CORES) if names.cores else 0
    if not count:
        return None
    for field, amount, bound, value in (
        (names.count, count, CLAIMED_CARDS, count),
        (names.memory, memory * names.unit, HELD_BYTES, memory),
    ):
        rule = bound.problem(amount)
        if rule:
            return InvalidRequest(field=f"resources[{field}]", value=str(value), rule=rule)
    models, uuids, denied = wishes
    is_alone = cores >= CARD_CORES if names.cores else not memory
    return GpuClaim(
        count=count,
        milli=WHOLE_MILLI if is_alone else cores * _MILLI_OF_CORE,
        exclusive=is_alone,
        memory_bytes=memory * names.unit if memory else None,
        memory_milli=None if memory or is_alone else WHOLE_MILLI,
        preferred=_of_system(models, names, is_part=memory > 0),
        uuids=uuids,
        denied_uuids=denied,
        vendor=MLU,
    )


def _of_system(wished: PreferredModels, names: MluNames, *, is_part: bool) -> PreferredModels:
    """Of the accepted models those of one system: HAMi's are `MLU`, its ancestor's `MLU-…`.

    A node's plugin serves the resources of its own system only.
    """
    [accepted] = wished.tiers
    if names.system == HAMI:
        return replace(wished, denied=(*wished.denied, f"{MLU}-{ANY}"))
    if is_part:
        accepted = _of_mlu370s(accepted)
    longer = tuple(f"{one}-{ANY}" if names_model(one, MLU) else one for one in accepted)
    return replace(wished, tiers=(longer,))


def _of_mlu370s(accepted: Sequence[str]) -> tuple[str, ...]:
    """Parts of names that have one of these parts, and 370: before it, behind it, or within it."""
    if MLU in accepted:
        return (MLU370,)
    found = []
    for one in accepted:
        part = one.strip(ANY)
        joined = [part if part not in _370 else _370, f"{_370}{ANY}{part}", f"{part}{ANY}{_370}"]
        for common in range(1, len(_370)):
            if part.endswith(_370[:common]):
                joined.append(part + _370[common:])
            if part.startswith(_370[-common:]):
                joined.append(_370[:-common] + part)
        found += [f"{ANY}{text}{ANY}" for text in joined if _370 in text]
    return tuple(found)


def _wishes(annotations: Mapping[str, str]) -> _Wishes | InvalidRequest:
    """What the annotations say; a blank one says nothing."""
    found: dict[str, tuple[str, ...]] = {}
    for key in (USE_TYPE, NO_TYPE, USE_UUID, NO_UUID):
        found[key] = tuple(
            sorted({named.strip() for named in annotations.get(key, "").split(",")} - {""})
        )
    parts: dict[str, list[str]] = {USE_TYPE: [], NO_TYPE: []}
    for key, accepted_parts in parts.items():
        if not CLAIMED_MODELS.allows(len(found[key])):
            rule = f"number of types {CLAIMED_MODELS.problem(len(found[key]))}"
            return InvalidRequest(field=key, rule=rule)
        for text in found[key]:
            if not CARD_NAME.allows(len(text)):
                rule = f"length of a type {CARD_NAME.problem(len(text))}"
                return InvalidRequest(field=key, value=text, rule=rule)
            part = name_part(text.replace(" ", "-"))
            if part is None:
                return InvalidRequest(field=key, value=text, rule="is no part of a model's name")
            accepted_parts.append(f"{ANY}{part}{ANY}")
    for key in (USE_UUID, NO_UUID):
        if not CLAIMED_UUIDS.allows(len(found[key])):
            rule = f"number of cards {CLAIMED_UUIDS.problem(len(found[key]))}"
            return InvalidRequest(field=key, rule=rule)
    accepted = tuple(parts[USE_TYPE]) or (MLU,)
    models = PreferredModels(tiers=(accepted,), denied=tuple(parts[NO_TYPE]))
    return models, _uuids(found[USE_UUID]), _uuids(found[NO_UUID])


def _uuids(texts: Sequence[str]) -> tuple[GpuUuid, ...]:
    return tuple(GpuUuid(text) for text in texts)


# Cambricon's MLUs as a dialect: pods written for HAMi, or for its ancestor, ask for them.


#: The ServiceAccount of Cambricon's device plugin.
_PLUGIN = "kube-system/cambricon-device-plugin"
#: The annotations that HAMi writes whatever the vendor.
_HAMI = HAMI_SYSTEMS[HAMI]
_CORES = 100
_MILLI_OF_RECORDED_CORE = WHOLE_MILLI // _CORES
_COUNTS = frozenset(one.count for one in SYSTEMS)
_MLUS = CardKind(MLU, lambda name: not mlu_uuid_problem(name))


class Cambricon(Dialect):
    """Containers ask for MLUs, and for memory and cores of each.

    A pod's notes are the system in whose words it asks, and its containers in order.
    """

    name = "cambricon"
    words = Words(title="Cambricon MLU", documentation="https://project-hami.io/docs")

    def __init__(self) -> None:
        """It has no settings."""
        self.owns = OwnedKeys(
            annotations=ASKS, resources=frozenset().union(*(one.resources for one in SYSTEMS))
        )
        own = MLU_KEYS[HAMI]
        self.result_keys = ResultKeys(
            scheduler=frozenset({PROFILE, own.allocated}) | _HAMI.on_pods,
            device_plugin=dict.fromkeys((ASSIGNED, own.to_allocate), _PLUGIN),
            labels=frozenset({_HAMI.node}),
            common=_HAMI.on_pods,
        )

    def read(self, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
        """See `read`."""
        return read(pod, self.name)

    def visibility(self, pod: PodAsk) -> CardVisibility:
        """No NVIDIA card: MLUs come to containers by their own device plugin."""
        return CardVisibility.VOID

    def results(self, allocation: Allocation, node: PlacedNode) -> Mapping[str, str]:
        """The node and when, each container's cards, twice, and what Cambricon's plugin reads.

        The last is for HAMi's names alone. Its profile has one card, the pod's first.
        """
        (_, system), *containers = node.notes
        held = {str(one.container): one.cards for one in allocation.containers}
        slots = [
            tuple(_record(card) for card in held.get(container, ())) for container, _ in containers
        ]
        own = MLU_KEYS[HAMI]
        text = encode(slots) if system == HAMI else encode_as_seed(slots)
        found = _HAMI.bound(node.name, node.decided_at_ns)
        found |= {own.to_allocate: text, own.allocated: text}
        if system == HAMI and allocation.cards:
            first = allocation.cards[0]
            known = node.cards.get(first.uuid)
            record = _record(first)
            units = record.memory_mib * MIB // SMLU.unit
            index = known.index if known is not None else 0
            found |= {ASSIGNED: "false", PROFILE: f"{index}_{record.cores}_{units}"}
        return found

    def read_back(self, pod: PodAsk) -> Allocation | UnreadableHolding | None:
        """What a pod holds that HAMi's scheduler bound."""
        asking = {
            one.container: count
            for one in pod.containers
            if (count := sum(number for name, number in one.amounts if name in _COUNTS))
        }
        return held_by_records(pod, MLU_KEYS[HAMI].allocated, asking, _MLUS)


def _record(card: CardCharge) -> DeviceRecord:
    return DeviceRecord(
        card.uuid, MLU, card.memory_bytes // MIB, card.milli // _MILLI_OF_RECORDED_CORE
    )
