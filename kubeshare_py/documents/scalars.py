"""The value of a plain YAML scalar: null, a truth value, a number, or its text.

As in YAML 1.1 (https://yaml.org/type/), which PyYAML reads and writes, with three differences:
dates and numbers in base 60 (`12:30`) are texts, and numbers beyond 64 bits are refused.
"""

import math
import re
from collections.abc import Mapping

Scalar = str | int | float | bool | None

MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1

_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(0b(?P<two>[01_]+)|0x(?P<sixteen>[0-9a-fA-F_]+)|0(?P<eight>[0-7_]+)"
    r"|(?P<ten>0|[1-9][0-9_]*))"
)
_BASES = {"two": 2, "eight": 8, "ten": 10, "sixteen": 16}
_FLOAT = re.compile(r"([-+]?[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)([eE][-+][0-9]+)?")
_MAY_BE_A_NUMBER = frozenset("+-.0123456789")
#: No number of 64 bits has more digits, in base 2.
_MAX_DIGITS = 64


class ScalarProblem(ValueError):
    """The scalar is refused; the text says why."""


def plain(text: str) -> Scalar:
    """The value of a scalar without quotes. Raises ScalarProblem."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _MAY_BE_A_NUMBER:
        return text
    if _NOT_FINITE.fullmatch(text):
        raise ScalarProblem(f"{text} is not a number")
    found = _INTEGER.fullmatch(text)
    if found is not None:
        return _integer(found)
    return _float(text) if _FLOAT.fullmatch(text) else text


def _integer(found: re.Match[str]) -> int | str:
    name, written = next((name, found[name]) for name in _BASES if found[name])
    digits = written.replace("_", "").lstrip("0") or "0"
    if not written.strip("_"):
        return found[0]
    value = int(digits, _BASES[name]) if len(digits) <= _MAX_DIGITS else MAX_INTEGER + 1
    value = -value if found["sign"] == "-" else value
    if not MIN_INTEGER <= value <= MAX_INTEGER:
        raise ScalarProblem("a number of more than 64 bits")
    return value


def _float(text: str) -> float:
    value = float(text.replace("_", ""))
    if not math.isfinite(value):
        raise ScalarProblem("a number that is too large")
    return value
