"""Readings of a vendor's driver: the interface, plausible values, memory that is the node's."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from kubeshare_py.domain.card_reading import (
    CardReading,
    DriverError,
    NodeReading,
    OwnLink,
    Unanswered,
)
from kubeshare_py.domain.gpu import name_part, names_model
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.quantity import CARD_BYTES, CARD_INDEX, CARD_NAME, LINK_SPEED, NUMA_NODE

# The interface to a vendor's driver that the collector needs.


class CardReader(Protocol):
    """Asks the driver of one kind of cards. Calls may take long, or never return."""

    def read(self) -> NodeReading:
        """All cards now. What the driver does not report is None; failed answers are `unanswered`.

        Raises OSError if nothing can be read at all; the next call starts afresh.
        """

    def wait(self, timeout_s: float) -> tuple[DriverError, ...] | None:
        """The driver errors within `timeout_s` (s); returns as soon as there is one.

        None, and at once, if the driver does not report errors.
        """


# Removes implausible values from readings, and keeps the others.
#
# A failing driver may answer with arbitrary numbers, such as 2**64 - 1.


def plausible(reading: NodeReading) -> NodeReading:
    """The reading without implausible values; each of them counts as an unanswered question.

    A card with an implausible memory, index or name is unreadable. Of several with one uuid the
    first is kept: a uuid is all that tells cards apart.
    """
    unanswered: list[Unanswered] = []
    cards: list[CardReading] = []
    single, unreadable = _without_doubles(reading, unanswered)
    for card in single:
        problems = [*_problems(card)]
        unanswered += problems
        if problems:
            index = card.index if CARD_INDEX.allows(card.index) else 0
            model = card.model[: CARD_NAME.most]
            unreadable.append(replace(card, memory_bytes=0, index=index, model=model))
        else:
            cards.append(_joined(card, unanswered))
    if not unanswered:
        return reading
    return replace(
        reading,
        cards=tuple(cards),
        unreadable=tuple(unreadable),
        unanswered=(*reading.unanswered, *unanswered),
    )


def _without_doubles(
    reading: NodeReading, unanswered: list[Unanswered]
) -> tuple[list[CardReading], list[CardReading]]:
    """The cards and the unreadable ones, one for each uuid."""
    known: dict[GpuUuid, CardReading] = {}
    for card in (*reading.cards, *reading.unreadable):
        first = known.setdefault(card.uuid, card)
        if first is not card:
            error = f"cards {first.index} and {card.index} have the same"
            uuid = card.uuid[: CARD_NAME.most]
            unanswered.append(Unanswered(card=uuid, question="uuid", error=error))
    kept = {id(card) for card in known.values()}
    return (
        [card for card in reading.cards if id(card) in kept],
        [card for card in reading.unreadable if id(card) in kept],
    )


def _problems(card: CardReading) -> Iterator[Unanswered]:
    # A divided card is not given away: its memory need not be known.
    memory_bytes = card.memory_bytes or (CARD_BYTES.least if card.divided else 0)
    for question, bound, amount in (
        ("memory", CARD_BYTES, memory_bytes),
        ("index", CARD_INDEX, card.index),
        ("length of the uuid", CARD_NAME, len(card.uuid)),
        ("length of the model", CARD_NAME, len(card.model)),
    ):
        problem = bound.problem(amount)
        if problem:
            uuid = card.uuid[: CARD_NAME.most]
            yield Unanswered(card=uuid, question=question, error=problem)


def _joined(card: CardReading, unanswered: list[Unanswered]) -> CardReading:
    """The card without implausible links and NUMA nodes."""
    problem = NUMA_NODE.problem(card.numa_node or 0)
    if problem:
        unanswered.append(Unanswered(card=card.uuid, question="NUMA node", error=problem))
        card = replace(card, numa_node=None)
    speeds = sum(link.speed for link in card.links)
    problem = LINK_SPEED.problem(speeds) or _odd_link(card.links)
    if problem:
        unanswered.append(Unanswered(card=card.uuid, question="speed of links", error=problem))
        card = replace(card, links=())
    problem = LINK_SPEED.problem(card.bus_speed or 0)
    if problem:
        unanswered.append(Unanswered(card=card.uuid, question="speed of the bus", error=problem))
        card = replace(card, bus_speed=None)
    return card


def _odd_link(links: tuple[OwnLink, ...]) -> str:
    """A speed below 0 among links whose sum is plausible."""
    return next((found for link in links if (found := LINK_SPEED.problem(link.speed))), "")


# Memory of cards that use the node's: how much of it pods may have, by model.
#
# NVML has no memory to report for GB10 (DGX Spark) and Jetsons: their GPU uses the CPU's memory.


_RULE = re.compile(r"(?P<model>[^=]+)=(?P<amount>[0-9]+)(?P<unit>%|Mi|Gi)")
_UNITS = {"Mi": 2**20, "Gi": 2**30}
#: Percentages of the node's memory are rounded down to whole MiB: what a kernel keeps for itself
#: differs a little from boot to boot, and a card's capacity should not.
_STEP = 2**20
_WHOLE_PERCENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRule:
    """How much memory (bytes) pods may have of a card whose name has the words of `model`."""

    model: str
    memory_bytes: int


def memory_rules(text: str, node_bytes: int) -> tuple[MemoryRule, ...]:
    """The rules of a text such as "GB10=80%,Orin=24Gi,*=8192Mi".

    `node_bytes` is the node's memory. Raises ValueError with what is wrong as its text.
    """
    return tuple(_rule(part.strip(), node_bytes) for part in text.split(",")) if text else ()


def with_shared_memory(reading: NodeReading, rules: Sequence[MemoryRule]) -> NodeReading:
    """The reading with memory for cards that share the node's, by the first rule for their model.

    Cards whose driver reports their memory, or refuses to, keep what they have.
    """
    given = [_with_memory(card, rules) for card in reading.unreadable]
    if not any(card.memory_bytes for card in given):
        return reading
    return replace(
        reading,
        cards=(*reading.cards, *(card for card in given if card.memory_bytes)),
        unreadable=tuple(card for card in given if not card.memory_bytes),
    )


def _rule(text: str, node_bytes: int) -> MemoryRule:
    parts = _RULE.fullmatch(text)
    model = name_part(parts["model"]) if parts else None
    if parts is None or model is None:
        raise ValueError(f"{text!r} is not like GB10=80%, GB10=96Gi or GB10=8192Mi")
    amount = int(parts["amount"])
    if parts["unit"] != "%":
        memory_bytes = amount * _UNITS[parts["unit"]]
    elif amount > _WHOLE_PERCENT:
        raise ValueError(f"{text!r} is more than all of the node's memory")
    else:
        memory_bytes = node_bytes * amount // _WHOLE_PERCENT // _STEP * _STEP
    if not CARD_BYTES.allows(memory_bytes):
        raise ValueError(f"{text!r} is no amount that a card can have")
    return MemoryRule(model=model, memory_bytes=memory_bytes)


def _with_memory(card: CardReading, rules: Sequence[MemoryRule]) -> CardReading:
    if not card.shares_memory or not card.model:
        return card
    fitting = (rule.memory_bytes for rule in rules if names_model(rule.model, card.model))
    return replace(card, memory_bytes=next(fitting, 0))
