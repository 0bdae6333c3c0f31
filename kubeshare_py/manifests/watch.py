"""LIST pages and watch lines as typed structs, and the list at the beginning of a watch."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import GenericAlias
from typing import Any, Generic, TypeVar

import msgspec

from kubeshare_py.domain.printable import MAX_SAID, beginning
from kubeshare_py.manifests.decoding import UNDECODABLE
from kubeshare_py.manifests.shallow_json import decoded, shallow

# LIST pages and watch lines as typed structs of the needed fields.
#
# One object that does not match its type must not spoil the rest: it is reported as a `Problem`,
# and the others are delivered. Wire format:
# https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes


T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
BOOKMARK, ERROR = "BOOKMARK", "ERROR"
#: Their objects are not of the watched type, or say something else.
_APART = frozenset({BOOKMARK, ERROR})
#: The annotation of the bookmark that ends a watch's initial list.
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class UnreadableAnswer(Exception):
    """A LIST answer is no list of objects."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An object that could not be decoded.

    Its identity as far as readable ("" if not), and the reason.

    `text` ends with the path of the bad field, such as "Expected `int`, got `str` - at `$.spec.x`".
    """

    text: str
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a LIST; `continue_token` is "" on the last one."""

    items: list[T]
    resource_version: str
    continue_token: str
    problems: list[Problem]


class WatchLine(msgspec.Struct, Generic[T], frozen=True, kw_only=True, gc=False):
    """One line of a watch, as it is decoded: the API server writes `type` and `object`.

    `type` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and "" for a line that is not a watch
    event at all. `item` is None for the last three and where there is a `problem`; the other fields
    are of such lines only. `bare_version` is the version of what is no item ("" if unknown; see
    `Codec.version`). `status_code` is an ERROR's, else 0. `ends_list`: the BOOKMARK after the
    objects that a streamed list began with.
    """

    type: str
    item: T | None = msgspec.field(default=None, name="object")
    bare_version: str = ""
    status_code: int = 0
    problem: Problem | None = None
    ends_list: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ListResult(Generic[R]):
    """Everything there is. `asked_at` is the event loop's time (s) when the list was requested."""

    items: list[R]
    problems: list[Problem]
    asked_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes(Generic[T]):
    """The following changes, in order: lines of type ADDED, MODIFIED or DELETED.

    A line has an `item` or, if the object could not be decoded, a `problem`.
    """

    changed: list[WatchLine[T]]


class _ListMeta(msgspec.Struct, frozen=True):
    resourceVersion: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _RawPage(msgspec.Struct):
    items: list[msgspec.Raw] | None = None
    metadata: _ListMeta = _ListMeta()


class _RawLine(msgspec.Struct):
    type: str
    object: msgspec.Raw


#: What a decoder says of null in place of a change's object.
_NULL = "Expected `object`, got `null` - at `$.object`"
_ANYTHING = msgspec.json.Decoder()
_RAW_PAGE = msgspec.json.Decoder(_RawPage)
_RAW_LINE = msgspec.json.Decoder(_RawLine)


class Codec(Generic[T]):
    """Decodes lists and watches of one struct type; decoders are built once for each type.

    The type needs a field for `metadata` with fields for `resourceVersion` and `name`, whatever
    their Python names are.
    """

    def __init__(self, kind: type[T]) -> None:
        self._item: msgspec.json.Decoder[T]
        self._line: msgspec.json.Decoder[WatchLine[T]]
        self._item, self._page, self._line = _decoders(kind)
        self._version: Callable[[T], str] = operator.attrgetter(_path(kind, "resourceVersion"))
        self._name: Callable[[T], str] = operator.attrgetter(_path(kind, "name"))
        namespace = _path(kind, "namespace")
        self._namespace = operator.attrgetter(namespace) if namespace else None

    def page(self, body: bytes) -> Page[T]:
        """Decode one page of a LIST; raises UnreadableAnswer if it is not one."""
        problems: list[Problem] = []
        try:
            found = self._page.decode(body)
            items: list[T] = found.items or []
        except UNDECODABLE as error:
            if (flat := _without_depths(body, error)) is not body:
                return self.page(flat)
            found, items = self._one_by_one(body, problems)
        return Page(
            items=items,
            resource_version=found.metadata.resourceVersion,
            continue_token=found.metadata.continue_,
            problems=problems,
        )

    def line(self, line: bytes) -> WatchLine[T]:
        """Decode one line of a watch. Never raises: errors are the line's `problem`."""
        try:
            decoded_line = self._line.decode(line)
            if decoded_line.type not in _APART and decoded_line.item is not None:
                return decoded_line
        except UNDECODABLE as error:
            if (flat := _without_depths(line, error)) is not line:
                return self.line(flat)
            return self._line_apart(line, str(error))
        return self._line_apart(line, _NULL)

    def version(self, line: WatchLine[T]) -> str:
        """The version at which a broken watch resumes after this line; "" if it is unknown."""
        return line.bare_version if line.item is None else self._version(line.item)

    def key(self, item: T) -> tuple[str, str]:
        """The namespace ("" if its type has none) and name of an object."""
        return self._namespace(item) if self._namespace else "", self._name(item)

    def _one_by_one(self, body: bytes, problems: list[Problem]) -> tuple[_RawPage, list[T]]:
        try:
            found = decoded(_RAW_PAGE, body)
        except UNDECODABLE as error:
            raise UnreadableAnswer(f"{error} in {body[:100]!r}") from error
        items = []
        for raw in found.items or []:
            try:
                items.append(decoded(self._item, bytes(raw)))
            except UNDECODABLE as error:
                problems.append(_problem(str(error), _loosely(raw)))
        return found, items

    def _line_apart(self, line: bytes, why: str) -> WatchLine[T]:
        """Read what is readable of a line whose object does not match the type."""
        try:
            event = decoded(_RAW_LINE, line)
        except UNDECODABLE as error:
            return WatchLine(type="", problem=Problem(text=f"{error} in {line[:100]!r}"))
        loose = _loosely(event.object)
        if event.type == ERROR:
            code = loose.get("code")
            return WatchLine(
                type=ERROR,
                status_code=code if isinstance(code, int) else 0,
                problem=Problem(text=beginning(str(loose.get("message", "")), MAX_SAID)),
            )
        version = _text(_metadata(loose), "resourceVersion")
        if event.type == BOOKMARK:
            annotations = _metadata(loose).get("annotations")
            ends = isinstance(annotations, dict) and INITIAL_EVENTS_END in annotations
            return WatchLine(type=BOOKMARK, bare_version=version, ends_list=ends)
        # The object's path in the line is "$.object"; alone it is "$", as in a LIST.
        problem = _problem(why.replace("`$.object", "`$"), loose)
        return WatchLine(type=event.type, bare_version=version, problem=problem)


def _without_depths(text: bytes, error: Exception) -> bytes:
    """The text cut off where it was nested too deep; the same bytes for other errors."""
    return shallow(text) if isinstance(error, RecursionError) else text


@cache
def _decoders(kind: type[msgspec.Struct]) -> tuple[msgspec.json.Decoder[Any], ...]:
    """Of an item, of a page and of a line. To build them takes a millisecond, most of it types."""
    items: Any = GenericAlias(list, (kind,)) | None  # not list[kind]: mypy knows no such type
    page = msgspec.defstruct(
        "_Page",
        [("items", items, None), ("metadata", _ListMeta, _ListMeta())],
    )
    line: Any = GenericAlias(WatchLine, (kind,))
    return msgspec.json.Decoder(kind), msgspec.json.Decoder(page), msgspec.json.Decoder(line)


@cache
def _path(kind: type[msgspec.Struct], wanted: str) -> str:
    """The Python names on the way to a field of metadata; "" if there is no such field."""
    metadata = next(f for f in msgspec.structs.fields(kind) if f.encode_name == "metadata")
    names = {f.encode_name: f.name for f in msgspec.structs.fields(metadata.type)}
    return f"{metadata.name}.{names[wanted]}" if wanted in names else ""


def _loosely(raw: bytes | msgspec.Raw) -> dict[str, Any]:
    """Decode anything; a value that is no object (or no UTF-8) becomes an empty one."""
    try:
        loose = decoded(_ANYTHING, bytes(raw))
    except UNDECODABLE:
        return {}
    return loose if isinstance(loose, dict) else {}


def _metadata(loose: dict[str, Any]) -> dict[str, Any]:
    metadata = loose.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _problem(text: str, loose: dict[str, Any]) -> Problem:
    metadata = _metadata(loose)
    namespace, name, uid = (_text(metadata, key) for key in ("namespace", "name", "uid"))
    return Problem(text=text, namespace=namespace, name=name, uid=uid)


# The list at the start of a watch: objects one by one, with changes among them, then a bookmark.
#
# https://kubernetes.io/docs/reference/using-api/api-concepts/#streaming-lists


class InitialList(Generic[T, R]):
    """Collects lines until the bookmark, and reduces each object by `reduce`.

    Only all of them together are as new as the request: the server's state when it began may be
    older, and the changes before the bookmark bring it up to date. So nothing counts before the
    bookmark.
    """

    def __init__(self, codec: Codec[T], reduce: Callable[[T], R]) -> None:
        self._codec = codec
        self._reduce = reduce
        self._items: dict[tuple[str, str], R] = {}
        self._problems: dict[tuple[str, str], Problem] = {}
        #: Where the watch resumes; "" until the bookmark has come.
        self.resource_version = ""

    def take(self, lines: list[WatchLine[T]]) -> list[WatchLine[T]]:
        """Take lines up to the bookmark; returns those after it."""
        for number, line in enumerate(lines, 1):
            if line.type == BOOKMARK:
                if line.ends_list:
                    self.resource_version = line.bare_version
                    return lines[number:]
            else:
                self._take(line)
        return []

    def items(self) -> list[R]:
        """The objects that could be decoded."""
        return list(self._items.values())

    def problems(self) -> list[Problem]:
        """The problems of the others."""
        return list(self._problems.values())

    def _take(self, line: WatchLine[T]) -> None:
        item, problem = line.item, line.problem or Problem(text="")
        key = (problem.namespace, problem.name) if item is None else self._codec.key(item)
        self._items.pop(key, None)
        self._problems.pop(key, None)
        if line.type == DELETED:
            return
        if item is not None:
            self._items[key] = self._reduce(item)
        elif line.problem is not None:
            self._problems[key] = line.problem
