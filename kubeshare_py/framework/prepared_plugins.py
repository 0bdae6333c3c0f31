"""One profile's questions about one shape, prepared once and put to rows, and what asking costs.

The answer about a row is reasons, its best card, and a score. Costs are counted, never timed.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.overlay import WhatIf
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Shape, by_claim
from kubeshare_py.domain.request import CardRelation
from kubeshare_py.framework import answer_checks
from kubeshare_py.framework.boundary import Boundary, PreFilters
from kubeshare_py.framework.claim_fit import asked_for
from kubeshare_py.framework.joint_layout import claim_layout
from kubeshare_py.framework.points import BestCards, Depends, RowFilter, RowScore
from kubeshare_py.framework.prepared_claims import PreparedClaim, PreparedClaims
from kubeshare_py.framework.reasons import BINDING_REFUSED, NO_CARD, NO_NODE, ReasonTable
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.framework.scores import Normalised
from kubeshare_py.topology.card_sets import GangContext

# The cost of asking plugins about a shape, apart from the rows; the unit is one row, about 0.4 µs.
#
# Measured on one core at 2.5 GHz. Costs are counted and never timed, so an iteration ends at the
# same place when its history is replayed.


#: One call of all questions, for any number of rows: some array operations for each plugin.
ASKING = 250
#: Counting the reasons of all rows. Each row adds as much as asking about it does.
DIAGNOSING = 200
#: Preparing the questions of a new shape, by all plugins, and of each further different claim.
_QUESTIONS = 250
#: One line of a required node affinity, for any number of rows; so many rows add one more.
_LINE, _ROWS_OF_LINE = 40, 150
#: Values that are looked up, and tolerations that are made and compared, in the time of one row.
_VALUES, _TOLERATIONS = 6, 2


@dataclass(slots=True)
class EvaluationWork:
    """How much was asked so far; it bounds the work of an iteration.

    `rows` counts rows that were asked about. `other` counts what does not depend on the number of
    rows, and what long affinities add. Both are in rows, which cost about 0.4 µs each.
    """

    rows: int = 0
    other: int = 0

    @property
    def cost(self) -> int:
        """The sum of both, in rows."""
        return self.rows + self.other


def preparing(shape: Shape, rows: int) -> int:
    """The cost, in rows, of asking about a new shape when the tables have so many rows."""
    lines = len(shape.node_selector)
    values = 0
    for term in shape.terms or ():
        for line in (*term.labels, *term.fields):
            lines += 1
            values += len(line.values)
    tolerations = len(shape.tolerations) // _TOLERATIONS
    questions = _QUESTIONS * max(1, len({*shape.claims}))
    return questions + lines * (_LINE + rows // _ROWS_OF_LINE) + values // _VALUES + tolerations


# One profile's questions about one shape, prepared once and put to rows.


C = TypeVar("C")
FILTER, SCORE = "Filter", "Score"


class PreparedPlugins:
    """One profile's plugins, prepared for one shape.

    Arrays have the shape (k,) for k rows, or (k, width) for their cards; numbers are int64. Masks
    are negated: a row's number is minus its mask of reasons, and 0 where the shape fits.
    """

    __slots__ = (
        "_boundary",
        "_profile",
        "absolute",
        "claim",
        "claims",
        "cluster_filters",
        "cluster_scores",
        "names_card",
        "normalised",
        "reasons",
        "row_filters",
        "scorers",
        "static",
        "static_scores",
    )

    def __init__(self, profile: Profile, shape: Shape, boundary: Boundary) -> None:
        """Raises PluginFailed if a plugin fails while it prepares its question."""
        self._profile, self._boundary = profile, boundary
        # Each shape has its own table, so that one pod's wishes cannot use up another's bits.
        self.reasons = ReasonTable.ranked(plugin.name for plugin in profile.filters)
        self.static: list[RowFilter] = []
        self.row_filters: list[RowFilter] = []
        #: Questions whose answers depend on the whole cluster.
        self.cluster_filters: list[RowFilter] = []
        self.cluster_scores: list[Normalised] = []
        #: Questions with their weights, and the plugin if its answers are to be checked.
        self.absolute: list[tuple[RowScore, int, object | None]] = []
        #: The names of these plugins, in the same order.
        self.scorers: list[str] = []
        self.normalised: list[Normalised] = []
        #: Normalised scores that depend on the node object alone.
        self.static_scores: list[Normalised] = []
        #: Whether the names of cards anywhere in the cluster decide.
        self.names_card = shape.card_name is not None
        before = PreFilters(boundary, shape)
        self._prepare_filters(shape, before)
        #: What is asked about the cards: of the only claim, or of several.
        self.claim: PreparedClaim | None = None
        self.claims: PreparedClaims | None = None
        if shape.claim is not None:
            self.claim = PreparedClaim(profile, shape, before, boundary, self.reasons)
        elif shape.claims:
            self.claims = self._of_several(shape)
        self._prepare_scores(shape, before)

    def _of_several(self, shape: Shape) -> PreparedClaims:
        layout = claim_layout(shape.claims, shape.relation)
        profile, boundary, reasons = self._profile, self._boundary, self.reasons
        prepared = [
            PreparedClaim(profile, alone, PreFilters(boundary, alone), boundary, reasons)
            for alone in by_claim(shape)
        ]
        # As HAMi places containers, which its pods' own policies are made for.
        in_turn = shape.policy is not None and shape.relation is CardRelation.FREE
        return PreparedClaims(layout, prepared, self.reasons, in_turn=in_turn)

    def _prepare_filters(self, shape: Shape, before: PreFilters) -> None:
        call, guarded, reasons = self._boundary.call, self._boundary.guarded, self.reasons
        check = answer_checks.row_masks(lambda: reasons.registered)
        for plugin in self._profile.filters:
            if not self._profile.asks(plugin, shape):
                continue
            question = call(
                plugin,
                FILTER,
                answer_checks.function_or_none,
                plugin.filter,
                shape,
                reasons,
                *before.arguments(plugin),
            )
            if question is not None:
                filters = {
                    Depends.STATIC: self.static,
                    Depends.ROW: self.row_filters,
                    Depends.CLUSTER: self.cluster_filters,
                }[plugin.depends]
                filters.append(guarded(plugin, FILTER, self._if_checked(plugin, check), question))
        if shape.avoided:
            self.static.append(_avoided(shape.avoided, reasons))

    def _prepare_scores(self, shape: Shape, before: PreFilters) -> None:
        call, guarded = self._boundary.call, self._boundary.guarded
        for plugin, weight in self._profile.scores:
            if not self._profile.asks(plugin, shape):
                continue
            score = call(
                plugin,
                SCORE,
                answer_checks.function_or_none,
                plugin.score,
                shape,
                *before.arguments(plugin),
            )
            if score is None:
                continue
            numbers = self._if_checked(plugin, answer_checks.row_numbers)
            score = asked_for(shape.claim, guarded(plugin, SCORE, numbers, score))
            if plugin.normaliser is None:
                self.absolute.append((score, weight, None if numbers is None else plugin))
                self.scorers.append(plugin.name)
            else:
                normal = self._if_checked(plugin, answer_checks.normalised)
                normaliser = guarded(plugin, SCORE, normal, plugin.normaliser)
                found = {
                    Depends.STATIC: self.static_scores,
                    Depends.ROW: self.normalised,
                    Depends.CLUSTER: self.cluster_scores,
                }[getattr(plugin, "score_depends", Depends.ROW)]
                found.append(Normalised(plugin.name, score, normaliser, weight))

    def _if_checked(self, plugin: object, check: C) -> C | None:
        """The check, unless the plugin's answers are trusted."""
        return None if self._profile.trusts(plugin) else check

    # --- answers -------------------------------------------------------------------------------

    @property
    def asks_cards(self) -> bool:
        """Whether the shape claims cards."""
        return self.claim is not None or self.claims is not None

    def card_reasons(self, rows: Rows) -> IntArray:
        """The mask of the reasons of each row's cards, (k,), for rows whose cards do not fit."""
        asked = self.claim or self.claims
        return np.zeros(len(rows.index), np.int64) if asked is None else asked.card_reasons(rows)

    def may_fit_later(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows have cards enough that evictions could free, (k,) bool."""
        asked = self.claim or self.claims
        return np.ones(len(rows.index), np.bool_) if asked is None else asked.may_fit_later(rows)

    def best_slots(self, rows: Rows, gang_context: GangContext | None = None) -> tuple[int, ...]:
        """The best cards of this one row, which the shape must fit: slots, claim by claim.

        Those of one claim are in the order from best to worst, those of several in any order.
        Raises PluginFailed.
        """
        asked = self.claim or self.claims
        return () if asked is None else asked.best_slots(rows, gang_context)

    def static_reasons(self, rows: Rows) -> IntArray:
        """Minus the mask of each row, (k,), for reasons that depend on the node object alone."""
        masks: IntArray = np.where(rows.present, 0, NO_NODE)
        for question in self.static:
            mask = question(rows)
            if mask is not None:
                masks |= mask
        return -masks

    def without_cards(self, rows: Rows, static: IntArray) -> IntArray:
        """Minus the mask of each row, (k,), without the reasons of its cards.

        `static` is (k,), too.
        """
        minus = static
        for question in self.row_filters:
            mask = question(rows)
            if mask is not None:
                minus = minus - mask if self.reasons.distinct else -(-minus | mask)
        return minus

    def cluster_reasons(self, rows: Rows) -> IntArray | None:
        """The mask of each row, (k,), for reasons that depend on the whole cluster; None for none.

        Raises PluginFailed.
        """
        if not self.cluster_filters:
            return None
        if isinstance(rows, WhatIf) and rows.has_moved_pods:
            alone = [self._cluster_reasons(rows.alone(at)) for at in range(len(rows.index))]
            return np.concatenate(alone) if alone else np.zeros(0, np.int64)
        return self._cluster_reasons(rows)

    def _cluster_reasons(self, rows: Rows) -> IntArray:
        masks: IntArray = np.zeros(len(rows.index), np.int64)
        for question in self.cluster_filters:
            mask = question(rows)
            if mask is not None:
                masks = masks | mask
        return masks

    def check_points(self, plugin: object, points: IntArray, fits: NDArray[np.bool_]) -> None:
        """Raises PluginFailed if a score is out of range on a row that fits.

        `points` and `fits` have the shape (k,).
        """
        self._refuse(plugin, SCORE, answer_checks.scores(points, fits))

    def _refuse(self, plugin: object, point: str, wrong: str | None) -> None:
        if wrong is not None:
            raise self._boundary.wrong(plugin, point, wrong)


def _avoided(nodes: tuple[NodeName, ...], reasons: ReasonTable) -> RowFilter:
    """The scheduler's own filter: the API server lets the pod be bound to the node."""
    refused = reasons.register("framework", BINDING_REFUSED, resolvable=False)

    def ask(rows: Rows) -> IntArray:
        return np.where(rows.named(nodes), refused, 0)

    return ask


# Puts the prepared questions of one shape to rows: reasons, the best card of each row, scores.


class RowEvaluation:
    """Evaluates k rows at once; `work` counts them."""

    def __init__(self, work: EvaluationWork) -> None:
        self._work = work
        self._lines = np.arange(0)
        self._most_lines = self._width = 0

    def evaluate(
        self, prepared: PreparedPlugins, rows: Rows, static: IntArray
    ) -> tuple[IntArray, IntArray | None, list[IntArray]]:
        """The key of each row, (k,) int64: its score where the shape fits, else minus its mask.

        With it the best card slot of each row, (k,) int64, if the shape claims one card, and one
        array, (k,) int64, for each of `prepared.normalised`. `static` is minus the mask of STATIC
        filters, (k,) int64. Raises PluginFailed.
        """
        minus, cards = self.negated_reasons(prepared, rows, static)
        self._work.rows += minus.size
        self._work.other += ASKING
        total: IntArray | None = None
        for score, weight, suspect in prepared.absolute:
            points = score(rows, cards)
            if suspect is not None:
                prepared.check_points(suspect, points, minus == 0)
            if weight != 1:
                points = points * weight
            total = points if total is None else total + points
        scores: IntArray = np.where(minus, minus, 0 if total is None else total)
        normalised = prepared.normalised
        raw = [asked.score(rows, cards) for asked in normalised] if normalised else []
        return scores, cards.slot if cards else None, raw

    def negated_reasons(
        self, prepared: PreparedPlugins, rows: Rows, static: IntArray
    ) -> tuple[IntArray, BestCards | None]:
        """Minus each row's mask, (k,) int64, NO_CARD for its cards' reasons; and the best cards.

        `static` is minus the mask of STATIC filters, (k,) int64. Raises PluginFailed.

        Masks are combined with "or". Where every reason has its own bit, that is the same as
        subtracting them one after the other.
        """
        minus = prepared.without_cards(rows, static)
        asked = prepared.claim
        if asked is None:
            return self._together(prepared, rows, minus), None
        if asked.by_room is not None:
            # Not `take`, which takes ten times as long with indices that cannot be written.
            ranked = asked.by_room[rows.headroom]
            if asked.keeps:
                # Only idle cards have a `break_order` above 0, and an idle card fits every claim
                # that by_room covers.
                ranked -= rows.break_order
        else:
            fits = asked.card_fits(rows)
            if asked.count > 1:
                # (k,): NO_CARD is 1, so that subtracting a bool sets the bit of its reasons.
                return minus - (fits.sum(1) < asked.count), None
            ranked = np.where(fits, asked.rank(rows, fits), -NO_CARD)
        slot = ranked.argmax(1)
        picked = slot + self._offsets(*ranked.shape)
        # The best rank is 0 or more, or -NO_CARD where no card fits.
        minus = minus + np.minimum(ranked.take(picked), 0)
        slot.setflags(write=False)
        picked.setflags(write=False)
        return minus, BestCards(slot, picked)

    def _together(self, prepared: PreparedPlugins, rows: Rows, minus: IntArray) -> IntArray:
        """`minus` with NO_CARD for rows that have no place for several claims, (k,)."""
        if prepared.claims is None:
            return minus
        width = rows.flags.shape[1]
        self._work.other += prepared.claims.cost(len(minus), width)
        without: IntArray = minus - ~prepared.claims.fits(rows)
        return without

    def _offsets(self, rows: int, width: int) -> IntArray:
        """The flat index of each row's first card in a (rows, width) column."""
        if rows > self._most_lines or width != self._width:
            self._most_lines, self._width = max(rows, 1024), width
            self._lines = np.arange(self._most_lines) * width
        return self._lines[:rows]
