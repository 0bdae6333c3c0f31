"""Finds gangs that the cluster could not hold even if it were empty, and says how much it has.

What counts as being there is defined in `impossible`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import Columns, IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.claims.claim_fit import names_cards
from kubeshare_py.framework.impossible import CardsThere, cards_there, impossible_sentence
from kubeshare_py.framework.points import MAX_PODS


def too_large(
    shapes: Iterable[tuple[Shape, int]],
    need: int,
    ledger: Ledger,
    within: str = "",
    places: Sequence[IntArray] = (),
) -> str:
    """A sentence if no such cluster, or none of its domains, holds `need` of these pods; else "".

    `within` is the label of domains, whose rows are `places`, (k,) int64 each; with "" pods may be
    anywhere.
    """
    kinds = Counter(dict(shapes))
    columns = ledger.columns
    if not all(shape.claims for shape in kinds) or not columns.present.any():
        return ""
    claims = {claim for shape in kinds for claim in shape.claims}
    there = {claim: cards_there(claim, columns) for claim in claims}
    somewhere = list(places) if within else [np.flatnonzero(columns.present)]
    has = f"the largest {within} has" if within else "the cluster has"
    alike = {claim for claim in claims if claim.one_model}
    for asking in [alike, claims] if alike and alike != claims else [claims]:
        parts = {claim: there[claim] for claim in asking}
        cards = [_cards_in(columns, parts, rows) for rows in somewhere]
        much = _too_much(_asked(kinds, need, asking), asking, max(cards, default=(0, 0)))
        if much:
            of = " of one model" if asking != claims else ""
            asks, there_is = much
            return impossible_sentence(f"they ask for {asks}{of} in all; {has} {there_is}", ledger)
    room = max((_room(kinds, columns, there, rows) for rows in somewhere), default=0)
    if room >= need:
        return ""
    return impossible_sentence(f"if no pod held anything {has} room for {room} of them", ledger)


def _too_much(
    asked: int, claims: Collection[GpuClaim], cards: tuple[int, int]
) -> tuple[str, str] | None:
    """What these claims ask for and what there is, if that is less; the latter as `_cards_in`."""
    most, milli = cards
    if asked <= milli:
        return None
    there = str(most)
    if all(claim.one_model for claim in claims):
        there = f"at most {most} of one model"
    elif any(_is_choosy(claim) for claim in claims):
        there = f"{most} that they may be put on"
    if milli != most * WHOLE_MILLI:
        there += f", with scaled cores for {milli / WHOLE_MILLI:g}"
    return f"{asked / WHOLE_MILLI:g} GPUs", there


def _asked(kinds: Counter[Shape], need: int, claims: Collection[GpuClaim]) -> int:
    """What the `need` smallest of them ask for by these claims, in milli."""
    sizes = sorted(
        sum(_least(claim) for claim in shape.claims if claim in claims)
        for shape in kinds.elements()
    )
    return sum(sizes[:need])


def _least(claim: GpuClaim) -> int:
    """The least that a claim asks for on any model, in milli."""
    if claim.share_of:
        return claim.count * min((milli for _, milli in claim.shares), default=claim.milli)
    return claim.count * (WHOLE_MILLI if claim.exclusive else claim.milli)


def _is_choosy(claim: GpuClaim) -> bool:
    named = bool(claim.models) or claim.preferred is not None or bool(claim.share_of)
    return named or bool(claim.memory_bytes) or names_cards(claim)


def _cards_in(
    columns: Columns, there: dict[GpuClaim, CardsThere], rows: IntArray
) -> tuple[int, int]:
    """How many cards of these rows at least one of the claims may be put on, and their milli.

    A card counts as one GPU at least, because a claim of whole cards takes all of any card. If all
    claims ask for one model, those of the model with the most.
    """
    union = np.any([cards.fitting[rows] for cards in there.values()], axis=0)
    milli = np.maximum(columns.capacity_milli[rows][union], WHOLE_MILLI)
    if not all(claim.one_model for claim in there):
        return int(union.sum()), int(milli.sum())
    models = columns.model[rows][union]
    if not len(models):
        return 0, 0
    sums = [(int(milli[models == model].sum()), model) for model in np.unique(models).tolist()]
    most, model = max(sums)
    return int((models == model).sum()), most


def _room(
    kinds: Counter[Shape], columns: Columns, there: dict[GpuClaim, CardsThere], rows: IntArray
) -> int:
    """An upper bound of how many of these pods fit on these rows, summed over shapes."""
    return sum(
        min(count, int(_room_on(shape, columns, there, rows).sum()))
        for shape, count in kinds.items()
    )


def _room_on(
    shape: Shape, columns: Columns, there: dict[GpuClaim, CardsThere], rows: IntArray
) -> IntArray:
    """An upper bound of how many pods of a shape fit on each of these rows, (k,)."""
    rooms = [_claims_on(claim, columns, there[claim].fitting[rows], rows) for claim in shape.claims]
    room: IntArray = np.min(rooms, axis=0)
    for name, amount in shape.resources:
        column = columns.resources.get(name)
        if amount > 0 and column is not None:
            room = np.minimum(room, columns.allocatable[rows, column] // amount)
    return room


def _claims_on(
    claim: GpuClaim, columns: Columns, fitting: NDArray[np.bool_], rows: IntArray
) -> IntArray:
    """An upper bound of how many such claims fit on each of these rows, (k,).

    `fitting` are the cards that one may be put on, (k, width).
    """
    each: IntArray | int = 1
    if not claim.exclusive:
        least = _least(claim) // claim.count
        each = columns.capacity_milli[rows] // least if least else MAX_PODS
    on_card = np.where(fitting, each, 0)
    if claim.asks_memory and not claim.exclusive:
        capacity = columns.capacity_bytes[rows]
        asked = capacity * (claim.memory_milli or 0) // WHOLE_MILLI + (claim.memory_bytes or 0)
        on_card = np.where(
            asked > 0, np.minimum(on_card, capacity // np.maximum(asked, 1)), on_card
        )
    room: IntArray = on_card.sum(1) // claim.count
    return room
