"""The order in which people expect names: `node-2` before `node-10`.

Of its own, because the scheduler sorts its portions by it, and the command the nodes that it shows.
"""

import re

_DIGITS = re.compile(r"([0-9]+)")


NaturalKey = tuple[tuple[int, int, str], ...]


def natural_order(name: str) -> NaturalKey:
    """A key to sort names by; numbers in them count as numbers, and come before letters."""
    parts = _DIGITS.split(name)
    # The text of a number comes along: n1 and n01 are two names, in one order.
    return tuple(
        (0, int(part), part) if at % 2 else (1, 0, part) for at, part in enumerate(parts) if part
    )
