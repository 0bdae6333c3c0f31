"""Makes texts of users and nodes fit to be shown: control characters, and lengths."""

from collections.abc import Callable, Sequence

#: The most characters of a sentence for the log.
MAX_SAID = 1000
#: The most characters of a message about an object. Names in it have up to 317 characters each.
MAX_MESSAGE = 4000
#: The most names that a sentence lists, and the most characters of each.
_MAX_LISTED, _MAX_NAME = 16, 200
#: The most characters of an exception's text, or of a value, of code that is not ours.
MAX_TEXT = 200


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


def error_text(error: BaseException, *, with_type: bool = True) -> str:
    """An exception's type and text on one line, for sentences about code that is not ours."""
    text, name = _text_of(str, error), type(error).__name__
    if text is None:
        text = "its text cannot be read"
    if not with_type:
        return on_one_line(text)
    return on_one_line(f"{name}: {text}" if text else name)


def value_text(value: object, most: int) -> str:
    """A value as Python writes it, for such sentences; its type if that is not to be had."""
    text = _text_of(repr, value)
    return f"a {type(value).__name__}" if text is None else beginning(text, most)


def on_one_line(text: str) -> str:
    """The text on one line, cut to MAX_TEXT characters."""
    return beginning(" ".join(text.split()), MAX_TEXT - 1)


def _text_of(write: Callable[[object], str], value: object) -> str | None:
    """What `str` or `repr` says of another's value; None if it raises."""
    try:
        return write(value)
    except Exception:  # noqa: BLE001 - the value is another's, and so is how it is written
        return None
