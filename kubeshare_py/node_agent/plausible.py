"""Removes implausible values from readings, and keeps the others.

A failing driver may answer with arbitrary numbers, such as 2**64 - 1.
"""

from collections.abc import Iterator
from dataclasses import replace

from kubeshare_py.domain.bounds import CARD_BYTES, CARD_INDEX, CARD_NAME, LINK_SPEED, NUMA_NODE
from kubeshare_py.domain.card_reading import CardReading, NodeReading, OwnLink, Unanswered
from kubeshare_py.domain.identity import GpuUuid


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
