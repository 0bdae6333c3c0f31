"""PodDisruptionBudgets: how many of which pods may be evicted now."""

from dataclasses import dataclass

from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.pod import Labels, Requirement


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One budget, by its place in the API. `selector` None selects nobody, () every pod.

    `allowed` more pods of its namespace may be evicted; those named in `disrupted` are counted
    already.
    """

    key: PodKey
    selector: tuple[Requirement, ...] | None = None
    allowed: int = 0
    disrupted: frozenset[str] = frozenset()

    def covers(self, key: PodKey, labels: Labels) -> bool:
        """Whether evicting this pod uses it up."""
        if self.selector is None or key.namespace != self.key.namespace:
            return False
        found = dict(labels)
        return all(_holds(one, found.get(one.key)) for one in self.selector)


def _holds(requirement: Requirement, value: str | None) -> bool:
    """As label selectors mean it; an operator that is not known is satisfied by nothing.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors
    """
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False
