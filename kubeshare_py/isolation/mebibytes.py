"""Bytes in the unit of memory limits: whole MiB, never more than is charged."""

from kubeshare_py.domain.allocation import Allocation

MEBIBYTE = 2**20


def least_mebibytes(allocation: Allocation) -> int:
    """The smallest part, in MiB, that it has of one of its cards; 0 without cards."""
    return min((card.memory_bytes // MEBIBYTE for card in allocation.cards), default=0)
