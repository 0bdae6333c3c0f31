"""Makes texts of users and nodes fit to be shown: control characters, and lengths."""

from collections.abc import Sequence

#: The most characters of a sentence for the log.
MAX_SAID = 1000
#: The most characters of a message about an object. Names in it have up to 317 characters each.
MAX_MESSAGE = 4000
#: The most names that a sentence lists, and the most characters of each.
_MAX_LISTED, _MAX_NAME = 16, 200


def printable(text: str) -> str:
    """The text with a "?" for each character that may control a terminal or break a line.

    These are all of Unicode's control, format, separator and surrogate characters except the space:
    C0 and C1 (an escape sequence may begin with U+009B), newlines, changes of the writing
    direction.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "?" for char in text)


def beginning(text: str, most: int) -> str:
    """The text, or its first `most` characters and "…", for sentences that repeat it."""
    return text if len(text) <= most else f"{text[:most]}…"


def listed(names: Sequence[str]) -> str:
    """The names, separated by commas.

    If there are many, the first ones and how many more there are.
    """
    shown = ", ".join(beginning(name, _MAX_NAME) for name in names[:_MAX_LISTED])
    more = len(names) - _MAX_LISTED
    return f"{shown} and {more} more" if more > 0 else shown


def error_text(error: Exception) -> str:
    """An exception's type and text on one line, for sentences about code that is not ours."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - the exception is another's, and so is its __str__
        text = "its text cannot be read"
    name = type(error).__name__
    return beginning(f"{name}: {text}" if text else name, _MAX_NAME)
