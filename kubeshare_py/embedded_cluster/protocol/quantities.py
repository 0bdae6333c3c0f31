"""Amounts: quantities in their canonical form, and numbers that may be percentages."""

import re
from fractions import Fraction
from functools import lru_cache

from kubeshare_py.domain.quantity import FACTORS, BadQuantity, exact
from kubeshare_py.embedded_cluster.protocol.checks import NOT_NEGATIVE, Checked
from kubeshare_py.embedded_cluster.protocol.status import Json

# The canonical form of quantities ("500m", "1Gi"), which the API server stores.
#
# From the API reference's "Quantity": binary and decimal suffixes are kept apart, and the largest
# suffix is taken that leaves an integer. Finer than a billionth is rounded up.


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


# Amounts that are a number or a percentage: maxSurge, maxUnavailable, minAvailable.


IntOrPercent = int | str
WHOLE = 100
_PERCENT = re.compile(r"[0-9]+%")
_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


def amount_of(value: IntOrPercent | None, total: int, *, up: bool) -> int:
    """The number, of `total`; fractions of a percentage are rounded up or down."""
    if not isinstance(value, str):
        return value or 0
    hundredths = int(value.removesuffix("%")) * total
    return -(-hundredths // WHOLE) if up else hundredths // WHOLE


def check_amount(part: Checked, field: str) -> bool:
    """Whether a number, or a percentage, is one and not negative."""
    value: IntOrPercent | None = part.get(field, None)
    problem = ""
    if isinstance(value, str):
        problem = "" if _PERCENT.fullmatch(value) else _TEXT
    elif value is not None and value < 0:
        problem = NOT_NEGATIVE
    if problem:
        part.wrong(field, value, problem)
    return not problem


def check_excess(part: Checked, field: str) -> None:
    """A percentage must not exceed 100."""
    value: IntOrPercent | None = part.get(field, None)
    if isinstance(value, str) and _PERCENT.fullmatch(value) and int(value[:-1]) > WHOLE:
        part.wrong(field, value, "must not be greater than 100%")


def canonical_amounts(part: Json, *fields: str) -> None:
    """Make the quantities of these maps canonical, in place; raises BadQuantity."""
    for field in fields:
        if part.get(field):
            part[field] = {name: canonical(text) for name, text in part[field].items()}
