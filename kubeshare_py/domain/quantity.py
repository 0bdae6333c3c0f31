"""Kubernetes quantities ("500m", "1.5Gi", "1e3") as exact integers, and the bounds of all amounts.

Grammar: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

import re
from dataclasses import dataclass
from fractions import Fraction

from kubeshare_py.domain.printable import beginning
from kubeshare_py.domain.remembered import remembered

# Kubernetes quantities ("500m", "1.5Gi", "1e3") as exact integers.
#
# Grammar: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/


#: Amounts above this count as this much. Nothing that large exists (8 PiB, nine billion CPUs), and
#: sums of a thousand of them stay within 64 bits.
MAX = 2**53

Quantity = str | int | float

#: The most digits of a whole number that is parsed directly.
_SHORT = 18
_MAX_QUOTED = 40
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
    return f'"{beginning(text, _MAX_QUOTED)}" is not a quantity'


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _rounded_up(number: Fraction) -> int:
    return -(-number.numerator // number.denominator)


# The bounds of amounts: one for each, used by all readers and by the values themselves.
#
# All are far above what exists, and so low that the sums and products used in decisions stay within
# 64 bits: 32,000 charges of a whole card's memory, or its memory in thousandths.


_MAX_SHOWN = 10**24


@dataclass(frozen=True, slots=True)
class AmountRange:
    """An amount is within `least` and `most`, both included."""

    least: int
    most: int

    def allows(self, amount: int) -> bool:
        """Whether the amount is within."""
        return self.least <= amount <= self.most

    def problem(self, amount: int) -> str:
        """What is wrong with the amount, as words that follow its name; "" if nothing is."""
        if self.allows(amount):
            return ""
        is_shown = -_MAX_SHOWN < amount < _MAX_SHOWN
        shown = f"{amount}" if is_shown else "with more than 24 digits"
        return f"{shown} is not within {self.least}…{self.most}"


#: Memory of a card, and of one pod's part of it (bytes): 256 TiB.
CARD_BYTES = AmountRange(1, 2**48)
HELD_BYTES = AmountRange(0, CARD_BYTES.most)
#: A card's number on its node.
CARD_INDEX = AmountRange(0, 4095)
#: All cards of a node, instances included: sixteen cards of seven instances are 112. The tables
#: have as many columns as the node with the most cards, so one node's cards cost memory on all.
CARDS_OF_NODE = AmountRange(0, 128)
#: Resources that a node offers: each takes a column of all nodes' tables.
NODE_RESOURCES = AmountRange(0, 64)
#: Images in one node's status. A kubelet lists 50 by default (`nodeStatusMaxImages`).
NODE_IMAGES = AmountRange(0, 500)
#: Linux has 1024 at most.
NUMA_NODE = AmountRange(0, 4095)
#: MB/s, both directions summed: 1 PB/s.
LINK_SPEED = AmountRange(0, 10**9)
#: Pods on one card; 0 is no limit.
CARD_TENANTS = AmountRange(0, 1_000_000)
#: A card's capacity in thousandths of its own size: a thousandth of it to a hundredfold.
SCALING = AmountRange(1, 100_000)
#: One pod's share of a card, which may be a whole card with scaled cores.
HELD_MILLI = AmountRange(0, SCALING.most)
#: KubeShare documents 0…100.
CELL_PRIORITY = AmountRange(0, 1_000_000)
#: Cards that one pod may ask for: far above any node.
CLAIMED_CARDS = AmountRange(1, 1_000_000)
#: Claims of one pod: one for each of its containers that asks.
POD_CLAIMS = AmountRange(1, 32)
#: UUIDs that a claim names, and as many that it denies: all cards of a node.
CLAIMED_UUIDS = AmountRange(0, CARDS_OF_NODE.most)
#: Parts of models that a claim names, and as many that it denies; each part is compared with every
#: model of the cluster.
CLAIMED_MODELS = AmountRange(0, 256)
#: Tags of one claim.
CLAIM_TAGS = AmountRange(0, 8)
#: Pods of a group, and those that start together. Kubernetes' clusters have 150,000.
GROUP_MEMBERS = AmountRange(1, 1_000_000)
GROUP_MINIMUM = AmountRange(0, GROUP_MEMBERS.most)
#: Kubernetes' bound of a pod's priority and other counts.
INT32 = AmountRange(-(2**31), 2**31 - 1)
#: Characters of a card's uuid or model.
CARD_NAME = AmountRange(1, 253)
#: Nodes of a simulated cluster.
SIMULATED_NODES = AmountRange(0, 20_000)
