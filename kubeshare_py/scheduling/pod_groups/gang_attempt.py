"""One attempt to place a gang's members one after the other: what is left to place, and where."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.choice import Choice
from kubeshare_py.scheduling.pod_groups.gang_cards import GangCards, Some
from kubeshare_py.scheduling.queue.gangs import Shapes
from kubeshare_py.topology.gang_context import GangContext


@dataclass(slots=True)
class Run:
    """The members of one shape under one profile."""

    shape: Shape
    #: The rows to fill, the next one last; empty where scores decide.
    order: list[int]
    #: An upper bound of how many fit on each row, (rows,), as of the beginning.
    headroom: IntArray
    #: How many have no place yet.
    left: int
    full: bool = False
    #: The row that is being filled, and how many of them it still gets at most.
    row: int = -1
    here: int = 0


@dataclass(slots=True)
class Attempt:
    """Places members until `need` more have a place, on `rows`, (k,) int64, or on any rows."""

    need: int
    rows: IntArray | None
    shapes: Shapes
    cards: GangCards
    runs: dict[tuple[str, Shape], Run] = field(default_factory=dict)

    def gang_context(self, run: Run, row: int) -> GangContext | None:
        """The cards that this run's next member should be near on this row, if that matters."""
        if run.row != row:
            run.row, run.here = row, min(run.left, self.need, run.headroom.item(row))
        one_node = self.rows is not None and len(self.rows) == 1
        others = [*self._others(run)] if one_node and len(self.shapes) > 1 else ()
        return self.cards.gang_context(row, run.shape, run.here, others)

    def count_of(self, kind: tuple[str, Shape]) -> int:
        """How many members are of this kind; one, if its labels matter only in this attempt."""
        return self.shapes.get(kind, 1)

    def took(self, run: Run, choice: Choice) -> None:
        """Record that a member of this run got a place."""
        self.need -= 1
        run.left -= 1
        run.here -= 1
        self.cards.took(choice.row, choice.slots)

    def try_again(self) -> bool:
        """Try members again whose places depend on those of others; False if there are none."""
        again = [run for run in self.runs.values() if run.full and run.shape.is_cluster_wide]
        for run in again:
            run.full = False
        return bool(again)

    def _others(self, current: Run) -> Iterator[Some]:
        """Members of other runs that have no place yet."""
        for kind, count in self.shapes.items():
            run = self.runs.get(kind)
            if run is None:
                yield kind[1], count
            elif run is not current and not run.full:
                yield run.shape, run.left
