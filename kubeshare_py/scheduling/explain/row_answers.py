"""What plugins say that single rows lack; each is asked once for all rows that look alike to it.

A row that a plugin is asked about notes what the plugin reads of it. An answer follows from what
was read, so it holds for every other row with the same values there, and a question about a whole
cluster costs as many calls as there are different rows, not as there are nodes.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

from kubeshare_py.cluster.columns import CARD_COLUMNS, NODE_COLUMNS, Columns
from kubeshare_py.cluster.rows import OneRow
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework import answer_checks
from kubeshare_py.framework.boundary import Boundary, PluginFailed
from kubeshare_py.framework.claims.claim_fit import names_cards
from kubeshare_py.framework.points import Explain
from kubeshare_py.framework.scheduler_profile import AtPoint

#: What may be read of a row whose value is that of columns: the column of the same name.
_COLUMNS = frozenset((*NODE_COLUMNS, *CARD_COLUMNS, "free", "allocatable", "present"))
#: What is the same for all rows: names and values by number, whose numbers are in columns.
_COMMON = frozenset(("models", "tag_counts", "taints", "features", "resources", "boards"))
_UUIDS, _PORTS = "uuids", "host_ports"
#: The slot of what is not about a card.
NO_SLOT = -1


@dataclass(frozen=True, slots=True)
class RowAnswer:
    """What a plugin says that a row lacks: slots of cards, or NO_SLOT, and what is lacking.

    The subject of a card's shortfall is left out. `failure` says that the plugin failed.
    """

    lacks: tuple[tuple[int, Shortfall], ...] = ()
    failure: str = ""


class NotedRow(OneRow):
    """One row that notes the names of what is read of it."""

    __slots__ = ("_read",)
    _read: set[str]

    def __init__(self, columns: Columns, row: int) -> None:
        super().__init__(columns, row)
        _put_read(self, set())

    def __getattribute__(self, name: str) -> object:
        if name[0] != "_":
            self._read.add(name)
        return object.__getattribute__(self, name)


_put_read = vars(NotedRow)["_read"].__set__


class RowAnswers:
    """What one plugin says of rows, about one shape; `asked` is how often it was asked.

    The answers are valid as long as the columns have the same `layout`.
    """

    def __init__(self, at_point: AtPoint[Explain], shape: Shape, *, trusted: bool) -> None:
        """`trusted` plugins read uuids only to say which card they mean, if no claim has some."""
        self._plugin, self._shape = at_point.plugin, shape
        self._by_slot = trusted and not any(map(names_cards, shape.claims))
        #: By the names of what was read, by the values that were read.
        self._known: dict[frozenset[str], dict[Hashable, RowAnswer]] = {}
        #: Each different answer once, so that equal answers are the same object.
        self._different: dict[RowAnswer, RowAnswer] = {}
        self.asked = 0

    def known(self, columns: Columns, row: int) -> RowAnswer | None:
        """The answer about a row that looks like one asked about before."""
        for read, answers in self._known.items():
            found = answers.get(self._values(columns, row, read))
            if found is not None:
                return found
        return None

    def ask(self, boundary: Boundary, columns: Columns, row: int) -> RowAnswer:
        """Ask the plugin about this row."""
        self.asked += 1
        noted = NotedRow(columns, row)
        try:
            lacks = boundary.call(self._plugin, "Explain", None, self._listed, noted)
            slots = {uuid: slot for slot, uuid in enumerate(columns.uuids[row])}
            answer = RowAnswer(tuple(_by_slot(one, slots) for one in lacks))
        except PluginFailed as failure:
            answer = RowAnswer(failure=str(failure))
        read = frozenset(noted._read) - _COMMON
        if self._by_slot:
            read -= {_UUIDS}
        answer = self._different.setdefault(answer, answer)
        self._known.setdefault(read, {})[self._values(columns, row, read)] = answer
        return answer

    def _listed(self, row: NotedRow) -> list[Shortfall]:
        return answer_checks.each(self._plugin.explain(self._shape, row), Shortfall)

    def _values(self, columns: Columns, row: int, read: frozenset[str]) -> Hashable:
        """The values of what was read, on this row; of anything else, the row's own number."""
        found: list[Hashable] = []
        for name in read:
            if name in _COLUMNS:
                found.append(getattr(columns, name)[row].tobytes())
            elif name == _PORTS:
                found.append(frozenset(columns.pods.host_ports(row)))
            else:
                found.append(row)
        return tuple(found)


def _by_slot(lack: Shortfall, slots: Mapping[GpuUuid, int]) -> tuple[int, Shortfall]:
    slot = slots.get(GpuUuid(lack.subject), NO_SLOT)
    return (slot, lack) if slot == NO_SLOT else (slot, replace(lack, subject=""))
