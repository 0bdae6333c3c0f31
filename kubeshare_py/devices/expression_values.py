"""What CEL expressions read of a device: its parts, their values, and the functions on values."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import total_ordering
from typing import Any, NamedTuple

from kubeshare_py.domain.device import Device, DeviceAttribute, DeviceCapacity
from kubeshare_py.domain.quantity import BadQuantity, exact

# Precedence of semantic versions: https://semver.org/#spec-item-11.


_NUMBER = r"(?:0|[1-9][0-9]*)"
_IDENTIFIER = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_MAX_CHARACTERS = 256


@total_ordering
@dataclass(frozen=True, slots=True)
class VersionRank:
    """A version, ordered by precedence: a pre-release comes before its release."""

    release: tuple[int, int, int]
    #: Each identifier with its kind: numbers (0) come before texts (1). Empty for a release.
    pre: tuple[tuple[int, int, str], ...] = ()

    def __lt__(self, other: "VersionRank") -> bool:
        return self._key() < other._key()

    def _key(self) -> tuple[tuple[int, int, int], bool, tuple[tuple[int, int, str], ...]]:
        return (self.release, not self.pre, self.pre)


def version_rank(text: str) -> VersionRank | None:
    """The rank of a version; None if the text is none. Build metadata does not count."""
    found = _SEMVER.fullmatch(text) if len(text) <= _MAX_CHARACTERS else None
    if found is None:
        return None
    major, minor, patch, pre = found.groups()
    parts = pre.split(".") if pre else []
    return VersionRank((int(major), int(minor), int(patch)), tuple(map(_identifier, parts)))


def _identifier(text: str) -> tuple[int, int, str]:
    return (0, int(text), "") if text.isdecimal() else (1, 0, text)


# Parts of a device that an expression looks at: devices alike in them get the same verdict.


ReadValue = DeviceAttribute | DeviceCapacity | str | bool | None


class DeviceRead(NamedTuple):
    """A field of the variable `device`; of `attributes` and `capacity`, a domain or an entry.

    `name` None asks whether there is anything in the domain.
    """

    field: str
    domain: str = ""
    name: str | None = None

    def of(self, driver: str, device: Device) -> ReadValue:
        """What it is for a device: the driver, an entry or None, or whether there is any."""
        if self.field == "driver":
            return driver
        if self.field == "allowMultipleAllocations":
            return "allowMultipleAllocations" in device.unsupported
        entries: tuple[DeviceAttribute | DeviceCapacity, ...] = (
            device.attributes if self.field == "attributes" else device.capacity
        )
        domain, name = self.domain, self.name
        if name is None:
            return any(one.domain == domain for one in entries)
        for one in entries:
            if one.name == name and one.domain == domain:
                return one
        return None


# Values of CEL expressions about a device, and the functions on them.
#
# Numbers are 64 bit integers, quantities exact fractions, versions ranks. A map is only looked
# into. Language: https://github.com/google/cel-spec/blob/master/doc/langdef.md. Kubernetes'
# functions on quantities and versions: https://kubernetes.io/docs/reference/using-api/cel/


_INT64 = 1 << 63
#: Longer texts are not made.
_MAX_TEXT = 4096


class EvaluationError(ValueError):
    """The expression has no value for this device, as when an attribute is missing."""


class DeviceNames:
    """The attributes or the capacity of a device in one domain, by name."""

    __slots__ = ("_domain", "_map")

    def __init__(self, domains: "DeviceDomains", domain: str) -> None:
        self._map, self._domain = domains, domain

    def __contains__(self, name: str) -> bool:
        return self._map.found(self._domain, name) is not None

    def get(self, name: str) -> "CelValue":
        """The value. Raises EvaluationError."""
        value = self._map.found(self._domain, name)
        if value is None:
            raise EvaluationError(f"the device has no {self._domain}/{name}")
        return exact(value.quantity) if isinstance(value, DeviceCapacity) else _value(value)


class DeviceDomains:
    """The attributes or the capacity of a device; a domain that it does not have is empty."""

    __slots__ = ("_field", "_variable")

    def __init__(self, variable: "DeviceVariable", field: str) -> None:
        self._variable, self._field = variable, field

    def __contains__(self, domain: str) -> bool:
        return bool(self._variable.read(DeviceRead(self._field, domain)))

    def get(self, domain: str) -> DeviceNames:
        """The names of a domain."""
        return DeviceNames(self, domain)

    def found(self, domain: str, name: str) -> DeviceAttribute | DeviceCapacity | None:
        """An entry, or None."""
        found = self._variable.read(DeviceRead(self._field, domain, name))
        assert found is None or isinstance(found, DeviceAttribute | DeviceCapacity)
        return found


class DeviceVariable:
    """The variable `device`; `reads` is what was looked at of it.

    `matching` are the steps of regular expressions that were matched for it.
    """

    __slots__ = ("device", "driver", "matching", "reads")

    def __init__(self, driver: str, device: Device) -> None:
        self.driver, self.device = driver, device
        self.reads: dict[DeviceRead, None] = {}
        self.matching = 0

    def __contains__(self, field: str) -> bool:
        return field in ("driver", "attributes", "capacity", "allowMultipleAllocations")

    def get(self, field: str) -> "CelValue":
        """A field. Raises EvaluationError."""
        match field:
            case "driver":
                return str(self.read(DeviceRead(field)))
            case "attributes" | "capacity":
                return DeviceDomains(self, field)
            case "allowMultipleAllocations":
                return bool(self.read(DeviceRead(field)))
            case _:
                raise EvaluationError(f"device has no field {field}")

    def read(self, what: DeviceRead) -> ReadValue:
        """A part of the device, which decides the value of the expression with others."""
        self.reads[what] = None
        return what.of(self.driver, self.device)


CelMap = DeviceVariable | DeviceDomains | DeviceNames
CelValue = bool | int | str | Fraction | VersionRank | tuple["CelValue", ...] | CelMap
_MAPS = (DeviceVariable, DeviceDomains, DeviceNames)


def equal(left: CelValue, right: CelValue) -> bool:
    """Whether two values are equal; values of different types are not. Raises EvaluationError."""
    if isinstance(left, _MAPS) or isinstance(right, _MAPS):
        raise EvaluationError("maps are not compared")
    if type(left) is not type(right):
        return False
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(equal, left, right))
    return left == right


def compare(left: CelValue, right: CelValue) -> int:
    """-1, 0 or 1. Raises EvaluationError for values that have no order."""
    if isinstance(left, int | str) and type(left) is type(right):
        return _sign(left, right)  # texts by code points, which is the order of their UTF-8, too
    raise _no_overload("comparison")


def contained(value: CelValue, container: CelValue) -> bool:
    """Whether a list has an equal element, or a map the key. Raises EvaluationError."""
    if isinstance(container, tuple):
        return any(equal(value, one) for one in container)
    if isinstance(container, DeviceDomains | DeviceNames) and isinstance(value, str):
        return value in container
    raise _no_overload("in")


def has_field(container: CelValue, field: str) -> bool:
    """Whether a map has this key. Raises EvaluationError for other values."""
    if isinstance(container, _MAPS):
        return field in container
    raise _no_overload("has()")


def looked_up(container: CelValue, key: CelValue) -> CelValue:
    """An entry of a map or a list. Raises EvaluationError."""
    if isinstance(container, _MAPS) and isinstance(key, str):
        return container.get(key)
    if isinstance(container, tuple) and type(key) is int:
        if 0 <= key < len(container):
            return container[key]
        raise EvaluationError(f"index out of bounds: {key}")
    raise _no_overload("[]")


def added(left: CelValue, right: CelValue) -> CelValue:
    """A sum of numbers, or texts joined. Raises EvaluationError."""
    if isinstance(left, str) and isinstance(right, str):
        if len(left) + len(right) > _MAX_TEXT:
            raise EvaluationError(f"a text of more than {_MAX_TEXT} characters")
        return left + right
    return _int64(_number(left) + _number(right))


def subtracted(left: CelValue, right: CelValue) -> CelValue:
    """A difference. Raises EvaluationError."""
    return _int64(_number(left) - _number(right))


def multiplied(left: CelValue, right: CelValue) -> CelValue:
    """A product. Raises EvaluationError."""
    return _int64(_number(left) * _number(right))


def divided(left: CelValue, right: CelValue) -> CelValue:
    """A quotient, rounded towards 0. Raises EvaluationError."""
    dividend, divisor = _number(left), _number(right)
    if divisor == 0:
        raise EvaluationError("division by zero")
    quotient = abs(dividend) // abs(divisor)
    return _int64(quotient if (dividend < 0) == (divisor < 0) else -quotient)


def remainder(left: CelValue, right: CelValue) -> CelValue:
    """A remainder, with the sign of the dividend. Raises EvaluationError."""
    dividend, divisor = _number(left), _number(right)
    if divisor == 0:
        raise EvaluationError("modulus by zero")
    rest = abs(dividend) % abs(divisor)
    return -rest if dividend < 0 else rest


def negated(value: CelValue) -> CelValue:
    """The number with the other sign. Raises EvaluationError."""
    return _int64(-_number(value))


def truth(value: CelValue) -> bool:
    """The value, which must be a bool. Raises EvaluationError."""
    if isinstance(value, bool):
        return value
    raise _no_overload("a condition")


def _quantity(text: CelValue) -> CelValue:
    try:
        return exact(_text(text))
    except BadQuantity as error:
        raise EvaluationError(str(error)) from error


def _is_quantity(text: CelValue) -> CelValue:
    try:
        exact(_text(text))
    except BadQuantity:
        return False
    return True


def _semver(text: CelValue) -> CelValue:
    rank = version_rank(_text(text))
    if rank is None:
        raise EvaluationError("no semantic version")
    return rank


def _compared(left: CelValue, right: CelValue) -> int:
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return _sign(left, right)
    if isinstance(left, VersionRank) and isinstance(right, VersionRank):
        return _sign(left, right)
    raise _no_overload("compareTo")


def _exact(value: CelValue) -> Fraction:
    if isinstance(value, Fraction):
        return value
    raise _no_overload("a function on quantities")


def _as_integer(value: CelValue) -> CelValue:
    number = _exact(value)
    if number.denominator != 1:
        raise EvaluationError("the quantity is no integer")
    return _int64(number.numerator)


def _fits_integer(value: CelValue) -> CelValue:
    number = _exact(value)
    return number.denominator == 1 and -_INT64 <= number.numerator < _INT64


def _release(value: CelValue, part: int) -> CelValue:
    if isinstance(value, VersionRank):
        return value.release[part]
    raise _no_overload("a function on versions")


def _size(value: CelValue) -> CelValue:
    if isinstance(value, str | tuple):
        return len(value)
    raise _no_overload("size")


#: Functions by name and number of arguments.
FUNCTIONS: Mapping[tuple[str, int], Callable[..., CelValue]] = {
    ("quantity", 1): _quantity,
    ("isQuantity", 1): _is_quantity,
    ("semver", 1): _semver,
    ("isSemver", 1): lambda text: version_rank(_text(text)) is not None,
    ("size", 1): _size,
}
#: Methods by name and number of arguments; the value that they are called on comes first.
METHODS: Mapping[tuple[str, int], Callable[..., CelValue]] = {
    ("startsWith", 1): lambda text, start: _text(text).startswith(_text(start)),
    ("endsWith", 1): lambda text, end: _text(text).endswith(_text(end)),
    ("contains", 1): lambda text, part: _text(part) in _text(text),
    ("lowerAscii", 0): lambda text: _in_ascii(_text(text), str.lower),
    ("upperAscii", 0): lambda text: _in_ascii(_text(text), str.upper),
    ("size", 0): _size,
    ("compareTo", 1): _compared,
    ("isGreaterThan", 1): lambda left, right: _compared(left, right) > 0,
    ("isLessThan", 1): lambda left, right: _compared(left, right) < 0,
    ("isInteger", 0): _fits_integer,
    ("asInteger", 0): _as_integer,
    ("major", 0): lambda value: _release(value, 0),
    ("minor", 0): lambda value: _release(value, 1),
    ("patch", 0): lambda value: _release(value, 2),
}


def _value(attribute: DeviceAttribute) -> CelValue:
    if attribute.version is not None:
        rank = version_rank(attribute.version)
        if rank is None:
            raise EvaluationError(f"{attribute.version} is no semantic version")
        return rank
    for value in (attribute.number, attribute.flag, attribute.text):
        if value is not None:
            return value
    raise EvaluationError(f"attribute {attribute.name} has no value")


def _text(value: CelValue) -> str:
    if isinstance(value, str):
        return value
    raise _no_overload("a function on texts")


def _in_ascii(text: str, change: Callable[[str], str]) -> str:
    return "".join(change(one) if one.isascii() else one for one in text)


def _number(value: CelValue) -> int:
    if type(value) is int:
        return value
    raise _no_overload("arithmetic")


def _int64(number: int) -> int:
    if -_INT64 <= number < _INT64:
        return number
    raise EvaluationError("integer overflow")


def _sign(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def _no_overload(what: str) -> EvaluationError:
    return EvaluationError(f"no such overload: {what} of values of these types")
