"""Typed reading of small YAML documents, with errors that name file, field and rule."""

import re
from typing import TypeVar

import msgspec

from kubeshare_py.documents.problems import DocumentProblem
from kubeshare_py.documents.yaml_text import read_yaml

Document = TypeVar("Document")

_UNITS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


#: More digits than any amount has; longer ones would only cost time.
_DIGITS = re.compile("[0-9]{1,40}")
_MOST_SHOWN = 40


def read_document(text: bytes | str, source: str, kind: type[Document]) -> Document:
    """Read YAML `text` into the msgspec struct `kind`.

    Raises DocumentProblem when the text is not YAML or does not have the struct's shape.
    """
    try:
        return msgspec.convert(read_yaml(text, source), kind)
    except msgspec.ValidationError as problem:
        rule, _, path = str(problem).partition(" - at `$")
        raise DocumentProblem(source, path.rstrip("`").lstrip("."), rule) from problem


def memory_bytes(amount: int | str) -> int:
    """Bytes of a card's memory: 42949672960, "40Gi", "40GiB" or "40960MiB".

    Raises ValueError, with the rule as its text.
    """
    if isinstance(amount, int):
        value = amount
    else:
        digits = amount.strip().rstrip("kKMGTiB")
        unit = amount.strip()[len(digits) :].removesuffix("B")
        if not _DIGITS.fullmatch(digits.strip()) or unit not in _UNITS:
            shown = amount if len(amount) <= _MOST_SHOWN else f"{amount[:_MOST_SHOWN]}…"
            raise ValueError(f"{shown!r} is not an amount of memory such as 40GiB or 40960MiB")
        value = int(digits) * _UNITS[unit]
    if value <= 0:
        raise ValueError(f"{amount!r} is not more than 0 bytes")
    return value
