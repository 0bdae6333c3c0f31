"""Bytes in the unit of memory limits: whole MiB, never more than is charged."""

from collections.abc import Sequence

from kubeshare_py.domain.allocation import CardCharge

MEBIBYTE = 2**20


def least_mebibytes(cards: Sequence[CardCharge]) -> int:
    """The smallest part, in MiB, that is charged of one of the cards; 0 without cards."""
    return min((card.memory_bytes // MEBIBYTE for card in cards), default=0)
