"""HAMi as a dialect: what it writes of a placement, and what it reads of pods that HAMi bound."""

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from kubeshare_py.dialects.agent_annotation import serves
from kubeshare_py.dialects.card_visibility import CardVisibility, ContainerRule
from kubeshare_py.dialects.dialect import (
    Admitted,
    Dialect,
    NewContainer,
    NodeKeys,
    OwnedKeys,
    PlacedNode,
    PodAsk,
    ResultKeys,
    UnreadableHolding,
    Words,
)
from kubeshare_py.dialects.hami.annotations import (
    ALLOCATING,
    ASKS,
    CARD_CORES,
    GPU_NODE,
    GPU_NODE_ON,
    HAMI,
    MIB,
    MIG_ALLOCATIONS,
    NVIDIA,
    NVIDIA_KEYS,
    SEED,
    SETTINGS,
    SUCCESS,
    SYSTEMS,
    DeviceRecord,
    HamiSettings,
    Slot,
    Slots,
    decode,
    encode,
    encode_as_seed,
    first_fields,
)
from kubeshare_py.dialects.hami.request import (
    admission_additions,
    asked_by,
    quota_names,
    read,
    read_note,
)
from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.node import slices_of
from kubeshare_py.domain.pod import NodeRule
from kubeshare_py.domain.printable import value_text
from kubeshare_py.domain.quantity import CARD_NAME, CARDS_OF_NODE, HELD_BYTES, HELD_MILLI
from kubeshare_py.domain.request import ContainerRef, GpuRequest, InvalidRequest
from kubeshare_py.domain.values import replace

# What a pod holds that HAMi's scheduler bound, or its ancestor's, by its annotation.
#
# Releases differ in their slots: those before init containers counted have none for them, some
# leave out the slots of containers without cards, and the ancestor has one for all containers.
# Whose a slot is follows from which containers ask.


_MILLI_OF_CORE = WHOLE_MILLI // CARD_CORES
#: What older releases put behind the uuid of a card in mode `mig`: `GPU-…[template-slot]`.
_INSTANCE = "["
_MAX_SHOWN = 64


@dataclass(frozen=True, slots=True)
class CardKind:
    """The cards of one vendor: the word in their records, and whether a name is one of theirs."""

    vendor: str
    is_card: Callable[[str], object]


#: NVIDIA's cards, and instances of them.
GPUS = CardKind(NVIDIA, re.compile("(GPU|MIG)-[0-9A-Za-z/-]{1,200}").fullmatch)


def read_back(pod: PodAsk, settings: HamiSettings) -> Allocation | UnreadableHolding | None:
    """The cards of a bound pod; None if it has no annotation."""
    for keys in NVIDIA_KEYS.values():
        if pod.annotations.get(keys.allocated, "").strip(":;"):
            return held_by_records(pod, keys.allocated, _asking(pod, settings), GPUS)
    return None


def held_by_records(
    pod: PodAsk, annotation: str, asking: Mapping[ContainerRef, int], kind: CardKind
) -> Allocation | UnreadableHolding | None:
    """The cards of one kind in an annotation of a bound pod; None if it has no records of them.

    `asking` are the containers that ask, in order, with how many cards each asks for. Of an
    annotation that cannot be read, the cards that it names if each of its records names one.
    """
    text = pod.annotations.get(annotation, "")
    if not text.strip(":;"):
        return None
    slots = decode(text)
    if isinstance(slots, str):
        return UnreadableHolding(f"{annotation}: {slots}", _named(text, kind))
    if not any(slots):
        shown = value_text(text, _MAX_SHOWN)
        return UnreadableHolding(f"{annotation}: {shown} has no records")
    sidecars = frozenset(one.container for one in pod.containers if one.sidecar)
    found = _held([slot for slot in slots if slot], asking, sidecars, kind.vendor)
    if isinstance(found, str):
        return UnreadableHolding(f"{annotation}: {found}", _named(text, kind))
    return found


def _named(text: str, kind: CardKind) -> tuple[GpuUuid, ...]:
    """The cards that an unreadable text names; none if a record of it names none."""
    names = [name.partition(_INSTANCE)[0] for name in first_fields(text)]
    if not all(map(kind.is_card, names)) or not CARDS_OF_NODE.allows(len(names)):
        return ()
    return tuple(map(GpuUuid, dict.fromkeys(names)))


def _asking(pod: PodAsk, settings: HamiSettings) -> Mapping[ContainerRef, int]:
    """The containers that ask, in order, with how many cards each asks for."""
    asked = asked_by(pod.containers, settings)
    if isinstance(asked, InvalidRequest):
        return {}
    return {container: amounts.count for container, amounts in asked}


def _held(
    slots: Sequence[Slot],
    asking: Mapping[ContainerRef, int],
    sidecars: AbstractSet[ContainerRef],
    vendor: str,
) -> Allocation | str | None:
    charges = [[_charge(record) for record in slot if record.vendor == vendor] for slot in slots]
    wrong = next((one for slot in charges for one in slot if isinstance(one, str)), None)
    if wrong is not None:
        return wrong
    held = [[one for one in slot if isinstance(one, CardCharge)] for slot in charges]
    held = [slot for slot in held if slot]
    if not held:
        return None
    try:
        claims = _collapsed(_by_container(held, asking), sidecars)
        slots_of = [one.cards for one in claims] or held
        cards = summed(one for slot in slots_of for one in slot)
    except ValueError as error:
        return str(error)
    over = next((card for card in cards if not HELD_MILLI.allows(card.milli)), None)
    if over is not None:
        return f"the cores of {over.uuid} together are more than a GPU has"
    return Allocation(token=DecisionToken(""), cards=cards, claims=claims)


def _collapsed(
    by_container: Mapping[ContainerRef, Sequence[CardCharge]],
    sidecars: AbstractSet[ContainerRef],
) -> tuple[ClaimCharge, ...]:
    """The containers' parts, of init containers only what others do not hold of the same card.

    They end before the others start, so that of each card the pod holds the larger amounts.
    """
    plain = {one for one in by_container if one.init and one not in sidecars}
    running = summed(
        card for one, slot in by_container.items() if one not in plain for card in slot
    )
    most = {card.uuid: (card.milli, card.memory_bytes) for card in running}
    claims = []
    for container, slot in by_container.items():
        cards = summed(slot)
        if container in plain:
            more = []
            for card in cards:
                milli, memory = most.get(card.uuid, (0, 0))
                most[card.uuid] = max(milli, card.milli), max(memory, card.memory_bytes)
                more.append(
                    replace(
                        card,
                        milli=max(card.milli - milli, 0),
                        memory_bytes=max(card.memory_bytes - memory, 0),
                    )
                )
            cards = tuple(more)
        claims.append(ClaimCharge(container=container, cards=cards))
    return tuple(claims)


def _by_container(
    held: Sequence[list[CardCharge]], asking: Mapping[ContainerRef, int]
) -> Mapping[ContainerRef, list[CardCharge]]:
    """Whose the cards are; empty if that is not known, and all containers may have all."""
    if len(held) == len(asking):
        return dict(zip(asking, held, strict=True))
    every = [card for slot in held for card in slot]
    if len(held) > 1 or len(every) != sum(asking.values()):
        return {}
    found, first = {}, 0
    for container, count in asking.items():
        found[container] = every[first : first + count]
        first += count
    return found


def _charge(record: DeviceRecord) -> CardCharge | str:
    """What a record holds; a sentence if it names no card, or an amount that no card has."""
    uuid = record.uuid.partition(_INSTANCE)[0]
    milli, memory = record.cores * _MILLI_OF_CORE, record.memory_mib * MIB
    if not CARD_NAME.allows(len(uuid)):
        return f"{str(record)!r} names no GPU"
    if not HELD_MILLI.allows(milli) or not HELD_BYTES.allows(memory):
        return f"{str(record)!r} has an amount that no GPU has"
    return CardCharge(GpuUuid(uuid), milli, memory, exclusive=record.cores >= CARD_CORES)


# The annotations by which HAMi's device plugin, monitor and scheduler know what a pod got.


def results(allocation: Allocation, node: PlacedNode, settings: HamiSettings) -> dict[str, str]:
    """The node, the moment of the decision, and each container's cards, twice.

    HAMi's device plugin takes the cards from `to_allocate`, empties that container by container,
    and then writes the phase `success`. The node agent takes them from the allocation instead, and
    has no right to write on pods: where it serves the devices, both are written here as the plugin
    would leave them.
    """
    system, vendor = settings.system, settings.nvidia
    write = encode_as_seed if settings.profile == SEED else encode
    slots = slots_of(allocation, node, vendor.word)
    is_ours = settings.count in node.served
    return {
        **system.bound(node.name, node.decided_at_ns, SUCCESS if is_ours else ALLOCATING),
        vendor.to_allocate: write(((),) * len(slots) if is_ours else slots),
        vendor.allocated: write(slots),
    }


def slots_of(allocation: Allocation, node: PlacedNode, vendor: str) -> Slots:
    """The records of all containers of the pod, init containers first."""
    held = {str(one.container): one.cards for one in allocation.containers}
    return tuple(
        tuple(_record(card, note, node, vendor) for card in held.get(container, ()))
        for container, note in node.notes
    )


def _record(card: CardCharge, note: str, node: PlacedNode, vendor: str) -> DeviceRecord:
    asked, known = read_note(note), node.cards.get(card.uuid)
    capacity = card.memory_bytes if known is None else known.memory_bytes
    if known is None and not asked.memory_mib:
        # A card that left its node is held with what it was charged.
        return DeviceRecord(card.uuid, vendor, max(capacity // MIB, 1), asked.cores)
    return DeviceRecord(card.uuid, vendor, asked.mib_of(capacity), asked.cores)


# HAMi as a dialect, and 4paradigm's vGPU scheduler as a profile of it.


class Hami(Dialect):
    """Containers ask for parts of cards: how many cards, and memory and cores of each.

    Its arguments are those of `HamiSettings`. Annotations of both systems are read, those of the
    profile's are written.
    """

    name = "hami"
    words = Words(title="HAMi", documentation="https://project-hami.io/docs")
    #: HAMi's device plugin runs on nodes with this label.
    node_rules = (NodeRule(GPU_NODE, (GPU_NODE_ON,)),)

    def __init__(self, **settings: Any) -> None:
        """Raises ValueError for settings that are not known, or have no such value."""
        unknown = sorted(settings.keys() - {*SETTINGS})
        if unknown:
            raise ValueError(f"{unknown[0]}: there are {', '.join(SETTINGS)}")
        own = self.settings = HamiSettings(**settings)
        self.quota_names = quota_names(own)
        self.owns = OwnedKeys(
            annotations=ASKS | own.resources,
            resources=own.resources - {own.count},
            contested=frozenset({own.count}),
        )
        systems, vendors = SYSTEMS.values(), NVIDIA_KEYS.values()
        self.result_keys = ResultKeys(
            scheduler=frozenset({MIG_ALLOCATIONS}).union(
                *(one.of_pods for one in systems), (one.allocated for one in vendors)
            ),
            device_plugin=dict.fromkeys(
                (
                    *(one.bind_phase for one in systems),
                    *(one.to_allocate for one in vendors),
                ),
                own.device_plugin,
            ),
            labels=frozenset({own.system.node}),
            common=SYSTEMS[HAMI].on_pods,
        )
        self.container_rules = tuple(
            ContainerRule(resource, CardVisibility.SHARE)
            for resource in (own.count, own.memory, own.memory_percentage, own.cores)
        )

    def read(self, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
        """See `read`."""
        return read(pod, self.settings, self.name)

    def admitted(self, containers: Sequence[NewContainer], *, has_node: bool) -> Admitted | str:
        """See `admission_additions`."""
        return admission_additions(containers, self.settings, has_node=has_node)

    def results(self, allocation: Allocation, node: PlacedNode) -> Mapping[str, str]:
        """See `results`."""
        return results(allocation, node, self.settings)

    def read_back(self, pod: PodAsk) -> Allocation | UnreadableHolding | None:
        """See `read_back`."""
        return read_back(pod, self.settings)

    def owns_on(self, resource: str, node: NodeKeys) -> bool:
        """Whether the node's devices of this name are slices of its cards.

        They are HAMi's if its device plugin registered cards, and ours if the node's agent says so.
        """
        if any(one.register in node.annotations for one in NVIDIA_KEYS.values()):
            return True
        return serves(node.annotations, slices_of(resource))
