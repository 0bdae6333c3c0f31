"""What is remembered by arguments of any size stays within its bytes."""

import pytest

from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.pod import NodeTerm, Shape
from kubeshare_py.domain.remembered import HEAVY, remembered, weight_of


def test_results_are_remembered() -> None:
    asked: list[str] = []

    @remembered(16)
    def loud(text: str) -> str:
        """Doc."""
        asked.append(text)
        return text.upper()

    assert [loud("a"), loud("b"), loud("a")] == ["A", "B", "A"]
    assert asked == ["a", "b"]
    assert (loud.__doc__, loud.__name__) == ("Doc.", "loud")


def test_all_are_forgotten_before_they_weigh_too_much() -> None:
    asked: list[str] = []

    @remembered(16, most_bytes=3 * weight_of(("x" * 100,)))
    def seen(text: str) -> str:
        asked.append(text)
        return text

    texts = [letter * 100 for letter in "abcd"]
    for text in texts:
        seen(text)
    asked.clear()
    assert [seen(text) for text in (texts[3], texts[0], texts[3])] == [
        texts[3],
        texts[0],
        texts[3],
    ]
    assert asked == [texts[0]]


@pytest.mark.parametrize(
    ("value", "least"),
    [
        ("x" * 1000, 1000),
        (("x" * 500, ("y" * 500,)), 1000),
        (frozenset({"x" * 500, "y" * 500}), 1000),
        (Shape(terms=(NodeTerm(labels=(Requirement("k", "In", ("x" * 1000,)),)),)), 1000),
        (7, 1),
    ],
)
def test_weight_is_about_that_of_all_parts(value: object, least: int) -> None:
    assert least <= weight_of(value) <= least + 3000


def test_what_is_heavy_is_forgotten_with_the_next_new_one() -> None:
    asked: list[str] = []

    @remembered(16)
    def seen(text: str) -> int:
        asked.append(text[:1])
        return len(text)

    heavy = "h" * (HEAVY + 1)
    for text in ("a", heavy, heavy, "a", "b", heavy):
        seen(text)
    assert asked == ["a", "h", "b", "h"]


def test_heavy_arguments_are_not_weighed_beyond_what_makes_them_heavy() -> None:
    """A pod's 200,000 labels would take longer to weigh than to read."""
    weighed: list[str] = []

    class Text(str):
        __slots__ = ()

        def isascii(self) -> bool:
            weighed.append(self)
            return True

    @remembered(16)
    def count(texts: tuple[str, ...]) -> int:
        return len(texts)

    assert count(tuple(Text(number) for number in range(HEAVY))) == HEAVY
    assert len(weighed) < HEAVY // 64
