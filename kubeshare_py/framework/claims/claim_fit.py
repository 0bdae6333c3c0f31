"""Compares what a claim asks of a card, and which models it takes, with columns.

Shapes: (k,) for k rows, (k, width) for their cards. Shares are int64 in milli, memory in bytes.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.card_tags import pods_of
from kubeshare_py.cluster.columns import EXCLUDING, FOREIGN, IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.request import TOO_MUCH, GpuClaim
from kubeshare_py.framework.claims.card_names import fits_name
from kubeshare_py.framework.number_table import ModelTable, NumberTable
from kubeshare_py.framework.points import MAX_PODS

#: Which cards of some rows fit, (k, width) bool.
CardQuestion = Callable[[Rows], NDArray[np.bool_]]


def asked_milli(claim: GpuClaim) -> Callable[[Rows], IntArray | int]:
    """The share taken of each card, (k, width); one number unless it depends on the model."""
    if not claim.share_of:
        return lambda rows: claim.milli
    return ModelTable(claim.milli_on, empty=TOO_MUCH).of


def asked_bytes(claim: GpuClaim, milli: IntArray | int, rows: Rows) -> IntArray | int:
    """The memory taken of each card by a claim that takes `milli` of it.

    (k, width), or one number if it is the same for all cards; so is `milli`.
    """
    if claim.memory_bytes is not None:
        return claim.memory_bytes
    if claim.memory_milli is not None:
        part: IntArray = rows.capacity_bytes * claim.memory_milli // WHOLE_MILLI
        return part
    with_share: IntArray = rows.share_bytes * milli // WHOLE_MILLI
    return with_share


def flags_for(claim: GpuClaim, rows: Rows) -> IntArray:
    """The flags of cards that keep the claim off them, (k, width)."""
    flags = rows.flags & ~EXCLUDING if claim.exclusion else rows.flags
    return flags ^ FOREIGN if claim.vendor else flags


def shares_exclusion(claim: GpuClaim) -> Callable[[Rows], NDArray[np.bool_]]:
    """For a claim with an exclusion tag: cards without other pods than those of it, (k, width)."""
    tags = claim.exclusion
    pods = NumberTable(Rows.tag_counts, lambda counts: pods_of(counts, tags), first=0)
    return lambda rows: pods.of(rows) == rows.tenants


def _fits_exclusion(claim: GpuClaim) -> Callable[[Rows], NDArray[np.bool_]]:
    """`fits_claim` for a claim of other vendors' cards or with an exclusion tag.

    Such claims take some cards that have flags.
    """
    shares, milli_of = shares_exclusion(claim), asked_milli(claim)

    def fits(rows: Rows) -> NDArray[np.bool_]:
        milli = milli_of(rows)
        found: NDArray[np.bool_] = flags_for(claim, rows) == 0
        if claim.exclusion:
            found &= shares(rows)
        asked = asked_bytes(claim, milli, rows)
        if claim.exclusive:
            found &= (rows.tenants == 0) & (rows.capacity_bytes >= asked)
        else:
            found &= (rows.free_milli >= milli) & (rows.free_bytes >= asked)
        return found

    return fits


def has_size(claim: GpuClaim, rows: Rows) -> NDArray[np.bool_]:
    """Which cards have a size that the claim accepts, (k, width); for a claim with `card_bytes`."""
    assert claim.card_bytes is not None
    least, below = claim.card_bytes
    accepted: NDArray[np.bool_] = (rows.capacity_bytes >= least) & (rows.capacity_bytes < below)
    return accepted


def fits_claim(claim: GpuClaim) -> CardQuestion:
    """Which cards may hold one share of the claim, (k, width), by the cheapest comparison."""
    fits, named = _fits_free(claim), fits_name(claim)
    if claim.card_bytes is not None:
        fits = _both(fits, partial(has_size, claim))
    return fits if named is None else _both(fits, named)


def _both(one: CardQuestion, other: CardQuestion) -> CardQuestion:
    return lambda rows: one(rows) & other(rows)


def _fits_free(claim: GpuClaim) -> Callable[[Rows], NDArray[np.bool_]]:
    """`fits_claim` by what is free, whatever the card's size."""
    milli, memory = claim.milli, claim.memory_bytes or 0
    if claim.exclusion or claim.vendor or claim.share_of:
        flagged = claim.exclusion or claim.vendor
        return _fits_exclusion(claim) if flagged else _fits_share(claim)
    if claim.exclusive and not memory:
        return lambda rows: rows.idle == 1
    if claim.exclusive:
        return lambda rows: (rows.idle == 1) & (rows.capacity_bytes >= memory)
    if not claim.asks_memory:
        return lambda rows: rows.headroom >= milli
    if claim.memory_milli is not None:
        return lambda rows: (
            (rows.share_headroom >= milli) & (rows.free_bytes >= asked_bytes(claim, milli, rows))
        )
    return lambda rows: (rows.share_headroom >= milli) & (rows.free_bytes >= memory)


def fits_but_for_reservations(claim: GpuClaim, rows: Rows) -> NDArray[np.bool_]:
    """Which cards would hold one share of the claim if nothing were reserved, (k, width) bool.

    Flags are ignored.
    """
    wanted = asked_milli(claim)(rows)
    milli = rows.free_milli + rows.reserved_milli
    memory = rows.free_bytes + rows.reserved_bytes
    others = rows.tenants > rows.reservations
    asked = asked_bytes(claim, wanted, rows)
    if claim.exclusive:
        fits: NDArray[np.bool_] = ~others & (rows.capacity_bytes >= asked)
        return fits
    return (milli >= wanted) & (memory >= asked)


def _fits_share(claim: GpuClaim) -> Callable[[Rows], NDArray[np.bool_]]:
    """`fits_claim` for a share that depends on the card's model."""
    milli_of = asked_milli(claim)
    if not claim.asks_memory:
        return lambda rows: rows.headroom >= milli_of(rows)

    def fits(rows: Rows) -> NDArray[np.bool_]:
        milli = milli_of(rows)
        enough = rows.free_bytes >= asked_bytes(claim, milli, rows)
        return (rows.share_headroom >= milli) & enough

    return fits


def is_choosy(claim: GpuClaim) -> bool:
    """Whether the claim does not take every model."""
    return bool(claim.models) or claim.preferred is not None


def fits_model(claim: GpuClaim) -> Callable[[Rows], NDArray[np.bool_]] | None:
    """Which GPUs have a model that the claim takes, shape (rows, width); None if it takes all.

    Slots without a GPU do not.
    """
    if not is_choosy(claim):
        return None
    taken = ModelTable(lambda model: int(claim.takes(model)), empty=0)
    return lambda rows: taken.of(rows) == 1


def names_cards(claim: GpuClaim) -> bool:
    """Whether the claim names or denies cards by their UUIDs."""
    return bool(claim.uuids or claim.denied_uuids)


def fits_uuid(claim: GpuClaim) -> Callable[[Rows], NDArray[np.bool_]] | None:
    """Which cards the claim takes by their UUIDs, (k, width) bool; None if it takes all."""
    if not names_cards(claim):
        return None

    def fits(rows: Rows) -> NDArray[np.bool_]:
        accepted = ~rows.among(claim.denied_uuids)
        return accepted & rows.among(claim.uuids) if claim.uuids else accepted

    return fits


def headroom_for(
    claim: GpuClaim, milli_of: Callable[[Rows], IntArray | int], rows: Rows
) -> IntArray:
    """How many claims fit on the cards of each row, (k,) int64.

    `milli_of` gives the share taken of each card, (k, width) or one number.
    """
    if claim.exclusive:
        idle = (flags_for(claim, rows) == 0) & (rows.tenants == 0) if claim.vendor else rows.idle
        cards = idle * (rows.capacity_bytes >= (claim.memory_bytes or 0))
    else:
        tenants = rows.max_tenants - rows.tenants
        cards = np.where(rows.max_tenants > 0, tenants, MAX_PODS)
        milli = milli_of(rows)
        if claim.milli:
            free = rows.free_milli if claim.exclusion or claim.vendor else rows.share_headroom
            cards = np.minimum(cards, free // milli)
        each = asked_bytes(claim, milli, rows)
        # A claim without memory is not refused for lack of memory.
        lacking = rows.free_bytes // np.maximum(each, 1)
        cards = np.minimum(cards, np.where(np.asarray(each) > 0, lacking, MAX_PODS))
        cards = np.where(flags_for(claim, rows), 0, np.maximum(cards, 0))
    if claim.card_bytes is not None:
        cards = cards * has_size(claim, rows)
    room: IntArray = cards.sum(1) // claim.count
    return room


def headroom_together(claims: Sequence[GpuClaim], rows: Rows) -> IntArray:
    """An upper bound of how many pods with all of these claims fit on each row, (k,) int64.

    By the sums alone: idle cards for exclusive claims, and the free share for others. Claims of
    other vendors' cards are not counted.
    """
    claims = [claim for claim in claims if not claim.vendor]
    bound: IntArray = np.full(len(rows.index), MAX_PODS, np.int64)
    alone = sum(claim.count for claim in claims if claim.exclusive)
    if alone:
        bound = np.minimum(bound, rows.idle.sum(1) // alone)
    milli = sum(
        claim.count * claim.milli for claim in claims if not claim.exclusive and not claim.share_of
    )
    if milli:
        tagged = any(claim.exclusion for claim in claims)
        free = np.maximum(rows.free_milli if tagged else rows.share_headroom, 0).sum(1)
        bound = np.minimum(bound, free // milli)
    return bound
