"""PodDisruptionBudgets: how many of which pods may be evicted now."""

from dataclasses import dataclass

from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.label_selector import Labels, Requirement, all_hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One budget, by its namespace and name. `selector` None selects no pod, () every pod.

    `allowed` more pods of its namespace may be evicted; the pods named in `disrupted` are counted
    already.
    """

    key: PodKey
    selector: tuple[Requirement, ...] | None = None
    allowed: int = 0
    disrupted: frozenset[str] = frozenset()

    def covers(self, key: PodKey, labels: Labels) -> bool:
        """Whether evicting this pod uses the budget up.

        As in kube-scheduler, an empty selector selects no pod, and a pod without labels has no
        budget (filterPodsWithPDBViolation in pkg/scheduler/framework/plugins/defaultpreemption).
        """
        if not self.selector or not labels or key.namespace != self.key.namespace:
            return False
        return all_hold(self.selector, dict(labels))
