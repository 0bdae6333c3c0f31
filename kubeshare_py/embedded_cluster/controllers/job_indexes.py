"""Completed indexes of an Indexed Job as its status writes them: `0-2,5`."""

from collections.abc import Iterable


def parse_indexes(text: str) -> set[int]:
    """The numbers of a list of numbers and ranges; other parts are ignored."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.update(range(int(first), int(last or first) + 1))
    return found


def format_indexes(indexes: Iterable[int]) -> str:
    """Numbers as a sorted list, two and more neighbours as a range."""
    ranges: list[list[int]] = []
    for index in sorted(indexes):
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
