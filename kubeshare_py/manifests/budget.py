"""A policy/v1 PodDisruptionBudget, in the fields that choosing victims depends on.

https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/pod-disruption-budget-v1/
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.domain.bounds import INT32
from kubeshare_py.domain.budget import Budget
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.manifests.label_selector import SelectorFields, requirements
from kubeshare_py.manifests.metadata import ObjectMeta


class _BudgetStruct(msgspec.Struct, frozen=True, rename="camel"):
    """Camel case on the wire, no changes."""


class BudgetSpec(_BudgetStruct, frozen=True):
    """The spec; without a selector it selects nothing."""

    selector: SelectorFields | None = None


class BudgetStatus(_BudgetStruct, frozen=True):
    """The status, which the disruption controller writes."""

    disruptions_allowed: Annotated[int, Meta(ge=INT32.least, le=INT32.most)] = 0
    disrupted_pods: dict[str, msgspec.Raw] | None = None


class BudgetFields(_BudgetStruct, frozen=True):
    """A PodDisruptionBudget."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


def key_of(budget: BudgetFields) -> PodKey:
    """The budget's namespace and name."""
    return PodKey(budget.metadata.namespace, budget.metadata.name)


def to_domain(budget: BudgetFields) -> Budget:
    """The domain's budget."""
    status, selector = budget.status, budget.spec.selector
    return Budget(
        key=key_of(budget),
        selector=None if selector is None else requirements(selector),
        allowed=status.disruptions_allowed,
        disrupted=frozenset(status.disrupted_pods or ()),
    )
