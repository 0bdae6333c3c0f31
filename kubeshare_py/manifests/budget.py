"""A policy/v1 PodDisruptionBudget, in the fields that choosing victims depends on.

https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/pod-disruption-budget-v1/
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.domain.bounds import INT32
from kubeshare_py.domain.budget import Budget
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.pod import Requirement
from kubeshare_py.manifests.metadata import ObjectMeta


class _Fields(msgspec.Struct, frozen=True, rename="camel"):
    """Camel case on the wire, no changes."""


class ExpressionFields(_Fields, frozen=True):
    """One line of a label selector."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class SelectorFields(_Fields, frozen=True):
    """A label selector; an empty one selects everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[ExpressionFields, ...] | None = None


class BudgetSpec(_Fields, frozen=True):
    """The spec; without a selector it selects nothing."""

    selector: SelectorFields | None = None


class BudgetStatus(_Fields, frozen=True):
    """The status, which the disruption controller writes."""

    disruptions_allowed: Annotated[int, Meta(ge=INT32.least, le=INT32.most)] = 0
    disrupted_pods: dict[str, msgspec.Raw] | None = None


class BudgetFields(_Fields, frozen=True):
    """A PodDisruptionBudget."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


def key_of(budget: BudgetFields) -> PodKey:
    """Where it is found."""
    return PodKey(budget.metadata.namespace, budget.metadata.name)


def to_domain(budget: BudgetFields) -> Budget:
    """What the scheduler sees of it."""
    status = budget.status
    return Budget(
        key=key_of(budget),
        selector=_selector(budget.spec.selector),
        allowed=status.disruptions_allowed,
        disrupted=frozenset(status.disrupted_pods or ()),
    )


def _selector(fields: SelectorFields | None) -> tuple[Requirement, ...] | None:
    if fields is None:
        return None
    labels = (fields.match_labels or {}).items()
    equal = tuple(Requirement(key, "In", (value,)) for key, value in labels)
    return equal + tuple(
        Requirement(one.key, one.operator, one.values or ())
        for one in fields.match_expressions or ()
    )
