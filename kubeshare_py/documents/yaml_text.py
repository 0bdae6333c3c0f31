"""YAML into plain data: the one reader of all files, safe for untrusted text.

It raises only YamlProblem, which has the line and the column. Beyond YAML's rules it refuses what
would take too much time or memory, keys that occur twice or are no scalars, and tags other than
those of plain data. Merge keys (`<<`) and aliases are supported; aliases to one anchor are one
object, and count towards MAX_NODES each time. Keys are texts as written.
https://yaml.org/spec/1.1/
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

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

from kubeshare_py.documents.problems import YamlProblem
from kubeshare_py.documents.scalars import Scalar, ScalarProblem, plain

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
