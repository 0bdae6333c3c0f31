"""The list that a watch begins with: objects one by one, changes among them, a bookmark at the end.

https://kubernetes.io/docs/reference/using-api/api-concepts/#streaming-lists
"""

from typing import Generic, TypeVar

import msgspec

from kubeshare_py.manifests.watch import BOOKMARK, DELETED, Codec, Line, Problem

T = TypeVar("T", bound=msgspec.Struct)


class InitialList(Generic[T]):
    """Collects lines until the bookmark.

    Only all of them together are as new as the request: what the server had when it began may be
    older, and the changes before the bookmark make up for it. So nothing counts before that.
    """

    def __init__(self, codec: Codec[T]) -> None:
        self._codec = codec
        self._lines: dict[tuple[str, str], Line[T]] = {}
        #: Where the watch goes on; "" until the bookmark has come.
        self.resource_version = ""

    def take(self, lines: list[Line[T]]) -> list[Line[T]]:
        """Take lines up to the bookmark; answers those that come after it."""
        for number, line in enumerate(lines, 1):
            if line.type == BOOKMARK:
                if line.ends_list:
                    self.resource_version = line.resource_version
                    return lines[number:]
            elif line.type == DELETED:
                self._lines.pop(self._key(line), None)
            else:
                self._lines[self._key(line)] = line
        return []

    def items(self) -> list[T]:
        """The objects that could be decoded."""
        return [line.item for line in self._lines.values() if line.item is not None]

    def problems(self) -> list[Problem]:
        """Those that could not."""
        return [line.problem for line in self._lines.values() if line.problem is not None]

    def _key(self, line: Line[T]) -> tuple[str, str]:
        if line.item is not None:
            return self._codec.key(line.item)
        problem = line.problem or Problem(text="")
        return problem.namespace, problem.name
