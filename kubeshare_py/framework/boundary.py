"""The boundary between the scheduler and its plugins: whatever a plugin does wrong ends here.

Every call of a plugin goes through one `Boundary`. What the plugin raises, and an answer of the
wrong type, shape or range, becomes `PluginFailed`, which names the plugin and is counted. The
callers of the boundary let the shape or the pod that was asked about wait, with the exception's
text as the reason. Exceptions that are no `Exception` (cancellation, KeyboardInterrupt) pass.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

#: What is wrong with an answer, as an end of the sentence "plugin X failed: …"; None if it is fine.
Check = Callable[[object], str | None]

#: Characters of an exception's text, or of a wrong answer, that are reported.
MOST_TEXT = 200
#: A failure at one extension point is logged at most once in so many seconds.
LOG_AGAIN_S = 60.0


class PluginFailed(Exception):
    """A plugin raised, or answered what its contract does not allow; the text names the plugin."""

    def __init__(self, plugin: str, point: str, cause: str, node: str = "") -> None:
        self.plugin, self.point, self.cause, self.node = plugin, point, cause, node
        where = f" on node {node}" if node else ""
        super().__init__(f"plugin {plugin} failed{where}: {cause}")

    @property
    def topic(self) -> str:
        """The part of the text that does not change from one failure to the next."""
        return f"plugin {self.plugin} failed"


class NodeFailed(Exception):
    """A function of one node failed: raised by adapters, which know the node, to the boundary."""

    def __init__(self, node: str, cause: str) -> None:
        self.node, self.cause = node, cause
        super().__init__(f"{node}: {cause}")


class WrongAnswer(Exception):
    """An adapter was given an answer that its contract does not allow; the text says which."""


@dataclass(slots=True)
class _Log:
    """Failures at one extension point that are not logged yet, the last one, and when one was."""

    times: int = 0
    last: PluginFailed | None = None
    logged_at: float | None = None


@dataclass(slots=True)
class Failures:
    """Counts failures by plugin and extension point, and says which of them are to be logged."""

    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    total: int = 0
    _logs: dict[tuple[str, str], _Log] = field(default_factory=dict)
    _unlogged: bool = False

    def add(self, failure: PluginFailed) -> None:
        """Count one more."""
        key = (failure.plugin, failure.point)
        self.counts[key] = self.counts.get(key, 0) + 1
        self.total += 1
        log = self._logs.setdefault(key, _Log())
        log.times += 1
        log.last = failure
        self._unlogged = True

    def to_log(self, now: float) -> list[tuple[PluginFailed, int]]:
        """The last failure at each point that may be logged now, and how many it stands for."""
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
    """Calls plugins."""

    def __init__(self, failures: Failures | None = None) -> None:
        self.failures = failures or Failures()

    def call(
        self,
        plugin: object,
        point: str,
        check: Check | None,
        question: Callable[P, T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The plugin's answer, which `check` finds nothing wrong with; raises PluginFailed."""
        try:
            answer = question(*args, **kwargs)
        except Exception as error:
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
        """The same question, put through this boundary; `check` None trusts the answers.

        `check` is given the answer and what the question was given.
        """

        def ask(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                answer = question(*args, **kwargs)
            except Exception as error:
                raise self.failed(plugin, point, error) from error
            if check is not None:
                wrong = check(answer, *args, **kwargs)
                if wrong is not None:
                    raise self.wrong(plugin, point, wrong)
            return answer

        return ask

    def failed(self, plugin: object, point: str, error: Exception) -> PluginFailed:
        """What to raise in place of an exception of the plugin's."""
        if isinstance(error, PluginFailed):
            return error  # of a question within a question; counted already
        if isinstance(error, NodeFailed):
            return self._counted(PluginFailed(name_of(plugin), point, error.cause, error.node))
        return self._counted(PluginFailed(name_of(plugin), point, in_words(error)))

    def wrong(self, plugin: object, point: str, what: str) -> PluginFailed:
        """What to raise for a wrong answer."""
        return self._counted(PluginFailed(name_of(plugin), point, shortened(what)))

    def _counted(self, failure: PluginFailed) -> PluginFailed:
        self.failures.add(failure)
        return failure


def name_of(plugin: object) -> str:
    """The plugin's name; its class' where it has none."""
    return str(getattr(plugin, "name", type(plugin).__name__))


def in_words(error: Exception) -> str:
    """Type and text of an exception, on one line; only the text of a wrong answer."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the exception is the plugin's, and so is its __str__
        text = "its text cannot be read"
    if isinstance(error, WrongAnswer):
        return shortened(text)
    return shortened(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def shortened(text: str) -> str:
    """On one line, cut to MOST_TEXT characters."""
    line = " ".join(text.split())
    return line if len(line) <= MOST_TEXT else line[: MOST_TEXT - 1] + "…"
