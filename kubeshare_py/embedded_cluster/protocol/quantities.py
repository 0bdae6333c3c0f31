"""Kubernetes quantities ("500m", "1Gi"): parsing and the canonical form the server stores.

Grammar and canonical form: the API reference's "Quantity" (suffix family is kept, the mantissa
becomes the largest suffix that leaves an integer).
"""

import re
from decimal import ROUND_UP, Decimal
from functools import lru_cache

_QUANTITY = re.compile(
    r"^(?P<number>[+-]?(\d+(\.\d*)?|\.\d+))(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?$"
)
_BINARY = {"Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "Ti": 1024**4, "Pi": 1024**5, "Ei": 1024**6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


class BadQuantity(ValueError):
    """Not a quantity; the text is the real server's."""

    def __init__(self) -> None:
        super().__init__(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )


@lru_cache(maxsize=4096)
def value(text: str) -> Decimal:
    """The exact number; raises BadQuantity."""
    found = _QUANTITY.match(text)
    if not found:
        raise BadQuantity
    number, suffix = Decimal(found["number"]), found["suffix"] or ""
    if suffix in _BINARY:
        return number * _BINARY[suffix]
    if suffix in _DECIMAL:
        return number.scaleb(_DECIMAL[suffix])
    return number.scaleb(int(suffix[1:]))


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """The form the server stores: 0.5 is 500m, 1024Mi is 1Gi; raises BadQuantity."""
    exact = value(text)
    if text.endswith("i") and abs(exact) >= _BINARY["Ki"] and exact == exact.to_integral_value():
        return _binary(int(exact))
    return _decimal(exact)


def _binary(whole: int) -> str:
    for suffix, factor in reversed(_BINARY.items()):
        if whole % factor == 0:
            return f"{whole // factor}{suffix}"
    return str(whole)


def _decimal(exact: Decimal) -> str:
    nano = int(exact.scaleb(9).to_integral_value(rounding=ROUND_UP))
    if nano == 0:
        return "0"
    for suffix, exponent in reversed(_DECIMAL.items()):
        scale = 10 ** (exponent + 9)
        if nano % scale == 0:
            return f"{nano // scale}{suffix}"
    return f"{nano}n"
