"""The boundary between the scheduler and its plugins: a plugin's error ends here.

Every call of a plugin goes through one `Boundary`. An exception of the plugin, and an answer of the
wrong type, shape or range, becomes `PluginFailed`, which names the plugin and is counted. The
caller then lets the shape or the pod wait, with the exception's text as the reason. Exceptions that
are no `Exception` (cancellation, KeyboardInterrupt) pass.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Concatenate, ParamSpec, TypeVar

from kubeshare_py.domain.printable import beginning

P = ParamSpec("P")
T = TypeVar("T")

#: The fault of an answer, as the end of the sentence "plugin X failed: …"; None if there is none.
AnswerCheck = Callable[[object], str | None]

#: The most characters of an exception's text, or of a wrong answer, that are reported.
MAX_TEXT = 200
#: Seconds between two log lines about failures of one plugin at one extension point.
LOG_AGAIN_S = 60.0


class PluginFailed(Exception):
    """A plugin raised, or its answer breaks the contract; the text names the plugin."""

    def __init__(self, plugin: str, point: str, cause: str, node: str = "") -> None:
        self.plugin, self.point, self.cause, self.node = plugin, point, cause, node
        where = f" on node {node}" if node else ""
        super().__init__(f"plugin {plugin} failed{where}: {cause}")

    @property
    def topic(self) -> str:
        """The part of the text that is the same for every failure of this plugin."""
        return f"plugin {self.plugin} failed"


class NodeFailed(Exception):
    """A per-node function failed; adapters, which know the node, raise it to the boundary."""

    def __init__(self, node: str, cause: str) -> None:
        self.node, self.cause = node, cause
        super().__init__(f"{node}: {cause}")


class WrongAnswer(Exception):
    """A per-node function's answer breaks the contract; the text says how."""


@dataclass(slots=True)
class _Log:
    """The failures at one extension point that are not logged yet, and when one last was."""

    times: int = 0
    last: PluginFailed | None = None
    logged_at: float | None = None


@dataclass(slots=True)
class Failures:
    """Counts failures by plugin and extension point, and limits how often they are logged."""

    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    total: int = 0
    _logs: dict[tuple[str, str], _Log] = field(default_factory=dict)
    _unlogged: bool = False

    def add(self, failure: PluginFailed) -> None:
        """Count one failure."""
        key = (failure.plugin, failure.point)
        self.counts[key] = self.counts.get(key, 0) + 1
        self.total += 1
        log = self._logs.setdefault(key, _Log())
        log.times += 1
        log.last = failure
        self._unlogged = True

    def to_log(self, now: float) -> list[tuple[PluginFailed, int]]:
        """The last failure at each point that may be logged, and how many it stands for."""
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
    """Calls plugins and turns their errors into PluginFailed."""

    def __init__(self, failures: Failures | None = None) -> None:
        self.failures = failures or Failures()

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
        """The question, wrapped so that its failures raise PluginFailed.

        `check` gets the answer and the question's arguments; with None the answers are not checked.
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
        """The PluginFailed to raise in place of a plugin's exception."""
        if isinstance(error, PluginFailed):
            return error  # raised by a question within this one, and counted there
        if isinstance(error, NodeFailed):
            return self._counted(PluginFailed(name_of(plugin), point, error.cause, error.node))
        return self._counted(PluginFailed(name_of(plugin), point, in_words(error)))

    def wrong(self, plugin: object, point: str, what: str) -> PluginFailed:
        """The PluginFailed to raise for a wrong answer."""
        return self._counted(PluginFailed(name_of(plugin), point, shortened(what)))

    def _counted(self, failure: PluginFailed) -> PluginFailed:
        self.failures.add(failure)
        return failure


def name_of(plugin: object) -> str:
    """The plugin's name, or its class's name if it has none."""
    return str(getattr(plugin, "name", type(plugin).__name__))


def in_words(error: Exception) -> str:
    """An exception's type and text on one line; of WrongAnswer, only the text."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the exception is the plugin's, and so is its __str__
        text = "its text cannot be read"
    if isinstance(error, WrongAnswer):
        return shortened(text)
    return shortened(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def shortened(text: str) -> str:
    """The text on one line, cut to MAX_TEXT characters."""
    line = " ".join(text.split())
    return beginning(line, MAX_TEXT - 1)
