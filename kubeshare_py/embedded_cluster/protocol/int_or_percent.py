"""Amounts that are a number or a percentage: maxSurge, maxUnavailable, minAvailable."""

import re

from kubeshare_py.embedded_cluster.protocol.status import StatusCause, wrong

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


def amount_causes(value: IntOrPercent | None, path: str) -> list[StatusCause]:
    """Everything wrong with the value alone."""
    if isinstance(value, str):
        return [] if _PERCENT.fullmatch(value) else [wrong(path, value, _TEXT)]
    if value is not None and value < 0:
        return [wrong(path, value, "must be greater than or equal to 0")]
    return []


def excess_causes(value: IntOrPercent | None, path: str) -> list[StatusCause]:
    """A percentage must not exceed 100."""
    if not isinstance(value, str) or not _PERCENT.fullmatch(value):
        return []
    excessive = int(value.removesuffix("%")) > WHOLE
    return [wrong(path, value, "must not be greater than 100%")] if excessive else []
