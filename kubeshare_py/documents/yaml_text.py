"""YAML into plain data: the one reader of all files, safe for untrusted text.

It raises only YamlProblem, which has the line and the column. Beyond YAML's rules it refuses what
would take too much time or memory, keys that occur twice or are no scalars, and tags other than
those of plain data. Merge keys (`<<`) and aliases are supported; aliases to one anchor are one
object, and count towards MAX_NODES each time. Keys are texts as written.
https://yaml.org/spec/1.1/
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import msgspec
import yaml
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
)

from kubeshare_py.domain.printable import MAX_SAID, beginning
from kubeshare_py.domain.quantity import BadQuantity, exact

# The value of a plain YAML scalar: null, a truth value, a number, or its text.
#
# As in YAML 1.1 (https://yaml.org/type/), which PyYAML reads and writes, with three differences:
# dates and numbers in base 60 (`12:30`) are texts, and numbers beyond 64 bits are refused.


Scalar = str | int | float | bool | None

MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1

_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(0b(?P<two>[01_]+)|0x(?P<sixteen>[0-9a-fA-F_]+)|0(?P<eight>[0-7_]+)"
    r"|(?P<ten>0|[1-9][0-9_]*))"
)
_BASES = {"two": 2, "eight": 8, "ten": 10, "sixteen": 16}
_FLOAT = re.compile(r"([-+]?[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)([eE][-+][0-9]+)?")
_MAY_BE_A_NUMBER = frozenset("+-.0123456789")
#: No number of 64 bits has more digits, in base 2.
_MAX_DIGITS = 64


class ScalarProblem(ValueError):
    """The scalar is refused; the text says why."""


def plain(text: str) -> Scalar:
    """The value of a scalar without quotes. Raises ScalarProblem."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _MAY_BE_A_NUMBER:
        return text
    if _NOT_FINITE.fullmatch(text):
        raise ScalarProblem(f"{text} is not a number")
    found = _INTEGER.fullmatch(text)
    if found is not None:
        return _integer(found)
    return _float(text) if _FLOAT.fullmatch(text) else text


def _integer(found: re.Match[str]) -> int | str:
    name, written = next((name, found[name]) for name in _BASES if found[name])
    digits = written.replace("_", "").lstrip("0") or "0"
    if not written.strip("_"):
        return found[0]
    value = int(digits, _BASES[name]) if len(digits) <= _MAX_DIGITS else MAX_INTEGER + 1
    value = -value if found["sign"] == "-" else value
    if not MIN_INTEGER <= value <= MAX_INTEGER:
        raise ScalarProblem("a number of more than 64 bits")
    return value


def _float(text: str) -> float:
    value = float(text.replace("_", ""))
    if not math.isfinite(value):
        raise ScalarProblem("a number that is too large")
    return value


# Errors of files, with their place.


#: The most characters of a field's path; keys in it may have any length.
_MAX_PATH = 500


class DocumentProblem(ValueError):
    """A document breaks a rule: which file, which field (`nodes[0].count`), which rule."""

    def __init__(self, source: str, path: str, rule: str) -> None:
        self.source = source
        self.path = path
        self.rule = rule
        parts = (source, beginning(path, _MAX_PATH), beginning(rule, MAX_SAID))
        super().__init__(": ".join(part for part in parts if part))


class YamlProblem(DocumentProblem):
    """The text is no YAML that is accepted here; `line` and `column` count from 1."""

    def __init__(self, source: str, line: int, column: int, rule: str) -> None:
        self.line = line
        self.column = column
        super().__init__(source, f"line {line}, column {column}", rule)


#: A ConfigMap holds 1 MiB; an inventory that lists 5,000 nodes one by one is about 3 MiB.
MAX_BYTES = 16 * 2**20
#: The deepest nesting of mappings and lists. Kubernetes' objects have about 15 levels.
MAX_DEPTH = 64
#: Scalars, lists and mappings, aliases counted each time: about 100 bytes of memory each.
MAX_NODES = 1_000_000

#: As text, because not every PyYAML has libyaml.
Parser: TypeAlias = "type[yaml.SafeLoader] | type[yaml.CSafeLoader]"
#: libyaml's, if PyYAML has it, is ten times as fast.
FAST_PARSER: Parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

#: The most characters of a text in a message.
_MAX_SHOWN = 100
_MERGE = "<<"
_TAG = "tag:yaml.org,2002:"
_KINDS: dict[str, type | tuple[type, ...]] = {
    f"{_TAG}bool": bool,
    f"{_TAG}int": int,
    f"{_TAG}float": (int, float),
    f"{_TAG}null": type(None),
}
_TEXT_TAGS = frozenset({"!", f"{_TAG}str"})
_LIST_TAGS = frozenset({None, "!", f"{_TAG}seq"})
_MAPPING_TAGS = frozenset({None, "!", f"{_TAG}map"})
#: YAML's printable characters; others are refused.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: Characters that escapes can still produce: no file name, label or name has these.
_UNWANTED = re.compile("[\x00\ud800-\udfff]")
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


def read_yaml(data: bytes | str, source: str, parser: Parser = FAST_PARSER) -> object:
    """The one document of a text, None for an empty one; `source` names it in errors.

    Raises YamlProblem.
    """
    documents = read_yaml_documents(data, source, parser, most=1)
    return documents[0] if documents else None


def read_yaml_documents(
    data: bytes | str, source: str, parser: Parser = FAST_PARSER, *, most: int = MAX_NODES
) -> tuple[object, ...]:
    """All documents of a text (`---` between them), in order; raises YamlProblem."""
    found: list[object] = []
    builder = _Builder(source)
    for event in _events(_decoded(data, source), source, parser):
        if isinstance(event, DocumentEndEvent):
            found.append(builder.document())
        elif isinstance(event, DocumentStartEvent) and len(found) == most:
            raise builder.problem(event, "a second document, where one is wanted")
        else:
            builder.take(event)
    return tuple(found)


def _events(text: str, source: str, parser: Parser) -> Iterator[Event]:
    try:
        yield from yaml.parse(text, Loader=parser)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        rule = f"is not YAML: {_shown(error.problem or error.context)}"
        begins = error.context_mark.line + 1 if error.context_mark else line
        if begins != line:
            rule += f" ({_shown(error.context)} that begins in line {begins})"
        raise YamlProblem(source, line, column, rule) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # PyYAML's own parser does not catch some errors of int() and chr().
        rule = f"is not YAML: {_shown(str(error))}"
        raise YamlProblem(source, 1, 1, rule) from error


def _decoded(data: bytes | str, source: str) -> str:
    """UTF-8 or, with its byte order mark, UTF-16."""
    size = len(data)
    if size > MAX_BYTES:
        raise YamlProblem(source, 1, 1, f"is larger than {MAX_BYTES >> 20} MiB")
    text = data if isinstance(data, str) else _text(data, source)
    text = text.removeprefix("\ufeff")
    found = _UNPRINTABLE.search(text)
    if found is not None:
        line, column = _place(text, found.start())
        rule = f"the character U+{ord(found[0]):04X} cannot be in YAML"
        raise YamlProblem(source, line, column, rule)
    return text


def _text(data: bytes, source: str) -> str:
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line, column = _place(data[: error.start].decode(encoding, "replace"), error.start)
        rule = f"is not {encoding.upper()}: {error.reason}"
        raise YamlProblem(source, line, column, rule) from error


def _place(text: str, at: int) -> tuple[int, int]:
    """Line and column of a character, from 1."""
    before = _LINE_BREAK.split(text[:at])
    return len(before), len(before[-1]) + 1


def _shown(text: str | None) -> str:
    """The text in one line, and not too long."""
    text = text or ""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_SHOWN else f"{line[:_MAX_SHOWN]}…"


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come. `began` is the number of nodes before it."""

    event: CollectionStartEvent
    began: int
    items: list[object] = field(default_factory=list)
    entries: dict[str, object] = field(default_factory=dict)
    #: For a mapping: the line of each key, the key whose value comes next, and whether it merges.
    lines: dict[str, int] = field(default_factory=dict)
    key: str | None = None
    merges: bool = False
    merged: dict[str, object] = field(default_factory=dict)

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.event, MappingStartEvent)

    def value(self) -> object:
        if not self.is_mapping:
            return self.items
        return {**self.merged, **self.entries} if self.merged else self.entries


class _Builder:
    """Builds data from parser events, without recursion."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._open: list[_Open] = []
        self._nodes = 0
        #: The values of anchors, and how many nodes they have.
        self._anchors: dict[str, tuple[object, int]] = {}
        self._document: object = None

    def problem(self, event: Event, rule: str) -> YamlProblem:
        """A problem at the place of an event."""
        mark = event.start_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        return YamlProblem(self._source, line, column, rule)

    def document(self) -> object:
        """The document that has ended."""
        found, self._document = self._document, None
        self._anchors.clear()
        return found

    def take(self, event: Event) -> None:
        """Take in one event other than a document's end. Raises YamlProblem."""
        if isinstance(event, ScalarEvent):
            self._scalar(event)
        elif isinstance(event, CollectionStartEvent):
            self._begin(event)
        elif isinstance(event, SequenceEndEvent | MappingEndEvent):
            self._end()
        elif isinstance(event, AliasEvent):
            self._alias(event)

    def _scalar(self, event: ScalarEvent) -> None:
        if _UNWANTED.search(event.value):
            raise self.problem(event, "a text with a character that cannot be in one")
        at = self._open[-1] if self._open else None
        if at is not None and at.is_mapping and at.key is None:
            self._count(event, 1)
            self._key(at, event)
            return
        try:
            value = _value(event)
        except ScalarProblem as problem:
            raise self.problem(event, str(problem)) from problem
        self._put(event, value, 1)

    def _key(self, at: _Open, event: ScalarEvent) -> None:
        key = event.value
        if key in at.lines:
            rule = f"{_shown(key)!r} is there twice, first in line {at.lines[key]}"
            raise self.problem(event, rule)
        at.lines[key] = event.start_mark.line + 1 if event.start_mark else 1
        at.key, at.merges = key, key == _MERGE and event.implicit[0]
        if event.anchor is not None:
            self._anchors[event.anchor] = (key, 1)

    def _begin(self, event: CollectionStartEvent) -> None:
        if len(self._open) == MAX_DEPTH:
            rule = f"lists and mappings in each other, more than {MAX_DEPTH} deep"
            raise self.problem(event, rule)
        is_mapping = isinstance(event, MappingStartEvent)
        if event.tag not in (_MAPPING_TAGS if is_mapping else _LIST_TAGS):
            raise self.problem(event, f"the tag {_shown(event.tag)} is not understood")
        at = self._open[-1] if self._open else None
        if at is not None and at.is_mapping and at.key is None:
            raise self.problem(event, "a list or mapping cannot be a key")
        self._open.append(_Open(event, self._nodes))

    def _end(self) -> None:
        ended = self._open.pop()
        self._put(ended.event, ended.value(), 1, self._nodes - ended.began + 1)

    def _alias(self, event: AliasEvent) -> None:
        found = self._anchors.get(event.anchor or "")
        if found is None:
            raise self.problem(event, f"no anchor &{_shown(event.anchor)} ends before this place")
        value, size = found
        at = self._open[-1] if self._open else None
        if at is not None and at.is_mapping and at.key is None:
            raise self.problem(event, "an alias cannot be a key")
        self._put(event, value, size)

    def _count(self, event: Event, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise self.problem(event, f"more than {MAX_NODES} values, aliases counted each time")

    def _put(self, event: Event, value: object, nodes: int, size: int | None = None) -> None:
        """Add a complete value with `nodes` new nodes; `size` is the number of all its nodes."""
        self._count(event, nodes)
        anchor = None if isinstance(event, AliasEvent) else getattr(event, "anchor", None)
        if anchor is not None:
            self._anchors[anchor] = (value, nodes if size is None else size)
        if not self._open:
            self._document = value
            return
        at = self._open[-1]
        if not at.is_mapping:
            at.items.append(value)
            return
        key, at.key = at.key, None
        assert key is not None
        if at.merges:
            self._merge(at, event, value)
        else:
            at.entries[key] = value

    def _merge(self, at: _Open, event: Event, value: object) -> None:
        """Merge mappings, of which the first counts; https://yaml.org/type/merge.html."""
        for one in value if isinstance(value, list) else [value]:
            if not isinstance(one, dict):
                raise self.problem(event, "<< takes a mapping, or a list of mappings")
            for key, entry in one.items():
                at.merged.setdefault(key, entry)


def _value(event: ScalarEvent) -> Scalar:
    """Raises ScalarProblem."""
    tag, text = event.tag, event.value
    if tag is None:
        return plain(text) if event.implicit[0] else text
    if tag in _TEXT_TAGS:
        return text
    kind = _KINDS.get(tag or "")
    if kind is None:
        raise ScalarProblem(f"the tag {_shown(tag)} is not understood")
    found = plain(text)
    if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
        raise ScalarProblem(f"{_shown(text)!r} is no {_shown(tag).replace(_TAG, '!!')}")
    return found


# Typed reading of small YAML documents, with errors that name file, field and rule.


Document = TypeVar("Document")

#: A space before the unit is accepted, and "GiB" for "Gi".
_SPACE = re.compile(r"(?<=[0-9]) +(?=[a-zA-Z])")
_MAX_SHOWN_VALUE = 40


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
    shown = beginning(text, _MAX_SHOWN_VALUE)
    raise ValueError(f"{shown!r} is not an amount of memory such as 40GiB or 40960MiB")
