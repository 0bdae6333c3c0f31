"""The progress of the search for one pod, of which each iteration does a portion."""

from dataclasses import dataclass

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Shape
from kubeshare_py.scheduling.preemption.potential_victims import cost
from kubeshare_py.scheduling.preemption.search import DraftPlan
from kubeshare_py.scheduling.preemption.victim_search import Portion


@dataclass(slots=True)
class Survey:
    """The search for a pod of this shape.

    `number` is that of `Where`. `node` is the best node yet, and `cost` the cost of its victims.
    `refused` says why no eviction helps on the nodes looked at; None if the search was not made.
    """

    number: int
    shape: Shape
    model: int = 0
    begin: int = 0
    node: NodeName | None = None
    cost: tuple[int, ...] = ()
    refused: dict[NodeName, tuple[str, ...]] | None = None
    is_done: bool = False

    def looked(self, draft: DraftPlan | None, portion: Portion, models: int) -> bool:
        """Record the outcome of a portion; whether that portion was the whole search."""
        if draft is not None and (self.node is None or cost(draft.groups) < self.cost):
            self.node, self.cost = draft.names[draft.placements[0].position], cost(draft.groups)
        self.refused = {**(self.refused or {}), **portion.refused}
        is_all = not self.begin and portion.end is None and models == 1
        self.begin = portion.end or 0
        self.model += portion.end is None
        self.is_done = self.model >= models
        return is_all
