"""Numbers in label values: read exactly, never through floating point."""

import re
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

#: A label value has at most 63 characters (Kubernetes), so this many digits lose nothing.
LONGEST = 63
INT64_MOST = 2**63 - 1

_PLAIN = re.compile(r"[0-9]+(\.[0-9]+)?")
_SCIENTIFIC = re.compile(r"[+-]?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_EXACT = Context(prec=2 * LONGEST, rounding=ROUND_CEILING)


def plain_decimal(text: str) -> Decimal | None:
    """Parse digits with an optional fraction ("0", "00.5", "10"); None for anything else.

    Signs, exponents and values longer than a label are not accepted.
    """
    if len(text) > LONGEST or not _PLAIN.fullmatch(text):
        return None
    return Decimal(text)


def fraction(text: str) -> Fraction | None:
    """Parse a finite decimal, with an optional sign and exponent (three digits at most)."""
    if len(text) > LONGEST or not _SCIENTIFIC.fullmatch(text):
        return None
    return Fraction(text)


def integer(text: str) -> int | None:
    """Parse a base-10 integer of 64 bits, as Go's Atoi does; None for anything else."""
    if len(text) > LONGEST or not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -INT64_MOST - 1 <= value <= INT64_MOST else None


def thousandths(value: Decimal) -> tuple[int, bool]:
    """A decimal of at most 63 digits in thousandths, rounded up, and whether it was inexact."""
    exact = _EXACT.scaleb(value, 3)
    whole = exact.to_integral_value(context=_EXACT)
    return int(whole), whole != exact
