"""The boundary between the scheduler and its plugins: a plugin's error ends here.

Every call of a plugin goes through one `Boundary`. An exception of the plugin, and an answer of the
wrong type, shape or range, becomes `PluginFailed`, which names the plugin and is counted. The
caller then lets the shape or the pod wait, with the exception's text as the reason. A plugin cannot
end the process with `sys.exit` either. Cancellation and KeyboardInterrupt, which are not the
plugin's, pass.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from traceback import walk_tb
from typing import Concatenate, ParamSpec, TypeVar

from kubeshare_py.domain.printable import error_text, on_one_line

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
    _logs: dict[tuple[str, str, str], _Log] = field(default_factory=dict)
    _unlogged: bool = False

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
        self._unlogged = True

    def to_log(self, now: float) -> list[tuple[PluginFailed, int]]:
        """The last failure of each kind that may be logged, and how many it stands for."""
        if not self._unlogged:
            return []
        found = []
        for log in self._logs.values():
            due = log.logged_at is None or now >= log.logged_at + LOG_AGAIN_S
            if log.last is not None and due:
                found.append((log.last, log.times))
                log.times, log.last, log.logged_at = 0, None, now
        self._unlogged = any(log.last is not None for log in self._logs.values())
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
