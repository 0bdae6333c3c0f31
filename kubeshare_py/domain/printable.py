"""Texts of users and nodes, made fit to be shown: control characters, and lengths."""

from collections.abc import Sequence

#: Characters of a sentence for the log, whatever it repeats.
MOST_SAID = 1000
#: Names that a sentence lists, and characters of each.
_MOST_LISTED, _MOST_OF_NAME = 16, 200


def printable(text: str) -> str:
    """The text with a "?" for each character that may steer a terminal or break a line.

    That is all of Unicode's control, format, separator and surrogate characters but the space: C0
    and C1 (an escape sequence may begin with U+009B), newlines, changes of the writing direction.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "?" for char in text)


def beginning(text: str, most: int) -> str:
    """The text, or so many characters of it and "…", for sentences that repeat it."""
    return text if len(text) <= most else f"{text[:most]}…"


def listed(names: Sequence[str]) -> str:
    """The names with commas between them; of many the first, and how many more there are."""
    shown = ", ".join(beginning(name, _MOST_OF_NAME) for name in names[:_MOST_LISTED])
    more = len(names) - _MOST_LISTED
    return f"{shown} and {more} more" if more > 0 else shown
