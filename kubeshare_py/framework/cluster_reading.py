"""The cluster as one question about it sees it: no decision ever depends on what was asked.

Answers that decisions use are cached, and what an answer costs bounds an iteration; labels get
numbers when they are first asked about. So a question has caches, costs, failures and label columns
of its own. They cost one evaluation of the shapes that it is about, and are dropped with it.
"""

from collections.abc import Mapping

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.boundary import Boundary, PluginFailed
from kubeshare_py.framework.evaluation_cost import EvaluationWork
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.prepared_plugins import PreparedPlugins
from kubeshare_py.framework.result_cache import CachedResults, ResultCache
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.framework.snapshot import Snapshot, Snapshots


class ClusterReading:
    """The cluster at this instant, valid until the next event.

    `ledger` and `evaluators`, by profile, answer as those that decide would. `snapshots` show the
    cluster with and without reservations. A plugin's failure counts in `boundary` alone.
    """

    def __init__(self, ledger: Ledger, deciding: Mapping[str, Evaluator]) -> None:
        """`deciding` are the evaluators of the machine."""
        self.ledger = ledger.for_reading()
        self.boundary, work = Boundary(), EvaluationWork()
        self.evaluators: dict[str, Evaluator] = {
            name: _ReadEvaluator(self.ledger, work, self.boundary, one)
            for name, one in deciding.items()
        }
        self.snapshots = Snapshots(Snapshot(self.ledger, self.ledger, self.evaluators))


class _ReadResults(ResultCache):
    """Results for one question. Shapes for which a plugin failed are not asked about again."""

    def __init__(self, profile: Profile, evaluator: Evaluator, deciding: Evaluator) -> None:
        super().__init__(
            profile, evaluator.tables, evaluator.evaluation, evaluator.work, evaluator.boundary
        )
        self._known_failures = deciding.failed

    def prepared(self, shape: Shape) -> PreparedPlugins:
        """See ResultCache."""
        if shape in self._known_failures:
            raise self._known_failures[shape]
        return super().prepared(shape)

    def _unasked(self, shape: Shape) -> CachedResults:
        failure: PluginFailed | None = self._known_failures.get(shape)
        return super()._unasked(shape) if failure is None else self._failed(shape, failure)


class _ReadEvaluator(Evaluator):
    """An evaluator for one question."""

    def __init__(
        self, ledger: Ledger, work: EvaluationWork, boundary: Boundary, deciding: Evaluator
    ) -> None:
        self._deciding = deciding
        super().__init__(deciding.profile, ledger, work, boundary)

    def _cache(self, profile: Profile) -> ResultCache:
        return _ReadResults(profile, self, self._deciding)
