"""The terms of a long node affinity as one text, for as long as their pod waits.

5,000 values are 100 KB as text and 500 KB as objects, of 64 bytes each: thousands of these, freed
when their pod goes, leave arenas of Python's allocator that a few others keep from the system.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

from kubeshare_py.domain.label_selector import Requirement
from kubeshare_py.domain.pod import NodeTerm

#: Terms of more objects are packed; nearly all pods' have fewer.
MOST_OBJECTS = 40

#: Objects of a term, and of a line beside its values; bytes of an object.
_OF_TERM, _OF_LINE, _OBJECT = 3, 4, 64


@dataclass(frozen=True, slots=True)
class PackedTerms(Sequence[NodeTerm]):
    """Terms that are made of `text` each time that they are looked at. Equal if the texts are.

    `text` is JSON: of each term its lines on labels and on fields, each with key, operator and
    values. `_weight` is what the terms take as objects (bytes; see `remembered.weight_of`).
    """

    text: str
    length: int
    _weight: int = field(repr=False)

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[NodeTerm]:
        for labels, fields in json.loads(self.text):
            yield NodeTerm(_requirements(labels), _requirements(fields))

    @overload
    def __getitem__(self, index: int) -> NodeTerm: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[NodeTerm, ...]: ...
    def __getitem__(self, index: int | slice) -> NodeTerm | tuple[NodeTerm, ...]:
        return tuple(self)[index]


def packed(terms: tuple[NodeTerm, ...]) -> Sequence[NodeTerm]:
    """The same terms, packed where they are many; equal terms give equal answers."""
    lines = sum(len(term.labels) + len(term.fields) for term in terms)
    values = sum(len(line.values) for term in terms for line in (*term.labels, *term.fields))
    objects = _OF_TERM * len(terms) + _OF_LINE * lines + values
    if objects <= MOST_OBJECTS:
        return terms
    written = [(_written(term.labels), _written(term.fields)) for term in terms]
    text = json.dumps(written, separators=(",", ":"))
    return PackedTerms(text, len(terms), len(text) + _OBJECT * objects)


def _written(lines: tuple[Requirement, ...]) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(line.key, line.operator, line.values) for line in lines]


def _requirements(lines: list[tuple[str, str, list[str]]]) -> tuple[Requirement, ...]:
    return tuple(Requirement(key, operator, tuple(values)) for key, operator, values in lines)
