"""The boundary between the scheduler and its plugins: a plugin's error ends here.

Every call of a plugin goes through one `Boundary`: what PreFilter plugins prepare, and the calls
about pods and gangs. Filters and scores of shapes are called by `prepared_plugins`.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from traceback import walk_tb
from typing import Concatenate, ParamSpec, TypeVar

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.effects import Preemptor
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod, Shape, by_claim
from kubeshare_py.domain.printable import error_text, on_one_line
from kubeshare_py.framework import answer_checks
from kubeshare_py.framework.answer_checks import SortKeys
from kubeshare_py.framework.claim_fit import headroom_together
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

# The boundary between the scheduler and its plugins: a plugin's error ends here.
#
# Every call of a plugin goes through one `Boundary`. An exception of the plugin, and an answer of
# the wrong type, shape or range, becomes `PluginFailed`, which names the plugin and is counted. The
# caller then lets the shape or the pod wait, with the exception's text as the reason. A plugin
# cannot end the process with `sys.exit` either. Cancellation and KeyboardInterrupt, which are not
# the plugin's, pass.


P = ParamSpec("P")
T = TypeVar("T")

#: The fault of an answer, as the end of the sentence "plugin X failed: …"; None if there is none.
AnswerCheck = Callable[[object], str | None]

#: What a plugin may raise; within its calls only the plugin itself exits.
PLUGIN_ERRORS = (Exception, SystemExit, GeneratorExit)
#: Seconds between two log lines about one kind of failure of a plugin at one extension point.
LOG_AGAIN_S = 60.0
#: The most kinds of failures that the log counts apart, and the most frames of a traceback.
MAX_KINDS, MAX_FRAMES = 256, 20
#: A plugin is slow if it takes longer (s) in one turn of the scheduler.
SLOW_TURN_S = 0.05


class PluginFailed(Exception):
    """A plugin raised, or its answer breaks the contract; the text names the plugin.

    `kind` is the type of the plugin's exception, or empty for a wrong answer. `traceback` has a
    line for each frame of the plugin's exception.
    """

    def __init__(self, plugin: str, point: str, cause: str, node: str = "") -> None:
        self.plugin, self.point, self.cause, self.node = plugin, point, cause, node
        self.kind = ""
        where = f" on node {node}" if node else ""
        super().__init__(f"plugin {plugin} failed{where}: {cause}")

    @property
    def topic(self) -> str:
        """The part of the text that is the same for every failure of this plugin."""
        return f"plugin {self.plugin} failed"

    @property
    def traceback(self) -> str:
        """Where the plugin's exception was raised, the outermost frame first; "" if it did not.

        Frames are named by module, and those of this one are left out: the same failure has the
        same text on every machine, and whether or not plugins are timed.
        """
        if self.__cause__ is None:
            return ""
        frames = [
            f"{module}:{line} in {frame.f_code.co_qualname}"
            for frame, line in walk_tb(_first(self.__cause__).__traceback__)
            if (module := frame.f_globals.get("__name__", "")) != __name__
        ]
        return "\n".join(frames[-MAX_FRAMES:])


class NodeFailed(Exception):
    """A per-node function failed; adapters, which know the node, raise it to the boundary."""

    def __init__(self, node: str, cause: str) -> None:
        self.node, self.cause = node, cause
        super().__init__(f"{node}: {cause}")


class WrongAnswer(Exception):
    """A per-node function's answer breaks the contract; the text says how."""


@dataclass(slots=True)
class _Log:
    """The failures of one kind that are not logged yet, and when one last was."""

    times: int = 0
    last: PluginFailed | None = None
    logged_at: float | None = None


@dataclass(slots=True)
class Failures:
    """Counts failures by plugin and extension point, and limits how often they are logged."""

    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    total: int = 0
    #: Whether some are yet to be logged; to be read.
    has_unlogged: bool = False
    _logs: dict[tuple[str, str, str], _Log] = field(default_factory=dict)

    def add(self, failure: PluginFailed) -> None:
        """Count one failure."""
        key = (failure.plugin, failure.point)
        self.counts[key] = self.counts.get(key, 0) + 1
        self.total += 1
        kind = (*key, failure.kind)
        if kind not in self._logs and len(self._logs) >= MAX_KINDS:
            kind = (*key, "")
        log = self._logs.setdefault(kind, _Log())
        log.times += 1
        log.last = failure
        self.has_unlogged = True

    def to_log(self, now: float) -> list[tuple[PluginFailed, int]]:
        """The last failure of each kind that may be logged, and how many it stands for."""
        found = []
        for log in self._logs.values():
            due = log.logged_at is None or now >= log.logged_at + LOG_AGAIN_S
            if log.last is not None and due:
                found.append((log.last, log.times))
                log.times, log.last, log.logged_at = 0, None, now
        self.has_unlogged = any(log.last is not None for log in self._logs.values())
        return found


class Boundary:
    """Calls plugins and turns their errors into PluginFailed.

    `trusted` are the ids of plugins whose time is not measured. All others are, if there is a
    `stopwatch` (s): the scheduler's loop sets it, and asks for `slow_plugins` after each turn.
    Nothing that is decided depends on it.
    """

    def __init__(self, failures: Failures | None = None) -> None:
        self.failures = failures or Failures()
        self.stopwatch: Callable[[], float] | None = None
        self.trusted: frozenset[int] = frozenset()
        #: Seconds that each plugin took in this turn, by name.
        self._spent: dict[str, float] = {}

    def slow_plugins(self) -> Iterable[tuple[str, float]]:
        """End a turn: the plugins that took more than SLOW_TURN_S in it, and how long (s)."""
        if not self._spent:
            return ()
        slow = [(name, took) for name, took in self._spent.items() if took > SLOW_TURN_S]
        self._spent.clear()
        return slow

    def call(
        self,
        plugin: object,
        point: str,
        check: AnswerCheck | None,
        question: Callable[P, T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The plugin's answer, if `check` finds no fault with it; else raises PluginFailed."""
        if self.stopwatch is not None and id(plugin) not in self.trusted:
            question = self._timed(plugin, question)
        try:
            answer = question(*args, **kwargs)
        except PluginFailed:
            raise  # a question within this one, which was counted there
        except PLUGIN_ERRORS as error:
            raise self.failed(plugin, point, error) from error
        wrong = None if check is None else check(answer)
        if wrong is not None:
            raise self.wrong(plugin, point, wrong)
        return answer

    def guarded(
        self,
        plugin: object,
        point: str,
        check: Callable[Concatenate[object, P], str | None] | None,
        question: Callable[P, T],
    ) -> Callable[P, T]:
        """The question, wrapped so that its failures raise PluginFailed.

        `check` gets the answer and the question's arguments; with None the answers are not checked.
        """
        if id(plugin) not in self.trusted:
            question = self._timed(plugin, question)

        def ask(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                answer = question(*args, **kwargs)
            except PluginFailed:
                raise
            except PLUGIN_ERRORS as error:
                raise self.failed(plugin, point, error) from error
            if check is not None:
                wrong = check(answer, *args, **kwargs)
                if wrong is not None:
                    raise self.wrong(plugin, point, wrong)
            return answer

        return ask

    def _timed(self, plugin: object, question: Callable[P, T]) -> Callable[P, T]:
        def ask(*args: P.args, **kwargs: P.kwargs) -> T:
            stopwatch = self.stopwatch
            if stopwatch is None:
                return question(*args, **kwargs)
            began = stopwatch()
            try:
                return question(*args, **kwargs)
            finally:
                name = name_of(plugin)
                self._spent[name] = self._spent.get(name, 0.0) + stopwatch() - began

        return ask

    def failed(self, plugin: object, point: str, error: BaseException) -> PluginFailed:
        """The PluginFailed to raise in place of a plugin's exception."""
        if isinstance(error, NodeFailed):
            failure = PluginFailed(name_of(plugin), point, error.cause, error.node)
        else:
            failure = PluginFailed(name_of(plugin), point, in_words(error))
        failure.kind = type(_first(error)).__name__
        failure.__cause__ = error  # which a compiled `raise … from …` does not set
        return self._counted(failure)

    def wrong(self, plugin: object, point: str, what: str) -> PluginFailed:
        """The PluginFailed to raise for a wrong answer."""
        return self._counted(PluginFailed(name_of(plugin), point, on_one_line(what)))

    def _counted(self, failure: PluginFailed) -> PluginFailed:
        self.failures.add(failure)
        return failure


def _first(error: BaseException) -> BaseException:
    """The exception that the plugin raised, behind those that adapters raise from it."""
    seen = {id(error)}
    while error.__cause__ is not None and id(error.__cause__) not in seen:
        error = error.__cause__
        seen.add(id(error))
    return error


def name_of(plugin: object) -> str:
    """The plugin's name, or its class's name if it has none."""
    return str(getattr(plugin, "name", type(plugin).__name__))


def in_words(error: BaseException) -> str:
    """An exception's type and text on one line; of WrongAnswer, only the text."""
    return error_text(error, with_type=not isinstance(error, WrongAnswer))


# What PreFilter plugins prepare: one value per plugin and shape, handed to its other methods.


PRE_FILTER = "PreFilter"


class PreFilters:
    """The values of one profile's plugins for one shape, each made when it is first needed."""

    __slots__ = ("_boundary", "_shape", "_values")

    def __init__(self, boundary: Boundary, shape: Shape) -> None:
        self._boundary, self._shape = boundary, shape
        self._values: dict[int, tuple[object]] = {}

    def arguments(self, plugin: object) -> tuple[object, ...]:
        """The plugin's value as the last argument of its methods, or none. Raises PluginFailed."""
        # Not isinstance, which takes longer than the rest of a small plugin's preparation.
        pre_filter = getattr(plugin, "pre_filter", None)
        if pre_filter is None:
            return ()
        found = self._values.get(id(plugin))
        if found is None:
            value = self._boundary.call(plugin, PRE_FILTER, None, pre_filter, self._shape)
            found = self._values[id(plugin)] = (value,)
        return found


# Calls of plugins, each through the boundary.
#
# About pods and gangs, and what is said of a shape beforehand: hints of where it may fit, and
# bounds of how many of its pods do. Filters and scores of shapes are in `prepared_plugins`.


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
        check = None if profile.trusts_keys else keys.check
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
        problem = None
        name = pod.scheduler_name
        for plugin in self.profiles[name].reserves if name in self.profiles else ():
            try:
                self._boundary.call(plugin, "Reserve", None, plugin.reserve, pod, node, allocation)
            except PluginFailed as failure:
                problem = problem or str(failure)
        return problem

    def unreserve(self, pod: Pod, node: NodeName) -> None:
        """Tell Reserve plugins that a charge has ended. It has, even if a plugin fails."""
        name = pod.scheduler_name
        for plugin in self.profiles[name].reserves if name in self.profiles else ():
            with suppress(PluginFailed):
                self._boundary.call(plugin, "Reserve", None, plugin.unreserve, pod, node)

    def pre_bind(
        self, pod: Pod, row: Rows, placement: PendingPlacement
    ) -> tuple[PreBindAnswer, str]:
        """The first answer that is not Ready, and its plugin's name; else Ready, and "".

        A plugin that fails refuses the placement.
        """
        check = answer_checks.pre_bind_answer
        for plugin in self.profiles[pod.scheduler_name].pre_binds_for(pod.shape):
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
