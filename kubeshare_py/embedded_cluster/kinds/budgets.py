"""PodDisruptionBudgets: defaults, and what may be asked of them (policy/v1)."""

from kubeshare_py.embedded_cluster.kinds.workload_cells import BUDGET_COLUMNS, budget_cells
from kubeshare_py.embedded_cluster.protocol.int_or_percent import amount_causes, excess_causes
from kubeshare_py.embedded_cluster.protocol.label_selectors import selector_causes
from kubeshare_py.embedded_cluster.protocol.merge import REPLACED
from kubeshare_py.embedded_cluster.protocol.merge_keys import META_KEYS
from kubeshare_py.embedded_cluster.protocol.resources import (
    Resource,
    status_subresource,
    without_status,
)
from kubeshare_py.embedded_cluster.protocol.status import Json, StatusCause, unsupported, wrong

#: Eviction of unready pods: always, or only while enough others are healthy.
ALWAYS_ALLOW, IF_HEALTHY_BUDGET = "AlwaysAllow", "IfHealthyBudget"
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def _default(budget: Json) -> None:
    budget.setdefault("spec", {})
    status = budget.setdefault("status", {})
    for name in _COUNTS:
        status.setdefault(name, 0)
    empty: Json = {"lastTransitionTime": None, "reason": "", "message": ""}
    if status.get("conditions"):
        status["conditions"] = [{**empty, **one} for one in status["conditions"]]


def _causes(budget: Json) -> list[StatusCause]:
    spec = budget["spec"]
    least, most_missing = spec.get("minAvailable"), spec.get("maxUnavailable")
    policy = spec.get("unhealthyPodEvictionPolicy")
    causes: list[StatusCause] = []
    if least is not None and most_missing is not None:
        names = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
        shown = {name[0].upper() + name[1:]: spec.get(name) for name in names}
        text = "minAvailable and maxUnavailable cannot be both set"
        causes.append(wrong("spec", shown, text))
    for name in ("minAvailable", "maxUnavailable"):
        causes += amount_causes(spec.get(name), f"spec.{name}")
        causes += excess_causes(spec.get(name), f"spec.{name}")
    if policy not in (None, ALWAYS_ALLOW, IF_HEALTHY_BUDGET):
        known = (ALWAYS_ALLOW, IF_HEALTHY_BUDGET)
        causes.append(unsupported("spec.unhealthyPodEvictionPolicy", policy, known))
    return causes + selector_causes(spec.get("selector") or {}, "spec.selector")


def _status_causes(new: Json, _old: Json) -> list[StatusCause]:
    text = "must be greater than or equal to 0"
    status = new["status"]
    return [wrong(f"status.{name}", status[name], text) for name in _COUNTS if status[name] < 0]


BUDGETS = Resource(
    group="policy",
    plural="poddisruptionbudgets",
    kind="PodDisruptionBudget",
    fields="PodDisruptionBudget",
    short_names=("pdb",),
    subresources=(status_subresource(),),
    columns=BUDGET_COLUMNS,
    cells=budget_cells,
    merge_keys={**META_KEYS, "conditions": "type", "selector": REPLACED},
    has_status=True,
    has_generation=True,
    unconditional_update=False,
    prepare=without_status,
    default=_default,
    causes=_causes,
    status_causes=_status_causes,
)
