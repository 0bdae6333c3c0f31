"""Compares what a claim asks of a card, and which models it takes, with columns.

What a card lacks is said in reasons and amounts.

Shapes: (k,) for k rows, (k, width) for their cards. Shares are int64 in milli, memory in bytes.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import (
    ABSENT,
    CORDONED,
    CROWDED,
    EXCLUDING,
    EXCLUSIVE,
    FOREIGN,
    HELD_BACK,
    UNHEALTHY,
    IntArray,
    TagCounts,
)
from kubeshare_py.cluster.derived import pods_of, room
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.gpu import WHOLE_MILLI, CardTag, part_of_bytes
from kubeshare_py.domain.mypyc_hints import mypyc_attr
from kubeshare_py.domain.request import TOO_MUCH, GpuClaim
from kubeshare_py.framework.points import MAX_PODS

# A number for each of a few values of cards, such as their models, computed once per value.


T = TypeVar("T")


class NumberTable(Generic[T]):
    """The numbers of values, for one question of one ledger, which numbers values.

    Numbers stay while the ledger gives the same list of values, which only grows.
    """

    __slots__ = ("_codes_of", "_first", "_number_of", "_numbers", "_values")

    def __init__(
        self,
        codes_of: Callable[[Rows], tuple[IntArray, Sequence[T]]],
        number_of: Callable[[T], int],
        first: int,
    ) -> None:
        """`codes_of` gives each card's index into a list of values, (k, width) int64, and the list.

        `number_of` gives a value's number; `first` is the number of index 0.
        """
        self._codes_of = codes_of
        self._number_of = number_of
        self._first: IntArray = np.array([first], np.int64)
        self._numbers = self._first
        self._values: Sequence[T] = ()

    def of(self, rows: Rows) -> IntArray:
        """The number of each card of the rows, (k, width) int64."""
        codes, values = self._codes_of(rows)
        if values is not self._values:
            self._values, self._numbers = values, self._first
        known = len(self._numbers)
        if known < len(values):
            more = [self._number_of(value) for value in values[known:]]
            self._numbers = np.append(self._numbers, np.array(more, np.int64))
        return self._numbers[codes]


class ModelTable(NumberTable[str]):
    """The numbers of card models, for one question of one ledger."""

    __slots__ = ()

    def __init__(self, number_of: Callable[[str], int], empty: int = 0) -> None:
        """`number_of` gets each model's full name; `empty` is the number of empty slots."""
        super().__init__(_models, number_of, empty)


def _models(rows: Rows) -> tuple[IntArray, Sequence[str]]:
    return rows.models()


# Which cards the name in a claim's tags admits, on each node for itself.
#
# The card of the node that has the name, or, where the node has none, cards without pods. The
# ledger refuses a second card of a name, and a second name of a card (`cluster.card_tags`).


def having_name(name: CardTag) -> Callable[[Rows], NDArray[np.bool_]]:
    """Which cards have pods of this name, (k, width) bool."""
    table = NumberTable(
        _tag_counts, lambda counts: int(any(tag == name for tag, _ in counts)), first=0
    )
    return lambda rows: table.of(rows) > 0


def fits_name(claim: GpuClaim) -> Callable[[Rows], NDArray[np.bool_]] | None:
    """Which cards the claim takes by their name, (k, width) bool; None if it takes all."""
    if claim.name is None:
        return None
    has_name = having_name(claim.name)

    def fits(rows: Rows) -> NDArray[np.bool_]:
        # (k, width). If a card of the row has the name, only that one; else one without pods gets
        # it.
        named = has_name(rows)
        found: NDArray[np.bool_] = np.where(
            named.any(1, keepdims=True), named, np.equal(rows.tenants, 0)
        )
        return found

    return fits


# Compares what a claim asks of a card, and which models it takes, with columns.
#
# Shapes: (k,) for k rows, (k, width) for their cards. Shares are int64 in milli, memory in bytes.


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


def _tag_counts(rows: Rows) -> tuple[IntArray, Sequence[TagCounts]]:
    """Those of these rows: private rows have numbers of their own, and a method of their own."""
    return rows.tag_counts()


def shares_exclusion(claim: GpuClaim) -> Callable[[Rows], NDArray[np.bool_]]:
    """For a claim with an exclusion tag: cards without other pods than those of it, (k, width)."""
    tags = claim.exclusion
    pods = NumberTable(_tag_counts, lambda counts: pods_of(counts, tags), first=0)
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
        # (k,): each pod takes `alone` idle cards; a GPU that is held in part serves none.
        bound = np.minimum(bound, rows.idle.sum(1) // alone)
    milli = sum(
        claim.count * claim.milli for claim in claims if not claim.exclusive and not claim.share_of
    )
    if milli:
        tagged = any(claim.exclusion for claim in claims)
        free = np.maximum(rows.free_milli if tagged else rows.share_headroom, 0).sum(1)
        bound = np.minimum(bound, free // milli)
    return bound


# Rows as ranks and scores see them for a claim that takes cards with flags.
#
# A card with the pod's own exclusion tag, or another vendor's card, has flags that keep most claims
# off it, and so no room in the tables. The claim's own questions read the room that the card has.


P = ParamSpec("P")
_ROOM = ("headroom", "share_headroom", "idle")


def asked_for(
    claim: GpuClaim | None, question: Callable[Concatenate[Rows, P], T]
) -> Callable[Concatenate[Rows, P], T]:
    """The question, put to rows as the claim sees them.

    It stays the same function unless the claim takes cards with flags.
    """
    if claim is None or not (claim.exclusion or claim.vendor):
        return question

    def ask(rows: Rows, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return question(_ClaimRows(rows, claim), *args, **kwargs)

    return ask


@mypyc_attr(native_class=False)
class _ClaimRows(Rows):
    """The rows `base` without the flags that do not keep `claim` off a card.

    Only cards that fit the claim have meaningful values: a card with a foreign exclusion tag looks
    as if the claim could use it.
    """

    __slots__ = ("_base", "_claim")
    _base: Rows
    _claim: GpuClaim

    def __init__(self, base: Rows, claim: GpuClaim) -> None:
        super().__init__(base._columns, None)
        _put_base(self, base)
        _put_claim(self, claim)

    @property
    def index(self) -> IntArray:
        """The numbers of the rows in the tables, (k,)."""
        return self._base.index

    def _pick(self, column: NDArray[Any]) -> NDArray[Any]:
        return self._base._pick(column)

    def _take(self, name: str) -> NDArray[Any]:
        base = self._base
        if name == "flags":
            return flags_for(self._claim, base)
        if name not in _ROOM:
            values: NDArray[Any] = getattr(base, name)
            return values.view()
        with_share = np.maximum(base.share_bytes, 1)
        found = room(
            self.flags, base.tenants, base.free_milli, base.free_bytes, with_share, np.minimum
        )
        return found[_ROOM.index(name)]


_put_base = vars(_ClaimRows)["_base"].__set__
_put_claim = vars(_ClaimRows)["_claim"].__set__


# What a card lacks to hold a claim: reasons and amounts.


NO_MEMORY = "Insufficient GPU memory"
NO_SHARE = "Insufficient GPU"
TOO_MANY_TENANTS = "Too many pods on GPU"
KEPT_FOR_NATIVE = "GPU held back for nvidia.com/gpu pods"
OTHER_EXCLUSION = "GPU with pods of other exclusion tags"
OTHER_NAME = "GPU in use that has not the name which the pod gives"
RESERVED = "GPU reserved for other pods"
OTHER_VENDOR = "card of another vendor"
NOT_HEALTHY = "unhealthy GPU"
IS_CORDONED = "cordoned GPU"
OTHER_SIZE = "GPU of another size"
NO_GPU = "no GPU"


def never_texts(claim: GpuClaim) -> tuple[str, str]:
    """Why a model cannot hold the share, however much is free: too small, or unknown."""
    return (
        f"GPU too small for the share of {claim.share_of}",
        f"GPU not to be compared with {claim.share_of}",
    )


def card_shortfalls(claim: GpuClaim, row: Rows, slot: int, uuid: str) -> Iterator[Shortfall]:
    """Why this card of the only row of `row` cannot hold one share of the claim; else nothing."""
    if row.flags.item(0, slot) & ABSENT:
        yield Shortfall(reason="GPU is not in the inventory", subject=uuid)
        return
    if bool(row.flags.item(0, slot) & FOREIGN) != bool(claim.vendor):
        yield Shortfall(reason=OTHER_VENDOR, subject=uuid)
        return
    if not _has_size(claim, row.capacity_bytes.item(0, slot)):
        yield Shortfall(reason=OTHER_SIZE, subject=uuid)
        return
    yield from _states(row, slot, uuid)
    yield from _exclusion(claim, row, slot, uuid)
    named = fits_name(claim)
    if named is not None and not named(row)[0, slot]:
        yield Shortfall(reason=OTHER_NAME, subject=uuid)
    numbers, models = row.models()
    model = models[numbers.item(0, slot)]
    milli = claim.milli_on(model)
    if milli == TOO_MUCH:
        yield Shortfall(reason=never_texts(claim)[not claim.compares(model)], subject=uuid)
        return
    yield from _share(claim, row, slot, uuid, milli)
    yield from _memory(claim, row, slot, uuid, milli)


def _has_size(claim: GpuClaim, capacity_bytes: int) -> bool:
    accepted = claim.card_bytes
    return accepted is None or accepted[0] <= capacity_bytes < accepted[1]


def _states(row: Rows, slot: int, uuid: str) -> Iterator[Shortfall]:
    """States of the card in which it takes no further pod."""
    flags = row.flags.item(0, slot)
    if flags & UNHEALTHY:
        yield Shortfall(reason=NOT_HEALTHY, subject=uuid)
    if flags & CORDONED:
        yield Shortfall(reason=IS_CORDONED, subject=uuid)
    if flags & HELD_BACK:
        yield Shortfall(reason=KEPT_FOR_NATIVE, subject=uuid)
    if row.reservations.item(0, slot):
        yield Shortfall(reason=RESERVED, subject=uuid)
    if flags & CROWDED:
        yield Shortfall(
            reason=TOO_MANY_TENANTS,
            subject=uuid,
            resource="tenants",
            asked=1,
            free=0,
            unit="count",
        )


def _exclusion(claim: GpuClaim, row: Rows, slot: int, uuid: str) -> Iterator[Shortfall]:
    codes, values = row.tag_counts()
    pods = pods_of(values[codes.item(0, slot)], claim.exclusion)
    tenants = row.tenants.item(0, slot) if claim.exclusion else 0
    if pods != tenants:
        yield Shortfall(reason=OTHER_EXCLUSION, subject=uuid)


def _share(claim: GpuClaim, row: Rows, slot: int, uuid: str, milli: int) -> Iterator[Shortfall]:
    free = _free_milli(row, slot)
    held = row.flags.item(0, slot) & EXCLUSIVE
    taken = claim.exclusive and row.tenants.item(0, slot) > 0
    if held or taken or (free < milli and not claim.exclusive):
        yield Shortfall(
            reason=NO_SHARE,
            subject=uuid,
            resource="gpu",
            asked=milli,
            free=free,
            unit="milli",
        )


def _memory(claim: GpuClaim, row: Rows, slot: int, uuid: str, milli: int) -> Iterator[Shortfall]:
    asked, free = claim.memory_bytes, row.free_bytes.item(0, slot)
    if claim.memory_milli is not None:
        asked = part_of_bytes(row.capacity_bytes.item(0, slot), claim.memory_milli)
    if asked is None:
        if claim.exclusive or _free_milli(row, slot) < milli:
            return  # the memory goes with the share, or the card; that is lacking
        asked = part_of_bytes(row.share_bytes.item(0, slot), milli)
    if free < asked:
        yield Shortfall(
            reason=NO_MEMORY,
            subject=uuid,
            resource="gpu memory",
            asked=asked,
            free=free,
            unit="bytes",
        )


def _free_milli(row: Rows, slot: int) -> int:
    """The free share in milli; none if the card is held exclusively."""
    free = row.free_milli.item(0, slot)
    return min(free, 0) if row.flags.item(0, slot) & EXCLUSIVE else free
