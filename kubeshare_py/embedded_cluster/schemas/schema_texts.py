"""Strings against a schema: lengths, patterns, formats."""

import re
from functools import cache

from kubeshare_py.embedded_cluster.protocol.status import Json, StatusCause, wrong
from kubeshare_py.embedded_cluster.schemas.schema_causes import mistyped
from kubeshare_py.embedded_cluster.schemas.schema_formats import is_formatted, recognised

_ONLY_IN_GO = re.compile(r"\\[pPCQ]")
_POSIX = {
    "[:alnum:]": "0-9A-Za-z",
    "[:alpha:]": "A-Za-z",
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:upper:]": "A-Z",
    "[:space:]": r"\s",
    "[:word:]": r"\w",
    "[:xdigit:]": "0-9A-Fa-f",
}


def text_causes(value: str, schema: Json, path: str) -> list[StatusCause]:
    """Everything wrong with a string."""
    found = []
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    pattern = schema.get("pattern")
    if longest is not None and len(value) > longest:
        text = f"Too long: may not be more than {longest} bytes"
        found.append(StatusCause(field=path, message=text, reason="FieldValueTooLong"))
    elif shortest is not None and len(value) < shortest:
        found.append(wrong(path, value, f"{path} in body should be at least {shortest} chars long"))
    elif pattern and not matches(pattern, value):
        found.append(wrong(path, value, f"{path} in body should match '{pattern}'"))
    form = recognised(schema)
    if form and not is_formatted(value, form):
        found.append(mistyped(path, form, value))
    return found


def matches(pattern: str, value: str) -> bool:
    """Whether a Go pattern is found in a string; patterns unknown to Python match all."""
    if _ONLY_IN_GO.search(pattern):
        return True
    return _compiled(pattern).search(value) is not None


def pattern_problem(pattern: str) -> str:
    """Why it is no pattern ("" if it is one)."""
    try:
        matches(pattern, "")
    except re.error as error:
        return f"must be a valid regular expression, but isn't: {error}"
    return ""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """The pattern with Go's end of text, and its classes of characters."""
    parts = re.split(r"(\\.|\[:\w+:\]|\[\^?\]?|\]|\$)", pattern, flags=re.DOTALL)
    inside = False
    for index, part in enumerate(parts):
        if part in _POSIX and inside:
            parts[index] = _POSIX[part]
        elif part in ("$", r"\z") and not inside:
            parts[index] = r"\Z"
        elif part.startswith("[") and inside:
            parts[index] = "\\" + part
        elif part.startswith("[") or part == "]":
            inside = part != "]"
    return re.compile("".join(parts))
