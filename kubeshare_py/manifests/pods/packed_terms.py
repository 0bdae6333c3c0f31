"""The terms of a long node affinity as one text, while their pod waits.

5,000 values take 100 KB as text and 500 KB as objects of 64 bytes each. Thousands of such objects,
freed when their pod goes, leave arenas of Python's allocator that a few other objects keep from the
system.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

from kubeshare_py.domain.label_selector import Requirement
from kubeshare_py.domain.pod import NodeTerm

#: Terms with more objects are packed; nearly all pods have fewer.
MAX_OBJECTS = 40

#: The objects of a term, and of a line without its values; the bytes of an object.
_OF_TERM, _OF_LINE, _OBJECT = 3, 4, 64


@dataclass(frozen=True, slots=True)
class PackedTerms(Sequence[NodeTerm]):
    """Terms that are decoded from `text` at each access. Equal if the texts are.

    `text` is JSON: for each term its lines on labels and on fields, each with key, operator and
    values. `_weight` is the size of the terms as objects (bytes; see `remembered.weight_of`).
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
    """The same terms, packed if there are many; equal terms give equal results."""
    lines = sum(len(term.labels) + len(term.fields) for term in terms)
    values = sum(len(line.values) for term in terms for line in (*term.labels, *term.fields))
    objects = _OF_TERM * len(terms) + _OF_LINE * lines + values
    if objects <= MAX_OBJECTS:
        return terms
    written = [(_written(term.labels), _written(term.fields)) for term in terms]
    text = json.dumps(written, separators=(",", ":"))
    return PackedTerms(text, len(terms), len(text) + _OBJECT * objects)


def _written(lines: tuple[Requirement, ...]) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(line.key, line.operator, line.values) for line in lines]


def _requirements(lines: list[tuple[str, str, list[str]]]) -> tuple[Requirement, ...]:
    return tuple(Requirement(key, operator, tuple(values)) for key, operator, values in lines)
