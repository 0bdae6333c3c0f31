"""Foreign input: odd values, and objects with odd values in some places."""

import copy
import json
from typing import Any

from hypothesis import strategies as st

Json = Any

#: Where integers, floats and decimals of some size or sort end.
NUMBERS = (
    *(0, 1, -1, 512, 513, 4095, 4096, 65_535, 65_536, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1),
    *(2**48, 2**48 + 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64 - 1, 2**64, 10**30),
    *(10**400, -(10**400), 0.5, -0.5, 1e15, 1e300, 5e-324),
)
QUANTITIES = ("1e400", "1e999", "9E", "1Ei", "1Ki", "500m", "1n", ".5", "5.", "1_0", "0x10", "٣")
MODELS = ("*", "*>A", "A > *", "A,,B", ",".join("ABCDEFGHIJKLMNOPQRST"), "a" * 1025)
WORDS = (
    "",
    " ",
    "a/b",
    "A100",
    "true",
    "NaN",
    "Infinity",
    "-inf",
    "{}",
    "[]",
    "null",
    "é",
    "\x00",
)
TEXTS = st.one_of(
    st.sampled_from([str(number) for number in NUMBERS]),
    st.sampled_from((*QUANTITIES, *MODELS, *WORDS, "9" * 5000, "[" * 3000)),
    st.text(max_size=8),
)
SCALARS = st.none() | st.booleans() | st.sampled_from(NUMBERS) | TEXTS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


def places(value: Json, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Where something is in a JSON value, the value itself left out."""
    if isinstance(value, dict):
        found = [(*path, key) for key in value]
    elif isinstance(value, list):
        found = [(*path, at) for at in range(len(value))]
    else:
        return []
    return [*found, *(deep for one in found for deep in places(value_at(value, one, path), one))]


def value_at(value: Json, place: tuple[str | int, ...], below: tuple[str | int, ...] = ()) -> Json:
    """What is there, counted from the value at `below`."""
    for step in place[len(below) :]:
        value = value[step]
    return value


@st.composite
def changed(draw: st.DrawFn, example: Json, most: int = 3, like: bool = True) -> Json:
    """The example with odd values in up to `most` places; with `like` mostly of the same type."""
    made = copy.deepcopy(example)
    for place in draw(st.lists(st.sampled_from(places(example)), min_size=1, max_size=most)):
        *way, last = place
        try:
            holder = value_at(made, tuple(way))
            was = holder[last]
        except (LookupError, TypeError):
            continue  # What was there is something else already.
        if isinstance(holder, str):
            continue
        same = st.sampled_from(NUMBERS) if isinstance(was, int | float) else VALUES
        same = TEXTS if isinstance(was, str) else same
        holder[last] = draw(st.one_of(same, same, VALUES) if like else VALUES)
    return made


def as_json(value: Json) -> bytes:
    """The bytes, lone surrogates and numbers of any size included."""
    return json.dumps(value).encode()
