"""The profiles by which the scheduler decides now, and what asks their plugins."""

from collections.abc import Iterable

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.framework.boundary import Boundary
from kubeshare_py.framework.cluster_reading import ClusterReading
from kubeshare_py.framework.evaluation_cost import EvaluationWork
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.plugin_calls import PluginCalls
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.framework.snapshot import Snapshot, Snapshots


class ProfilesInUse:
    """By schedulerName: each profile, and its evaluator on the cluster of this ledger.

    `snapshots` are what evaluators are asked about, `calls` asks plugins about pods, `boundary`
    counts the failures of all plugins, and `work` what was asked of evaluators. `use` replaces
    profiles and evaluators in place.
    """

    def __init__(self, profiles: Iterable[Profile], ledger: Ledger) -> None:
        self._ledger = ledger
        self.profiles: dict[str, Profile] = {}
        self.evaluators: dict[str, Evaluator] = {}
        self.boundary, self.work = Boundary(), EvaluationWork()
        self.calls = PluginCalls(self.boundary, self.profiles)
        self.snapshots = Snapshots(Snapshot(ledger, ledger, self.evaluators))
        self.use(profiles)

    def reading(self) -> ClusterReading:
        """The cluster at this instant, for one question that changes nothing."""
        return ClusterReading(self._ledger, self.evaluators)

    def use(self, profiles: Iterable[Profile]) -> None:
        """Replace the profiles of the same names, with evaluators that know nothing yet."""
        given = {profile.scheduler_name: profile for profile in profiles}
        self.profiles.update(given)
        self.boundary.trusted = frozenset().union(*(one.trusted for one in self.profiles.values()))
        for profile in given.values():
            self.evaluators[profile.scheduler_name] = Evaluator(
                profile, self._ledger, self.work, self.boundary
            )
        self.snapshots.replace(Snapshot(self._ledger, self._ledger, self.evaluators))
