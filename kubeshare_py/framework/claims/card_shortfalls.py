"""What a card lacks to hold a claim: reasons and amounts."""

from collections.abc import Iterator

from kubeshare_py.cluster.columns import ABSENT, CROWDED, EXCLUSIVE, HELD_BACK, UNHEALTHY, Columns
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.gpu import share_bytes
from kubeshare_py.domain.request import TOO_MUCH, GpuClaim

NO_MEMORY = "Insufficient GPU memory"
NO_SHARE = "Insufficient GPU"
TOO_MANY_TENANTS = "Too many pods on GPU"
KEPT_FOR_NATIVE = "GPU held back for nvidia.com/gpu pods"
RESERVED = "GPU reserved for other pods"
NOT_HEALTHY = "unhealthy GPU"
NO_GPU = "no GPU"


def never_texts(claim: GpuClaim) -> tuple[str, str]:
    """Why a model cannot hold the share, however much is free: too small, or unknown."""
    return (
        f"GPU too small for the share of {claim.share_of}",
        f"GPU not to be compared with {claim.share_of}",
    )


def card_shortfalls(
    claim: GpuClaim, ledger: Ledger, row: int, slot: int, uuid: str
) -> Iterator[Shortfall]:
    """Why this card cannot hold one share of the claim; nothing if it can."""
    columns = ledger.columns
    if columns.flags.item(row, slot) & ABSENT:
        yield Shortfall(reason="GPU is not in the inventory", subject=uuid)
        return
    yield from _states(columns, row, slot, uuid)
    model = columns.model_names[columns.model.item(row, slot)]
    milli = claim.milli_on(model)
    if milli == TOO_MUCH:
        yield Shortfall(reason=never_texts(claim)[not claim.compares(model)], subject=uuid)
        return
    yield from _share(claim, columns, row, slot, milli)
    yield from _memory(claim, columns, row, slot, milli)


def _states(columns: Columns, row: int, slot: int, uuid: str) -> Iterator[Shortfall]:
    """States of the card in which it takes no further pod."""
    flags = columns.flags.item(row, slot)
    if flags & UNHEALTHY:
        yield Shortfall(reason=NOT_HEALTHY, subject=uuid)
    if flags & HELD_BACK:
        yield Shortfall(reason=KEPT_FOR_NATIVE, subject=uuid)
    if columns.reservations.item(row, slot):
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


def _share(
    claim: GpuClaim, columns: Columns, row: int, slot: int, milli: int
) -> Iterator[Shortfall]:
    free = _free_milli(columns, row, slot)
    held = columns.flags.item(row, slot) & EXCLUSIVE
    taken = claim.exclusive and columns.tenants.item(row, slot) > 0
    if held or taken or free < milli:
        yield Shortfall(
            reason=NO_SHARE,
            subject=columns.uuids[row][slot],
            resource="gpu",
            asked=milli,
            free=free,
            unit="milli",
        )


def _memory(
    claim: GpuClaim, columns: Columns, row: int, slot: int, milli: int
) -> Iterator[Shortfall]:
    asked, free = claim.memory_bytes, columns.free_bytes.item(row, slot)
    if asked is None:
        if _free_milli(columns, row, slot) < milli:
            return  # the memory goes with the share, which is lacking
        asked = share_bytes(columns.capacity_bytes.item(row, slot), milli)
    if free < asked:
        yield Shortfall(
            reason=NO_MEMORY,
            subject=columns.uuids[row][slot],
            resource="gpu memory",
            asked=asked,
            free=free,
            unit="bytes",
        )


def _free_milli(columns: Columns, row: int, slot: int) -> int:
    """The free share in milli; none if the card is held exclusively."""
    free = columns.free_milli.item(row, slot)
    return min(free, 0) if columns.flags.item(row, slot) & EXCLUSIVE else free
