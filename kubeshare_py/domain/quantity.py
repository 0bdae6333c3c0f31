"""Kubernetes quantities ("500m", "1.5Gi", "1e3") as exact integers.

Grammar: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

import re
from fractions import Fraction

from kubeshare_py.domain.printable import beginning
from kubeshare_py.domain.remembered import remembered

#: Amounts above this count as this much. Nothing that large exists (8 PiB, nine billion CPUs), and
#: sums of a thousand of them stay within 64 bits.
MAX = 2**53

Quantity = str | int | float

#: The most digits of a whole number that is parsed directly.
_SHORT = 18
_MAX_SHOWN = 40
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]?|[eE](?P<exponent>[+-]?[0-9]{1,3}))"
)
#: What a suffix multiplies by.
FACTORS = {
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(["", *"kMGTPE"])},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
    **{suffix: Fraction(1, 1000**power) for power, suffix in enumerate("mun", start=1)},
}


class BadQuantity(ValueError):
    """The text is no quantity, or a negative one where amounts are read."""


def exact(text: str) -> Fraction:
    """The exact number, with its sign. Raises BadQuantity."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise BadQuantity(_problem(text))
    try:
        number = Fraction(found["number"])
    except ValueError as error:  # Python reads no integers of more than 4,300 digits
        raise BadQuantity(_problem(text)) from error
    if found["exponent"] is not None:
        return number * Fraction(10) ** int(found["exponent"])
    return number * FACTORS[found["suffix"]]


def amount(resource: str, quantity: Quantity) -> int:
    """A quantity of this resource, rounded up: cpu in milli, others in their base unit.

    Raises BadQuantity.
    """
    if isinstance(quantity, str) and len(quantity) <= _SHORT and _is_digits(quantity):
        number = int(quantity)
        return min(MAX, number * 1000 if resource == "cpu" else number)
    return _amount(resource, quantity)


@remembered(4096)
def _amount(resource: str, quantity: Quantity) -> int:
    number = _not_negative(str(quantity))
    if resource == "cpu":
        number *= 1000
    return min(MAX, _rounded_up(number))


def as_decimal(milli: int) -> str:
    """Thousandths as a decimal fraction: 500 is 0.5, 1000 is 1.0."""
    units, rest = divmod(milli, 1000)
    return f"{units}.{f'{rest:03}'.rstrip('0') or '0'}"


def whole(text: str) -> int:
    """A quantity rounded up to a whole number, however large. Raises BadQuantity."""
    return _rounded_up(_not_negative(text))


def is_quantity(text: str) -> bool:
    """Whether `amount` can read it."""
    try:
        _not_negative(text)
    except BadQuantity:
        return False
    return True


def _not_negative(text: str) -> Fraction:
    number = exact(text)
    if number < 0:
        raise BadQuantity(_problem(text))
    return number


def _problem(text: str) -> str:
    return f'"{beginning(text, _MAX_SHOWN)}" is not a quantity'


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _rounded_up(number: Fraction) -> int:
    return -(-number.numerator // number.denominator)
