"""Typed reading of small YAML documents, with errors that name file, field and rule."""

import re
from typing import TypeVar

import msgspec

from kubeshare_py.documents.problems import DocumentProblem
from kubeshare_py.documents.yaml_text import read_yaml
from kubeshare_py.domain.printable import beginning
from kubeshare_py.domain.quantity import BadQuantity, exact

Document = TypeVar("Document")

#: A space before the unit is accepted, and "GiB" for "Gi".
_SPACE = re.compile(r"(?<=[0-9]) +(?=[a-zA-Z])")
_MAX_SHOWN = 40


def read_document(text: bytes | str, source: str, kind: type[Document]) -> Document:
    """Read YAML `text` into the msgspec struct `kind`.

    Raises DocumentProblem if the text is not YAML or does not match the struct.
    """
    try:
        return msgspec.convert(read_yaml(text, source), kind)
    except msgspec.ValidationError as problem:
        rule, _, path = str(problem).partition(" - at `$")
        raise DocumentProblem(source, path.rstrip("`").lstrip("."), rule) from problem


def memory_bytes(amount: int | str) -> int:
    """The bytes of a card's memory: 42949672960, or a quantity: "40Gi", "40GiB", "40960 MiB".

    Raises ValueError, with the rule as its text.
    """
    value = amount if isinstance(amount, int) else _whole_bytes(amount)
    if value <= 0:
        raise ValueError(f"{amount!r} is not more than 0 bytes")
    return value


def _whole_bytes(text: str) -> int:
    try:
        value = exact(_SPACE.sub("", text.strip()).removesuffix("B"))
        if value.denominator == 1:
            return int(value)
    except BadQuantity:
        pass
    shown = beginning(text, _MAX_SHOWN)
    raise ValueError(f"{shown!r} is not an amount of memory such as 40GiB or 40960MiB")
