"""A ledger and one profile of a few plugins: what they say to shapes, by node name."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import AllRows, OneRow, Rows
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.diagnosis import UNCOUNTED, Shortfall
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.framework.boundary import PreFilters
from kubeshare_py.framework.claim_fit import asked_for
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.points import (
    BestCards,
    CardFilter,
    CardPreselection,
    CardScore,
    CardSetScore,
    Explain,
    Filter,
    Score,
)
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.testing.values import GIB, a_gpu, a_node


class _ByArrival:
    """A queue sort, because every profile has one."""

    name = "ByArrival"

    def key(self, pod: Pod) -> tuple[int | str, ...]:
        """Equal for all pods."""
        return ()


class SmallCluster:
    """Plugins run at every point of shapes that they implement: filters, scores, hints, bounds.

    Scores have weight 1, or that in `weights` by name. Answers are checked as the scheduler does.
    `ledger` and `evaluator` are the scheduler's own, and not part of the promise of
    `kubeshare_py.plugin`.
    """

    def __init__(self, *plugins: object, weights: Mapping[str, int] | None = None) -> None:
        self.plugins = plugins
        self.ledger = Ledger()
        self.evaluator = Evaluator(
            Profile(
                scheduler_name="small",
                queue_sort=_ByArrival(),
                filters=[plugin for plugin in plugins if isinstance(plugin, Filter)],
                card_filters=[plugin for plugin in plugins if isinstance(plugin, CardFilter)],
                card_scores=[(plugin, 1) for plugin in plugins if isinstance(plugin, CardScore)],
                scores=[
                    (plugin, (weights or {}).get(plugin.name, 1))
                    for plugin in plugins
                    if isinstance(plugin, Score)
                ],
            ),
            self.ledger,
        )
        self._pods = 0

    def node(self, name: str = "n1", *cards: Gpu, **fields: Any) -> Node:
        """A node with these cards."""
        node = a_node(name, **fields)
        self.ledger.put_node(node)
        self.ledger.put_cards(node.name, cards)
        return node

    def cards(self, name: str, count: int, **fields: Any) -> None:
        """A node with so many cards called <node>-<index>."""
        indexes = range(count)
        self.node(name, *(a_gpu(f"{name}-{index}", index=index, **fields) for index in indexes))

    def hold(
        self,
        node: str = "n1",
        card: str | None = None,
        milli: int = 500,
        *,
        memory: int | None = None,
        exclusive: bool = False,
        port: int | None = None,
        resources: tuple[tuple[str, int], ...] = (),
    ) -> PodUid:
        """A pod holds this from now on."""
        self._pods += 1
        uid = PodUid(f"pod-{self._pods}")
        memory = 40 * GIB * milli // 1000 if memory is None else memory
        charges: tuple[CardCharge, ...] = ()
        if card:
            charges = (CardCharge(GpuUuid(card), milli, memory, exclusive=exclusive),)
        token = DecisionToken(uid)
        allocation = Allocation(token=token, cards=charges, port=port)
        self.ledger.charge(uid, NodeName(node), resources, allocation)
        return uid

    def hold_all(
        self, node: str, cards: list[str], milli: int, *, exclusive: bool = False
    ) -> PodUid:
        """A pod holds as much of each of these cards, and no memory."""
        self._pods += 1
        uid = PodUid(f"pod-{self._pods}")
        charges = tuple(CardCharge(GpuUuid(card), milli, 0, exclusive=exclusive) for card in cards)
        allocation = Allocation(token=DecisionToken(uid), cards=charges)
        self.ledger.charge(uid, NodeName(node), (), allocation)
        return uid

    def where(self, shape: Shape) -> set[str]:
        """The nodes that it fits."""
        names = self.ledger.columns.names
        return {
            str(names[row]) for row in np.flatnonzero(self.evaluator.masks(shape) == 0).tolist()
        }

    def why(self, shape: Shape) -> dict[str, int]:
        """How many nodes give which reason, whichever plugin refuses them first."""
        told = dict(self.evaluator.diagnose(shape).counts)
        if UNCOUNTED in told.values():
            return told
        found: Counter[str] = Counter()
        for mask in self.evaluator.masks(shape)[self.ledger.columns.present].tolist():
            found.update(one.text for one in self.evaluator.reasons_in(shape, mask))
        return dict(found)

    def best(self, shape: Shape) -> tuple[str, list[str]] | None:
        """The chosen node and cards."""
        choice = self.evaluator.best(shape)
        if choice is None:
            return None
        columns = self.ledger.columns
        cards = [str(columns.uuids[choice.row][slot]) for slot in choice.slots]
        return str(columns.names[choice.row]), cards

    def may_fit(self, shape: Shape, node: str = "n1") -> bool:
        """The hints' word on one node."""
        return self.evaluator.may_fit(shape, self.ledger.columns.row_of[NodeName(node)])

    def explain(self, shape: Shape, node: str = "n1") -> list[Shortfall]:
        """What is missing on one node, by the plugins that can tell."""
        columns = self.ledger.columns
        row = OneRow(columns, columns.row_of[NodeName(node)])
        told = [plugin for plugin in self.plugins if isinstance(plugin, Explain)]
        return [each for plugin in told for each in plugin.explain(shape, row)]

    def failure(self, shape: Shape) -> str:
        """Why a plugin failed for the shape; empty if none did."""
        self.evaluator.best(shape)
        failure = self.evaluator.failed.get(shape)
        return "" if failure is None else str(failure)

    def scores(self, shape: Shape, plugin: str = "") -> dict[str, int]:
        """The points of each node, normalised where the plugin says so.

        `plugin` names one of several scores. Of each node the best card by rank is taken, whether
        or not the shape fits.
        """
        named = [one for one in self.plugins if isinstance(one, Score)]
        (scorer,) = (one for one in named if plugin in ("", one.name))
        question = scorer.score(shape, *self._before(shape, scorer))
        assert question is not None, f"{scorer.name} has no say about this shape"
        columns = self.ledger.columns
        used = sorted(columns.row_of.values())
        question = asked_for(shape.claim, question)
        points: IntArray = question(AllRows(columns), self._best_cards(shape))[used]
        if scorer.normaliser is not None:
            points = scorer.normaliser(points)
        names = [str(columns.names[row]) for row in used]
        return dict(zip(names, points.tolist(), strict=True))

    def card_scores(self, shape: Shape, node: str = "n1") -> dict[str, int]:
        """The sum of the ranks of each card of a node, by uuid, whether or not the shape fits."""
        columns = self.ledger.columns
        row = columns.row_of[NodeName(node)]
        ranks = self._ranks(shape, OneRow(columns, row))[0].tolist()
        return {str(uuid): rank for uuid, rank in zip(columns.uuids[row], ranks, strict=False)}

    def _before(self, shape: Shape, plugin: object) -> tuple[object, ...]:
        return PreFilters(self.evaluator.boundary, shape).arguments(plugin)

    def _ranks(self, shape: Shape, rows: Rows) -> IntArray:
        total: IntArray = np.zeros(rows.flags.shape, np.int64)
        for plugin in self.plugins:
            if isinstance(plugin, CardScore):
                rank = plugin.card_score(shape, *self._before(shape, plugin))
                if rank is not None and not isinstance(rank, CardSetScore | CardPreselection):
                    total = total + asked_for(shape.claim, rank)(rows)
        return total

    def _best_cards(self, shape: Shape) -> BestCards | None:
        if shape.claim is None or shape.claim.count > 1:
            return None
        rows = AllRows(self.ledger.columns)
        total = np.where(rows.flags == 0, self._ranks(shape, rows), -1)
        slot = total.argmax(1)
        return BestCards(slot, slot + np.arange(len(slot)) * total.shape[1])
