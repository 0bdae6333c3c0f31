"""The string formats of a CustomResourceDefinition's schema, and their checks.

List: `format` in JSONSchemaProps of
https://kubernetes.io/docs/reference/kubernetes-api/extend-resources/custom-resource-definition-v1/
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime

from kubeshare_py.embedded_cluster.protocol.names import label_problem, subdomain_problem
from kubeshare_py.embedded_cluster.protocol.status import Json

_UUID = r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?%s-?%s-?[0-9a-f]{12}"
_HEX4, _VARIANT = "[0-9a-f]{4}", "[89ab][0-9a-f]{3}"
_LABEL = r"[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?"
_BYTE = "([01]?[0-9]{1,2}|2[0-4][0-9]|25[0-5])"
_PATTERNS = {
    "bsonobjectid": "[0-9a-fA-F]{24}",
    "uri": r"[a-zA-Z][-+.a-zA-Z0-9]*:.+|/.*",
    "email": r"[^@\s]+@[^@\s]+|.*<[^@\s]+@[^@\s]+>",
    "hostname": rf"{_LABEL}(\.{_LABEL})*",
    "mac": r"[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5,19}|[0-9a-fA-F]{4}(\.[0-9a-fA-F]{4}){2,9}",
    "uuid": _UUID % (_HEX4, _HEX4),
    "uuid3": _UUID % ("3[0-9a-f]{3}", _HEX4),
    "uuid4": _UUID % ("4[0-9a-f]{3}", _VARIANT),
    "uuid5": _UUID % ("5[0-9a-f]{3}", _VARIANT),
    "ssn": r"\d{3}[- ]?\d{2}[- ]?\d{4}",
    "hexcolor": "#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})",
    "rgbcolor": rf"rgb\({_BYTE},{_BYTE},{_BYTE}\)",
    "duration": r"[-+]?(0|(\d+(\.\d*)?|\.\d+)\s*(ns|us|µs|ms|s|m|h|[a-z]+)(\s*\d+(\.\d*)?"
    r"(ns|us|µs|ms|s|m|h))*)",
    "datetime": r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[-+]\d\d:?\d\d)?",
}
_NUMBERS = {"integer": ("int32", "int64"), "number": ("float", "double")}


def recognised(schema: Json) -> str:
    """The schema's format if it applies to its type, else ""."""
    text: str = schema.get("format", "")
    kind = schema.get("type", "")
    if kind in _NUMBERS:
        return text if text in _NUMBERS[kind] else ""
    if kind not in ("", "string"):
        return ""
    return text if _plain(text) in _CHECKS else ""


def is_formatted(text: str, name: str) -> bool:
    """Whether a string has a format; true for formats of numbers."""
    check = _CHECKS.get(_plain(name))
    return check is None or check(text)


def _plain(name: str) -> str:
    """The format's name without dashes, which do not count."""
    return name.replace("-", "")


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _anything(_text: str) -> bool:
    return True


def _cidr(text: str) -> object:
    if "/" not in text:
        raise ValueError(text)
    return ipaddress.ip_network(text, strict=False)


def _is_date_time(text: str) -> bool:
    moment = text.upper().replace(" ", "T")
    return _matches(_PATTERNS["datetime"])(text) and _parses(datetime.fromisoformat)(moment)


def _is_long_name(text: str) -> bool:
    return not subdomain_problem(text)


def _is_short_name(text: str) -> bool:
    return not label_problem(text)


_CHECKS: dict[str, Callable[[str], bool]] = {
    **{name: _matches(pattern) for name, pattern in _PATTERNS.items()},
    # Formats of book and credit card numbers are known, but not checked here.
    **dict.fromkeys(("isbn", "isbn10", "isbn13", "creditcard", "password"), _anything),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": _parses(_cidr),
    "byte": _parses(lambda text: base64.b64decode(text, validate=True)),
    "date": lambda text: text[4:5] == "-" and _parses(date.fromisoformat)(text),
    "datetime": _is_date_time,
    "k8sshortname": _is_short_name,
    "k8slongname": _is_long_name,
}
