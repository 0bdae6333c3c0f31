"""What a card lacks to hold a claim: reasons and amounts."""

from collections.abc import Iterator

from kubeshare_py.cluster.card_tags import pods_of
from kubeshare_py.cluster.columns import (
    ABSENT,
    CORDONED,
    CROWDED,
    EXCLUSIVE,
    FOREIGN,
    HELD_BACK,
    UNHEALTHY,
)
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.gpu import part_of_bytes
from kubeshare_py.domain.request import TOO_MUCH, GpuClaim
from kubeshare_py.framework.claims.card_names import fits_name

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
