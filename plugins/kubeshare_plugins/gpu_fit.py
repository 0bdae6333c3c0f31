"""CardFilter: a card must be there, healthy, not held exclusively, with share and memory left."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import (
    ABSENT,
    CROWDED,
    EXCLUSIVE,
    FLAG_VALUES,
    HELD_BACK,
    UNHEALTHY,
    IntArray,
)
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.gpu import WHOLE_MILLI, share_bytes
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import TOO_MUCH, GpuClaim
from kubeshare_py.framework.asks import TOO_FEW_GPUS
from kubeshare_py.framework.model_table import ModelTable
from kubeshare_py.framework.points import MOST_PODS, CardQuestion, RowRoom
from kubeshare_py.framework.reasons import ReasonTable

NO_MEMORY = "Insufficient GPU memory"
NO_SHARE = "Insufficient GPU"
TOO_MANY_TENANTS = "Too many pods on GPU"
KEPT_FOR_NATIVE = "GPU held back for nvidia.com/gpu pods"
EARMARKED = "GPU earmarked for other pods"
NOT_HEALTHY = "unhealthy GPU"
NO_GPU = "no GPU"


class GpuFit:
    """What a claim asks of each of its cards must be free there. Ordered from near miss to far."""

    name = "GpuFit"

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardQuestion | None:
        """Exclusive claims want idle cards, shared ones share and memory."""
        claim = shape.claim
        if claim is None:
            return None
        earmarked = reasons.register(self.name, EARMARKED)
        memory = reasons.register(self.name, NO_MEMORY)
        share = reasons.register(self.name, NO_SHARE)
        crowded = reasons.register(self.name, TOO_MANY_TENANTS)
        native = reasons.register(self.name, KEPT_FOR_NATIVE)
        unhealthy = reasons.register(self.name, NOT_HEALTHY, resolvable=False)
        never = _never(claim, reasons)
        absent = reasons.register(
            self.name if claim.count == 1 else "framework",
            NO_GPU if claim.count == 1 else TOO_FEW_GPUS,
            resolvable=False,
        )
        by_flag = {
            CROWDED: crowded,
            EXCLUSIVE: share,
            HELD_BACK: native,
            UNHEALTHY: unhealthy,
            ABSENT: absent,
        }
        by_flags = np.zeros(FLAG_VALUES, np.int64)
        for flags in range(FLAG_VALUES):
            for flag, mask in by_flag.items():
                by_flags[flags] |= mask if flags & flag else 0

        milli_of = asked_milli(claim)

        def reasons_of(rows: Rows) -> IntArray:
            flags, milli = rows.column("flags"), milli_of(rows)
            asked: IntArray | int = rows.column("capacity_bytes") * milli // WHOLE_MILLI
            if claim.memory_bytes is not None:
                asked = claim.memory_bytes
            if claim.exclusive:
                masks = (rows.column("tenants") > 0) * share
                masks |= (rows.column("capacity_bytes") < asked) * memory
            else:
                short = rows.column("free_milli") < milli
                masks = np.where(milli == TOO_MUCH, never.of(rows), short * share)
                lacking = rows.column("free_bytes") < asked
                # Memory that goes with the share is only worth a word where the share is there.
                masks |= (lacking & ~short if claim.memory_bytes is None else lacking) * memory
            masks = np.where(flags, by_flags.take(flags), masks)
            kept = (rows.column("earmarks") > 0) & (masks > 0)
            if not kept.any():
                return masks
            kept &= flags & (ABSENT | UNHEALTHY | HELD_BACK) == 0
            return np.where(kept & _but_for_earmarks(claim, rows), earmarked, masks)

        shared = not claim.exclusive and claim.memory_bytes is None and not claim.share_of
        return CardQuestion(fits_claim(claim), reasons_of, claim.milli if shared else None)

    def may_fit(self, shape: Shape, ledger: Ledger, row: int) -> bool:
        """Count the cards that could do, in plain integers."""
        claim = shape.claim
        if claim is None:
            return True
        if claim.exclusive:
            return int(ledger.columns.idle[row].sum()) >= claim.count
        least = min((milli for _, milli in claim.shares), default=claim.milli)
        return int(ledger.columns.share_room[row].max()) >= least

    def at_most(self, shape: Shape) -> RowRoom | None:
        """Claims that the row's cards can hold, each card for itself."""
        claim = shape.claim
        return None if claim is None else partial(_room, claim, asked_milli(claim))

    def explain(self, shape: Shape, ledger: Ledger, row: int) -> Iterator[Shortfall]:
        """Each card that cannot hold the claim, and what it lacks."""
        claim, columns = shape.claim, ledger.columns
        if claim is None:
            return
        for slot, uuid in enumerate(columns.uuids[row]):
            yield from _card_shortfalls(claim, ledger, row, slot, uuid)
        if columns.gpu_count[row] < claim.count:
            text = NO_GPU if claim.count == 1 else TOO_FEW_GPUS
            count = columns.gpu_count[row].item()
            yield Shortfall(
                reason=text, resource="gpu", asked=claim.count, free=count, unit="count"
            )


def asked_milli(claim: GpuClaim) -> Callable[[Rows], IntArray | int]:
    """What the claim takes of each card: one number, unless the share is one of a certain model."""
    if not claim.share_of:
        return lambda rows: claim.milli
    return ModelTable(claim.milli_on, empty=TOO_MUCH).of


def _never(claim: GpuClaim, reasons: ReasonTable) -> ModelTable:
    """Masks of models that cannot hold the share, however much of a card is free."""
    if not claim.share_of:
        return ModelTable(lambda model: 0)
    small, unknown = (
        reasons.register(GpuFit.name, text, resolvable=False) for text in _never_texts(claim)
    )
    return ModelTable(lambda model: small if claim.compares(model) else unknown, empty=unknown)


def _never_texts(claim: GpuClaim) -> tuple[str, str]:
    return (
        f"GPU too small for the share of {claim.share_of}",
        f"GPU not to be compared with {claim.share_of}",
    )


def fits_claim(claim: GpuClaim) -> Callable[[Rows], NDArray[np.bool_]]:
    """The cheapest comparison that decides: whether a card may hold one share of the claim."""
    milli, memory = claim.milli, claim.memory_bytes or 0
    if claim.share_of:
        return _fits_share(claim)
    if claim.exclusive and not memory:
        return lambda rows: rows.column("idle") == 1
    if claim.exclusive:
        return lambda rows: (rows.column("idle") == 1) & (rows.column("capacity_bytes") >= memory)
    if claim.memory_bytes is None:
        return lambda rows: rows.column("room") >= milli
    return lambda rows: (rows.column("share_room") >= milli) & (rows.column("free_bytes") >= memory)


def _but_for_earmarks(claim: GpuClaim, rows: Rows) -> NDArray[np.bool_]:
    """Which cards would hold one share of the claim if nothing were earmarked, but for flags."""
    wanted = asked_milli(claim)(rows)
    milli = rows.column("free_milli") + rows.column("earmarked_milli")
    memory = rows.column("free_bytes") + rows.column("earmarked_bytes")
    others = rows.column("tenants") > rows.column("earmarks")
    asked: IntArray | int = rows.column("capacity_bytes") * wanted // WHOLE_MILLI
    if claim.memory_bytes is not None:
        asked = claim.memory_bytes
    if claim.exclusive:
        fits: NDArray[np.bool_] = ~others & (rows.column("capacity_bytes") >= asked)
        return fits
    return (milli >= wanted) & (memory >= asked)


def _fits_share(claim: GpuClaim) -> Callable[[Rows], NDArray[np.bool_]]:
    """The same for a share that is another one on each model."""
    milli_of, memory = asked_milli(claim), claim.memory_bytes
    if memory is None:
        return lambda rows: rows.column("room") >= milli_of(rows)
    return lambda rows: (
        (rows.column("share_room") >= milli_of(rows)) & (rows.column("free_bytes") >= memory)
    )


def _room(claim: GpuClaim, milli_of: Callable[[Rows], IntArray | int], rows: Rows) -> IntArray:
    """How many claims fit on the cards of each row."""
    if claim.exclusive:
        cards = rows.column("idle") * (rows.column("capacity_bytes") >= (claim.memory_bytes or 0))
    else:
        tenants = rows.column("max_tenants") - rows.column("tenants")
        cards = np.where(rows.column("max_tenants") > 0, tenants, MOST_PODS)
        milli = milli_of(rows)
        if claim.milli:
            cards = np.minimum(cards, rows.column("share_room") // milli)
        each: IntArray | int = rows.column("capacity_bytes") * milli // WHOLE_MILLI
        if claim.memory_bytes is not None:
            each = claim.memory_bytes
        # Who asks for no memory is not kept out by the lack of it.
        lacking = rows.column("free_bytes") // np.maximum(each, 1)
        cards = np.minimum(cards, np.where(np.asarray(each) > 0, lacking, MOST_PODS))
        cards = np.where(rows.column("flags"), 0, np.maximum(cards, 0))
    room: IntArray = cards.sum(1) // claim.count
    return room


def _card_shortfalls(
    claim: GpuClaim, ledger: Ledger, row: int, slot: int, uuid: str
) -> Iterator[Shortfall]:
    columns = ledger.columns
    flags = columns.flags[row, slot].item()
    if flags & ABSENT:
        yield Shortfall(reason="GPU is not in the inventory", subject=uuid)
        return
    if flags & UNHEALTHY:
        yield Shortfall(reason=NOT_HEALTHY, subject=uuid)
    if flags & HELD_BACK:
        yield Shortfall(reason=KEPT_FOR_NATIVE, subject=uuid)
    if columns.earmarks[row, slot].item():
        yield Shortfall(reason=EARMARKED, subject=uuid)
    if flags & CROWDED:
        yield Shortfall(
            reason=TOO_MANY_TENANTS,
            subject=uuid,
            resource="tenants",
            asked=1,
            free=0,
            unit="count",
        )
    free = columns.free_milli.item(row, slot)
    model = columns.model_names[columns.model.item(row, slot)]
    milli = claim.milli_on(model)
    if milli == TOO_MUCH:
        yield Shortfall(reason=_never_texts(claim)[not claim.compares(model)], subject=uuid)
        return
    taken = claim.exclusive and columns.tenants.item(row, slot) > 0
    if flags & EXCLUSIVE or taken or free < milli:
        # Of a card that is held exclusively nothing is free, whatever its holder is charged.
        free = min(free, 0) if flags & EXCLUSIVE else free
        yield Shortfall(
            reason=NO_SHARE,
            subject=uuid,
            resource="gpu",
            asked=milli,
            free=free,
            unit="milli",
        )
    capacity = columns.capacity_bytes[row, slot].item()
    asked = claim.memory_bytes
    if asked is None:
        asked = share_bytes(capacity, milli)
    free_bytes = columns.free_bytes[row, slot].item()
    goes_with_share = claim.memory_bytes is None and free < milli
    if free_bytes < asked and not goes_with_share:
        yield Shortfall(
            reason=NO_MEMORY,
            subject=uuid,
            resource="gpu memory",
            asked=asked,
            free=free_bytes,
            unit="bytes",
        )
