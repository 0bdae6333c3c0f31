"""Texts of users and nodes, made fit to be shown: the one border for control characters."""


def printable(text: str) -> str:
    """The text with a "?" for each character that may steer a terminal or break a line.

    That is all of Unicode's control, format, separator and surrogate characters but the space: C0
    and C1 (an escape sequence may begin with U+009B), newlines, changes of the writing direction.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "?" for char in text)
