"""Sizes of volumes, in bytes."""

from collections.abc import Mapping

from kubeshare_py.domain.quantity import BadQuantity, Quantity, whole

#: What a request that is no quantity asks for: more than any volume has.
UNSATISFIABLE = 1 << 63


def size(amounts: Mapping[str, Quantity] | None) -> int | None:
    """The amount of `storage`, rounded up; None if there is none."""
    return None if not amounts or "storage" not in amounts else requested(amounts["storage"])


def requested(quantity: Quantity) -> int:
    """A requested amount, rounded up."""
    try:
        return whole(str(quantity))
    except BadQuantity:
        return UNSATISFIABLE


def offered(quantity: Quantity | None) -> int | None:
    """An offered amount, rounded up; None if there is none, or if it is no quantity."""
    try:
        return None if quantity is None else whole(str(quantity))
    except BadQuantity:
        return None
