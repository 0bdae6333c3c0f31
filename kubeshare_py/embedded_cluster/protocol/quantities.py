"""The canonical form of quantities ("500m", "1Gi"), which the API server stores.

From the API reference's "Quantity": binary and decimal suffixes are kept apart, and the largest
suffix is taken that leaves an integer. Finer than a billionth is rounded up.
"""

from fractions import Fraction
from functools import lru_cache

from kubeshare_py.domain.quantity import FACTORS, BadQuantity, exact

#: The real server's text.
_REFUSAL = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_LARGEST_FIRST = sorted(FACTORS.items(), key=lambda one: one[1], reverse=True)
_BINARY = [(suffix, int(factor)) for suffix, factor in _LARGEST_FIRST if suffix.endswith("i")]
_NANO = 10**9
_DECIMAL = [(s, int(factor * _NANO)) for s, factor in _LARGEST_FIRST if not s.endswith("i")]
_KIBI = 1024


@lru_cache(maxsize=4096)
def value(text: str) -> Fraction:
    """The exact number; raises BadQuantity with the real server's text."""
    try:
        return exact(text)
    except BadQuantity as error:
        raise BadQuantity(_REFUSAL) from error


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """The form the server stores: 0.5 is 500m, 1024Mi is 1Gi; raises BadQuantity."""
    number = value(text)
    sign, size = "-" if number < 0 else "", abs(number)
    if text.endswith("i") and size >= _KIBI and size.denominator == 1:
        return sign + _with_suffix(int(size), [*_BINARY, ("", 1)])
    nano = -(-size.numerator * _NANO // size.denominator)
    return sign + _with_suffix(nano, _DECIMAL) if nano else "0"


def _with_suffix(count: int, units: list[tuple[str, int]]) -> str:
    """The count in the first unit that divides it; the last unit is 1."""
    suffix, unit = next(one for one in units if count % one[1] == 0)
    return f"{count // unit}{suffix}"
