"""What a pod holds that HAMi's scheduler bound, or its ancestor's, by its annotation.

Releases differ in their slots: those before init containers counted have none for them, some leave
out the slots of containers without cards, and the ancestor has one for all containers. Whose a slot
is follows from which containers ask.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from kubeshare_py.dialects.dialect import PodAsk, UnreadableHolding
from kubeshare_py.dialects.hami.encoding import DeviceRecord, Slot, decode, first_fields
from kubeshare_py.dialects.hami.keys import (
    CARD_CORES,
    MIB,
    NVIDIA,
    NVIDIA_KEYS,
    HamiSettings,
)
from kubeshare_py.dialects.hami.request import asked_by
from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.bounds import CARD_NAME, CARDS_OF_NODE, HELD_BYTES, HELD_MILLI
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.printable import value_text
from kubeshare_py.domain.request import ContainerRef, InvalidRequest

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
