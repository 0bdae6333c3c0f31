"""A node's cards from the annotation in which HAMi's device plugin registers them.

Memory is what the plugin lets pods hold in all: it multiplies a card's own memory by its setting
`deviceMemoryScaling` first, which the annotation does not repeat. Cores are hundredths of a card,
multiplied by `deviceCoreScaling`. `count` is the most pods on a card. Encodings:
`dialects/hami/register`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kubeshare_py.dialects.hami.keys import CARD_CORES, MIB, MODE_MIG
from kubeshare_py.dialects.hami.register import RegisteredCard, read_register
from kubeshare_py.domain.bounds import CARDS_OF_NODE
from kubeshare_py.domain.gpu import WHOLE_MILLI, Gpu
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.printable import value_text
from kubeshare_py.inventory.card_uuid import uuid_problem

#: What the ancestor writes before a product name that begins with the vendor itself.
_TWICE, _ONCE = "NVIDIA-NVIDIA-", "NVIDIA-"
_MILLI_OF_CORE = WHOLE_MILLI // CARD_CORES
_MAX_SHOWN = 64


@dataclass(frozen=True, slots=True)
class RegisteredCards:
    """The cards of one annotation by index, and a sentence about each that is used otherwise."""

    cards: tuple[Gpu, ...]
    problems: tuple[str, ...] = ()


def registered_cards(
    text: str, problem_of_uuid: Callable[[str], str] = uuid_problem
) -> RegisteredCards | str:
    """The cards of an annotation; a sentence if it cannot be read at all.

    A card that no card can be is left out. One in MIG mode, or on which no pod may be, is there and
    takes no pods. `problem_of_uuid` says what is wrong with a uuid, "" if nothing.
    """
    listed = read_register(text)
    if isinstance(listed, str):
        return listed
    cards: dict[GpuUuid, Gpu] = {}
    problems: list[str] = []
    for position, one in enumerate(_numbered(listed)):
        shown = f"[{position}]: {value_text(one.uuid, _MAX_SHOWN)}"
        if len(cards) == CARDS_OF_NODE.most:
            number = CARDS_OF_NODE.problem(max(len(listed), CARDS_OF_NODE.most + 1))
            problems.append(f"number of cards {number}: the first are used")
            break
        if one.uuid in cards:
            problems.append(f"{shown} is there twice")
            continue
        form = problem_of_uuid(one.uuid)
        card = _card(one) if not form else f"uuid {form}"
        if isinstance(card, str):
            problems.append(f"{shown}: {card}: left out")
            continue
        cards[card.uuid] = card
        if remark := _remark(one):
            problems.append(f"{shown}: {remark}: takes no pods")
    ordered = sorted(cards.values(), key=lambda card: (card.index, card.uuid))
    return RegisteredCards(tuple(ordered), tuple(problems))


def _numbered(listed: Sequence[RegisteredCard]) -> Sequence[RegisteredCard]:
    """The cards with their places as indices if none has one: the ancestor's records have none."""
    if any(one.index for one in listed):
        return listed
    return [_with_index(one, place) for place, one in enumerate(listed)]


def _with_index(card: RegisteredCard, index: int) -> RegisteredCard:
    return RegisteredCard(
        uuid=card.uuid, index=index, count=card.count, memory_mib=card.memory_mib,
        cores=card.cores, type=card.type, numa=card.numa, mode=card.mode,
        mig_profiles=card.mig_profiles, health=card.health,
    )  # fmt: skip


def _card(one: RegisteredCard) -> Gpu | str:
    """The card, or what is wrong with it. Cores of 0 mean that the plugin does not divide them."""
    try:
        return Gpu(
            uuid=GpuUuid(one.uuid),
            index=one.index,
            model=_model(one.type),
            memory_bytes=one.memory_mib * MIB,
            healthy=one.health and not _remark(one),
            max_tenants=max(one.count, 0),
            cores_scaling=one.cores * _MILLI_OF_CORE if one.cores else WHOLE_MILLI,
            numa_node=one.numa if one.numa >= 0 else None,
        )
    except ValueError as error:
        return str(error)


def _remark(one: RegisteredCard) -> str:
    """Why the card takes no pods, though it may be healthy; "" if it does."""
    if one.mode == MODE_MIG:
        return "its mode is mig, and its plugin makes instances only for HAMi's scheduler"
    return "no pod may be on it, its count is 0" if one.count <= 0 else ""


def _model(kind: str) -> str:
    model = kind.replace(" ", "-")
    return f"{_ONCE}{model[len(_TWICE) :]}" if model.startswith(_TWICE) else model
