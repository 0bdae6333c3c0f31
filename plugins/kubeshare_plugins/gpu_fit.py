"""CardFilter: the card is there, healthy, not held exclusively, and has share and memory left."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from kubeshare_py.domain.request import TOO_MUCH
from kubeshare_py.framework.claim_fit import (
    IS_CORDONED,
    KEPT_FOR_NATIVE,
    NO_GPU,
    NO_MEMORY,
    NO_SHARE,
    NOT_HEALTHY,
    OTHER_EXCLUSION,
    OTHER_NAME,
    OTHER_SIZE,
    OTHER_VENDOR,
    RESERVED,
    TOO_MANY_TENANTS,
    asked_bytes,
    asked_milli,
    card_shortfalls,
    fits_but_for_reservations,
    fits_claim,
    fits_name,
    flags_for,
    has_size,
    headroom_for,
    never_texts,
    shares_exclusion,
)
from kubeshare_py.plugin import (
    ABSENT,
    CORDONED,
    CROWDED,
    EXCLUDING,
    EXCLUSIVE,
    FLAG_VALUES,
    FOREIGN,
    HELD_BACK,
    TOO_FEW_GPUS,
    UNHEALTHY,
    CardPredicate,
    GpuClaim,
    Ground,
    IntArray,
    ModelTable,
    ReasonTable,
    RowHeadroom,
    Rows,
    Shape,
    Shortfall,
)


class GpuFit:
    """Each card must have free what the claim asks for. Reasons go from near miss to far."""

    name = "GpuFit"
    guards = Ground.CARDS

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardPredicate | None:
        """Exclusive claims need idle cards; shared ones need share and memory."""
        claim = shape.claim
        if claim is None:
            return None
        reserved = reasons.register(self.name, RESERVED)
        memory = reasons.register(self.name, NO_MEMORY)
        share = reasons.register(self.name, NO_SHARE)
        excluded = reasons.register(self.name, OTHER_EXCLUSION)
        crowded = reasons.register(self.name, TOO_MANY_TENANTS)
        native = reasons.register(self.name, KEPT_FOR_NATIVE)
        unhealthy = reasons.register(self.name, NOT_HEALTHY, resolvable=False)
        never = _never(claim, reasons)
        size = 0
        if claim.card_bytes is not None:
            size = reasons.register(self.name, OTHER_SIZE, resolvable=False)
        absent = reasons.register(
            self.name if claim.count == 1 else "framework",
            NO_GPU if claim.count == 1 else TOO_FEW_GPUS,
            resolvable=False,
        )
        by_flags = _by_flags(
            {
                CROWDED: crowded,
                EXCLUSIVE: share,
                EXCLUDING: excluded,
                HELD_BACK: native,
                UNHEALTHY: unhealthy,
                CORDONED: reasons.register(self.name, IS_CORDONED, resolvable=False),
                FOREIGN: reasons.register(self.name, OTHER_VENDOR, resolvable=False),
                ABSENT: absent,
            }
        )
        milli_of, shares = asked_milli(claim), shares_exclusion(claim)

        def reasons_of(rows: Rows) -> IntArray:
            flags, milli = flags_for(claim, rows), milli_of(rows)
            asked = asked_bytes(claim, milli, rows)
            if claim.exclusive:
                masks = (rows.tenants > 0) * share
                masks |= (rows.capacity_bytes < asked) * memory
            else:
                short = rows.free_milli < milli
                masks = np.where(milli == TOO_MUCH, never.of(rows), short * share)
                lacking = rows.free_bytes < asked
                # Memory that goes with the share is named only if the share itself is there.
                masks |= (lacking if claim.asks_memory else lacking & ~short) * memory
            if claim.exclusion:
                masks |= ~shares(rows) * excluded
            masks = np.where(flags, by_flags[flags], masks)
            if size:
                masks = np.where(has_size(claim, rows) | (flags & ABSENT > 0), masks, size)
            kept = (rows.reservations > 0) & (masks > 0)
            if not kept.any():
                return masks
            kept &= rows.flags & (ABSENT | UNHEALTHY | CORDONED | HELD_BACK | EXCLUDING) == 0
            kept &= masks != size
            return np.where(kept & fits_but_for_reservations(claim, rows), reserved, masks)

        shared = not (claim.exclusive or claim.asks_memory or claim.share_of or claim.exclusion)
        by_room = shared and claim.card_bytes is None and claim.name is None and not claim.vendor
        lacks = _with_name(claim, reasons, reasons_of)
        return CardPredicate(fits_claim(claim), lacks, claim.milli if by_room else None)

    def queueing_hint(self, shape: Shape, row: Rows) -> bool:
        """False if too few cards are idle, or none has the share; in plain integers."""
        claim = shape.claim
        if claim is None or claim.vendor:
            return True
        if claim.exclusive:
            return int(row.idle.sum()) >= claim.count
        least = min((milli for _, milli in claim.shares), default=claim.milli)
        free = row.free_milli if claim.exclusion else row.share_headroom
        return int(free.max()) >= least

    def capacity_bound(self, shape: Shape) -> RowHeadroom | None:
        """How many claims the row's cards hold, each card counted alone."""
        claim = shape.claim
        return None if claim is None else partial(headroom_for, claim, asked_milli(claim))

    def explain(self, shape: Shape, row: Rows) -> Iterator[Shortfall]:
        """Each card that cannot hold the claim, and what it lacks."""
        claim = shape.claim
        if claim is None:
            return
        for slot, uuid in enumerate(row.uuids[0]):
            yield from card_shortfalls(claim, row, slot, uuid)
        count = row.gpu_count.item()
        if count < claim.count:
            text = NO_GPU if claim.count == 1 else TOO_FEW_GPUS
            yield Shortfall(
                reason=text, resource="gpu", asked=claim.count, free=count, unit="count"
            )


def _with_name(
    claim: GpuClaim, reasons: ReasonTable, reasons_of: Callable[[Rows], IntArray]
) -> Callable[[Rows], IntArray]:
    """These reasons, and one more for cards that the claim does not take by their name."""
    fits = fits_name(claim)
    if fits is None:
        return reasons_of
    nameless = reasons.register(GpuFit.name, OTHER_NAME)
    return lambda rows: reasons_of(rows) | (~fits(rows) * nameless)


def _by_flags(masks: Mapping[int, int]) -> IntArray:
    """The mask of reasons for each combination of a card's flags, (FLAG_VALUES,)."""
    flags = np.arange(FLAG_VALUES)
    combined = np.zeros(FLAG_VALUES, np.int64)
    for flag, mask in masks.items():
        combined |= np.where(flags & flag, mask, 0)
    return combined


def _never(claim: GpuClaim, reasons: ReasonTable) -> ModelTable:
    """The masks of models that cannot hold the share, however much of a card is free."""
    if not claim.share_of:
        return ModelTable(lambda model: 0)
    small, unknown = (
        reasons.register(GpuFit.name, text, resolvable=False) for text in never_texts(claim)
    )
    return ModelTable(lambda model: small if claim.compares(model) else unknown, empty=unknown)
