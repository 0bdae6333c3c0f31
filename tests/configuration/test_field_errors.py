"""msgspec's errors in words: the place first, then the rule, the value and the choices."""

from enum import StrEnum
from typing import Any

import msgspec
import pytest

from kubeshare_py.configuration.field_errors import explained, one_of


class _Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class _Part(msgspec.Struct, forbid_unknown_fields=True):
    colour: _Colour = _Colour.RED
    size: int = 0


class _Whole(msgspec.Struct, forbid_unknown_fields=True):
    parts: tuple[_Part, ...] = ()
    spare: _Part | None = None
    by_name: dict[str, _Part] = {}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"part": 1}, "part: no such field; there are parts, spare, by_name"),
        ({"parts": [{"colour": "pink"}]}, "parts[0].colour: must be red or blue, not 'pink'"),
        ({"spare": {"colour": "pink"}}, "spare.colour: must be red or blue, not 'pink'"),
        ({"spare": {"color": "red"}}, "spare.color: no such field; there are colour, size"),
        ({"parts": [{"size": "1"}]}, "parts[0].size: Expected `int`, got `str` ('1')"),
        ([], "document: Expected `object`, got `array`"),
    ],
)
def test_an_error_names_its_place_and_what_may_be_there(document: Any, said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(document, _Whole)
    assert explained(str(caught.value), document, _Whole) == said


def test_two_choices_are_joined_by_or_and_more_are_listed() -> None:
    assert one_of(["a", "b"]) == "a or b"
    assert one_of(["a", "b", "c"]) == "one of a, b, c"
