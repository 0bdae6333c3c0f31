"""The list at the start of a watch: objects one by one, with changes among them, then a bookmark.

https://kubernetes.io/docs/reference/using-api/api-concepts/#streaming-lists
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from kubeshare_py.manifests.watch import BOOKMARK, DELETED, Codec, Problem, WatchLine

T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")


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
                    self.resource_version = line.resource_version
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
