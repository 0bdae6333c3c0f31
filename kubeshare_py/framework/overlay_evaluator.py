"""Answers about an overlay: those about the tables below, and new ones where rows differ.

What is asked about an overlay is not kept for the tables below. A plugin's failure counts for both.
"""

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.overlay import Overlay
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.headroom import Headroom, RowBounds
from kubeshare_py.framework.prepared_plugins import PreparedPlugins
from kubeshare_py.framework.result_cache import CachedResults, ResultCache
from kubeshare_py.framework.scheduler_profile import Profile


class OverlayResults(ResultCache):
    """Cached results that begin as those about the tables below."""

    def __init__(self, profile: Profile, overlay: Overlay, below: Evaluator) -> None:
        super().__init__(profile, overlay, below.evaluation, below.work, below.boundary)
        self._overlay = overlay
        self._below = below.results
        #: The failures about the ledger's own tables, of which no evaluator above has others.
        self._failed_below = below.failed

    def refreshed(self, shape: Shape, *, goes_on: bool = False) -> CachedResults:
        """See ResultCache; a failure counts from when it does below until it no longer does."""
        known = self._answers.get(shape)
        if known is not None and known.failure is not self._failed_below.get(shape):
            self.forget(shape)
        return super().refreshed(shape, goes_on=goes_on)

    def prepared(self, shape: Shape) -> PreparedPlugins:
        """See below."""
        return self._below.prepared(shape)

    def fail(self, shape: Shape, answers: CachedResults, failure: PluginFailed) -> None:
        """Record that a plugin failed, below too."""
        super().fail(shape, answers, failure)
        self._below.fail(shape, self._below.refreshed(shape), failure)

    def _unasked(self, shape: Shape) -> CachedResults:
        answers = self._below.refreshed(shape).copy()
        answers.seen = self._overlay.changed.end
        rows = self._overlay.differing()
        if answers.failure is None and len(rows):
            try:
                self._evaluate_some(answers, rows)
            except PluginFailed as failure:
                self.fail(shape, answers, failure)
        return answers


class OverlayEvaluator(Evaluator):
    """An evaluator about an overlay."""

    def __init__(self, ledger: Ledger, overlay: Overlay, below: Evaluator) -> None:
        self._overlay = overlay
        self._below = below
        super().__init__(below.profile, ledger, below.work, below.boundary, overlay)
        self.failed = below.failed
        below.above.add(self)

    def _cache(self, profile: Profile) -> ResultCache:
        return OverlayResults(profile, self._overlay, self._below)

    def add_ledger_filter(self) -> None:
        """See below."""
        self._below.add_ledger_filter()

    def start_anew(self) -> None:
        """Drop all that is cached."""
        self.results.clear()


class OverlayHeadroom(Headroom):
    """The bounds on an overlay."""

    def __init__(
        self, ledger: Ledger, overlay: Overlay, evaluator: Evaluator, below: Headroom
    ) -> None:
        super().__init__(ledger, evaluator)
        self._overlay = overlay
        self._below = below

    def if_empty(self, shape: Shape) -> IntArray:
        """As below, (rows,) int64: it does not depend on what pods hold."""
        return self._below.if_empty(shape)

    def start_anew(self) -> None:
        """Drop all that is cached."""
        self._known.clear()

    def _unasked(self, shape: Shape, keys: IntArray) -> RowBounds:
        overlay, rows = self._overlay, self._overlay.differing()
        bounds, known = self._evaluator.bounds(shape), self._below.rows(shape).copy()
        failure = self._evaluator.failed.get(shape)
        if failure is not None:
            raise failure  # a bound below failed just now
        found = RowBounds(bounds, overlay.columns.layout, overlay.changed.end, known)
        if len(rows):
            self._ask(found, rows, keys)
        return found
