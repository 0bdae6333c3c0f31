"""Calls of plugins, each through the boundary.

About pods and gangs, and what is said of a shape beforehand: hints of where it may fit, and bounds
of how many of its pods do. Filters and scores of shapes are in `prepared_plugins`.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod, Shape, by_claim
from kubeshare_py.domain.preemption import Preemptor
from kubeshare_py.framework import answer_checks
from kubeshare_py.framework.answer_checks import SortKeys
from kubeshare_py.framework.boundary import Boundary, PluginFailed
from kubeshare_py.framework.claims.claim_fit import headroom_together
from kubeshare_py.framework.points import (
    READY,
    BestCards,
    CapacityBound,
    GangScore,
    Locality,
    PendingPlacement,
    PostFilter,
    PreBindAnswer,
    Ready,
    Rejected,
    RowHeadroom,
)
from kubeshare_py.framework.scheduler_profile import Profile

HINT, CAPACITY_BOUND = "QueueingHint", "CapacityBound"

Hint = Callable[[Shape, Rows], bool]


class PluginCalls:
    """The profiles, by schedulerName, as asked about pods. `profiles` may be replaced in place."""

    def __init__(self, boundary: Boundary, profiles: Mapping[str, Profile]) -> None:
        self.profiles = profiles
        self._boundary = boundary

    def pre_enqueue(self, pod: Pod) -> str | None:
        """Why the pod may not enter the queue, or None if it may. Raises PluginFailed."""
        check = answer_checks.sentence_or_none
        for plugin in self.profiles[pod.scheduler_name].pre_enqueue:
            reason = self._boundary.call(plugin, "PreEnqueue", check, plugin.pre_enqueue, pod)
            if reason is not None:
                return reason
        return None

    def key(self, pod: Pod, keys: SortKeys) -> tuple[int | str, ...]:
        """The pod's sort key in the queue with these keys. Raises PluginFailed."""
        profile = self.profiles[pod.scheduler_name]
        plugin = profile.queue_sort
        check = None if profile.trusts(plugin) else keys.check
        return self._boundary.call(plugin, "QueueSort", check, plugin.key, pod)

    def permit(self, pod: Pod, node: NodeName) -> str | None:
        """Why this placement may not be committed, or None if it may.

        A plugin that fails refuses it.
        """
        check = answer_checks.sentence_or_none
        for plugin in self.profiles[pod.scheduler_name].permits:
            try:
                refusal = self._boundary.call(plugin, "Permit", check, plugin.permit, pod, node)
            except PluginFailed as failure:
                return str(failure)
            if refusal is not None:
                return refusal
        return None

    def reserve(self, pod: Pod, node: NodeName, allocation: Allocation | None) -> str | None:
        """Tell Reserve plugins of a charge; the text of the first failure, if a plugin failed.

        Nothing is called for pods of other schedulers.
        """
        profile = self.profiles.get(pod.scheduler_name)
        problem = None
        for plugin in profile.reserves if profile is not None else ():
            try:
                self._boundary.call(plugin, "Reserve", None, plugin.reserve, pod, node, allocation)
            except PluginFailed as failure:
                problem = problem or str(failure)
        return problem

    def unreserve(self, pod: Pod, node: NodeName) -> None:
        """Tell Reserve plugins that a charge has ended. It has, even if a plugin fails."""
        profile = self.profiles.get(pod.scheduler_name)
        for plugin in profile.reserves if profile is not None else ():
            with suppress(PluginFailed):
                self._boundary.call(plugin, "Reserve", None, plugin.unreserve, pod, node)

    def pre_bind(
        self, pod: Pod, row: Rows, placement: PendingPlacement
    ) -> tuple[PreBindAnswer, str]:
        """The first answer that is not Ready, and its plugin's name; else Ready, and "".

        A plugin that fails refuses the placement.
        """
        check = answer_checks.pre_bind_answer
        for plugin in self.profiles[pod.scheduler_name].pre_binds:
            try:
                answer = self._boundary.call(
                    plugin, "PreBind", check, plugin.pre_bind, pod, row, placement
                )
            except PluginFailed as failure:
                return Rejected(str(failure)), ""
            if not isinstance(answer, Ready):
                return answer, plugin.name
        return READY, ""


def gives_way(
    boundary: Boundary, plugin: PostFilter, preemptor: Preemptor
) -> Callable[[Pod], bool]:
    """The plugin's rule of which pods give way to this preemptor; both raise PluginFailed."""
    check = answer_checks.function
    rule = boundary.call(plugin, "PostFilter", check, plugin.post_filter, preemptor)

    def yes_or_no(answer: object, pod: Pod) -> str | None:
        return answer_checks.yes_or_no(answer)

    return boundary.guarded(plugin, "PostFilter", yes_or_no, rule)


def places(boundary: Boundary, plugin: Locality) -> tuple[str, ...]:
    """The labels of topology domains, from the widest to the narrowest; raises PluginFailed."""
    return tuple(boundary.call(plugin, "Locality", answer_checks.names, plugin.places))


def gang_scores(boundary: Boundary, plugin: GangScore, count: int, rows: Rows) -> IntArray:
    """How good each row is for `count` cards of one gang, (k,) int64.

    Raises PluginFailed.
    """

    def check(answer: object, rows: Rows, cards: BestCards | None) -> str | None:
        return answer_checks.row_numbers(answer, rows)

    question = boundary.call(plugin, "GangScore", answer_checks.function, plugin.gang_score, count)
    return boundary.guarded(plugin, "GangScore", check, question)(rows, None)


def hints(profile: Profile, boundary: Boundary) -> list[Hint]:
    """The plugins' hints of whether a shape may fit a row; they raise PluginFailed."""
    found = []
    for one in profile.hints:
        check = None if profile.trusts(one.plugin) else _yes_or_no
        hint = boundary.guarded(one.plugin, HINT, check, one.plugin.queueing_hint)
        found.append(_of_each_claim(hint) if one.of_claims else hint)
    return found


def _of_each_claim(hint: Hint) -> Hint:
    """The hint of a card filter, which is asked about one claim after the other."""

    def may_fit(shape: Shape, row: Rows) -> bool:
        if len(shape.claims) <= 1:
            return hint(shape, row)
        return all(hint(one, row) for one in by_claim(shape))

    return may_fit


def bounds(profile: Profile, boundary: Boundary, shape: Shape) -> list[RowHeadroom]:
    """The plugins' bounds of how many pods of the shape a row takes. Raises PluginFailed."""
    found: list[RowHeadroom] = []
    if len(shape.claims) > 1:
        found.append(partial(headroom_together, shape.claims))
    for at_point in profile.bounds:
        for one in by_claim(shape) if at_point.of_claims else (shape,):
            found += _bound(profile, boundary, at_point.plugin, one)
    return found


def _bound(
    profile: Profile, boundary: Boundary, plugin: CapacityBound, shape: Shape
) -> list[RowHeadroom]:
    """The plugin's bound, if it has one."""
    bound = boundary.call(
        plugin,
        CAPACITY_BOUND,
        answer_checks.function_or_none,
        plugin.capacity_bound,
        shape,
    )
    if bound is None:
        return []
    check = None if profile.trusts(plugin) else answer_checks.row_numbers
    return [boundary.guarded(plugin, CAPACITY_BOUND, check, bound)]


def _yes_or_no(answer: object, shape: Shape, row: Rows) -> str | None:
    return answer_checks.yes_or_no(answer)
