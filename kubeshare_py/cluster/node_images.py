"""Which nodes have which container images."""

from collections.abc import Iterable, Mapping, Sequence

from kubeshare_py.domain.needs.images import NodeImage
from kubeshare_py.domain.node import Node

_NO_ROWS: Mapping[int, int] = {}


class NodeImages:
    """Rows by image, built at the first question and kept up to date from then on."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[str, dict[int, int]] | None = None

    def nodes_with(self, name: str, nodes: Sequence[Node | None]) -> Mapping[int, int]:
        """The image's size (bytes) on each row whose node has it. `nodes` are those of all rows."""
        if self._rows is None:
            self._rows = {}
            for row, node in enumerate(nodes):
                if node is not None:
                    self._add(row, node.images)
        return self._rows.get(name, _NO_ROWS)

    def change(self, row: int, old: Node | None, new: Node | None) -> None:
        """The node of a row is another than before, None if there is none."""
        before, after = (() if node is None else node.images for node in (old, new))
        if self._rows is None or before == after:
            return
        for name in _names(before):
            rows = self._rows.get(name, {})
            rows.pop(row, None)
            if not rows:
                self._rows.pop(name, None)
        self._add(row, after)

    def _add(self, row: int, images: Iterable[NodeImage]) -> None:
        assert self._rows is not None
        for image in images:
            for name in image.names:
                self._rows.setdefault(name, {})[row] = image.size


def _names(images: Iterable[NodeImage]) -> Iterable[str]:
    return (name for image in images for name in image.names)
