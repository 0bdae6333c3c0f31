"""Typed reading of small YAML documents, with errors that name file, field and rule."""

from typing import TypeVar

import msgspec
import yaml

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


class DocumentProblem(ValueError):
    """A document breaks a rule: which file, which field (`nodes[0].count`), which rule."""

    def __init__(self, source: str, path: str, rule: str) -> None:
        self.source = source
        self.path = path
        self.rule = rule
        super().__init__(": ".join(part for part in (source, path, rule) if part))


def read_document(text: str, source: str, kind: type[Document]) -> Document:
    """Read YAML `text` into the msgspec struct `kind`.

    Raises DocumentProblem when the text is not YAML or does not have the struct's shape.
    """
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        raise DocumentProblem(source, _position(problem), _reason(problem)) from problem
    try:
        return msgspec.convert(raw, kind)
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
        if not digits.strip().isdecimal() or unit not in _UNITS:
            raise ValueError(f"{amount!r} is not an amount of memory such as 40GiB or 40960MiB")
        value = int(digits) * _UNITS[unit]
    if value <= 0:
        raise ValueError(f"{amount!r} is not more than 0 bytes")
    return value


def _position(problem: yaml.YAMLError) -> str:
    mark = getattr(problem, "problem_mark", None)
    return f"line {mark.line + 1}" if mark is not None else ""


def _reason(problem: yaml.YAMLError) -> str:
    return f"is not YAML: {getattr(problem, 'problem', None) or problem}"
