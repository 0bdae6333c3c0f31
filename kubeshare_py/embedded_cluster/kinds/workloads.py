"""Deployments and ReplicaSets: defaults, and what may be asked of them (apps/v1)."""

from functools import partial

from kubeshare_py.embedded_cluster.controllers.rollouts import RECREATE, ROLLING
from kubeshare_py.embedded_cluster.kinds.containers import default_pod_spec, pod_spec_causes
from kubeshare_py.embedded_cluster.kinds.workload_cells import (
    DEPLOYMENT_COLUMNS,
    REPLICA_SET_COLUMNS,
    deployment_cells,
    replica_set_cells,
)
from kubeshare_py.embedded_cluster.protocol.int_or_percent import (
    WHOLE,
    amount_causes,
    amount_of,
    excess_causes,
)
from kubeshare_py.embedded_cluster.protocol.label_selectors import (
    selector_causes,
    selector_text,
    selects,
)
from kubeshare_py.embedded_cluster.protocol.merge_keys import POD_KEYS
from kubeshare_py.embedded_cluster.protocol.resources import (
    Resource,
    Scale,
    scale_subresource,
    status_subresource,
    without_status,
)
from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    not_allowed,
    required,
    unsupported,
    wrong,
)
from kubeshare_py.embedded_cluster.protocol.times import default_times

_QUARTER = "25%"
_MISSING = "unavailableReplicas"
_READY = ("readyReplicas", "availableReplicas")


def _default_deployment(deployment: Json) -> None:
    spec = deployment.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", ROLLING) == ROLLING:
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", _QUARTER)
        rolling.setdefault("maxSurge", _QUARTER)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    _default_template(spec)
    default_times(deployment.setdefault("status", {}), "lastUpdateTime")


def _default_replica_set(replica_set: Json) -> None:
    spec = replica_set.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _default_template(spec)
    status = replica_set.setdefault("status", {})
    status.setdefault("replicas", 0)
    default_times(status, "lastTransitionTime")


def _default_template(spec: Json) -> None:
    default_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))


def _deployment_causes(deployment: Json) -> list[StatusCause]:
    spec = deployment["spec"]
    causes = [*_not_negative(spec, "replicas"), *_pod_causes(spec)]
    causes += _strategy_causes(spec["strategy"])
    causes += _not_negative(spec, "minReadySeconds", "revisionHistoryLimit")
    deadline, ready_after = spec["progressDeadlineSeconds"], spec.get("minReadySeconds", 0)
    causes += _not_negative(spec, "progressDeadlineSeconds")
    if deadline <= ready_after:
        text = "must be greater than minReadySeconds"
        causes.append(wrong("spec.progressDeadlineSeconds", deadline, text))
    return causes


def _replica_set_causes(replica_set: Json) -> list[StatusCause]:
    spec = replica_set["spec"]
    return [*_not_negative(spec, "replicas", "minReadySeconds"), *_pod_causes(spec)]


def _selector_is_fixed(new: Json, old: Json) -> list[StatusCause]:
    selector = new["spec"].get("selector")
    if selector == old["spec"].get("selector"):
        return []
    return [wrong("spec.selector", selector, "field is immutable")]


def _status_causes(own: str, new: Json, _old: Json) -> list[StatusCause]:
    """No count is negative, and no part is larger than the whole."""
    counts = {name: new["status"].get(name, 0) for name in ("replicas", own, *_READY, _MISSING)}
    text = "must be greater than or equal to 0"
    causes = [wrong(f"status.{name}", n, text) for name, n in counts.items() if n < 0]
    text = "cannot be greater than status.replicas"
    causes += [
        wrong(f"status.{name}", counts[name], text)
        for name in (own, *_READY)
        if counts[name] > counts["replicas"]
    ]
    if counts["availableReplicas"] > counts["readyReplicas"]:
        text = "cannot be greater than readyReplicas"
        causes.append(wrong("status.availableReplicas", counts["availableReplicas"], text))
    return causes


def _not_negative(spec: Json, *names: str) -> list[StatusCause]:
    text = "must be greater than or equal to 0"
    return [wrong(f"spec.{name}", spec[name], text) for name in names if spec.get(name, 0) < 0]


def _pod_causes(spec: Json) -> list[StatusCause]:
    """Selector and template, and that they belong together."""
    selector, template = spec.get("selector"), spec["template"]
    causes: list[StatusCause] = []
    if selector is None:
        causes.append(required("spec.selector"))
    elif not selector:
        text = "empty selector is invalid for deployment"
        causes.append(wrong("spec.selector", selector, text))
    elif problems := selector_causes(selector, "spec.selector"):
        causes += [*problems, wrong("spec.selector", selector, "invalid label selector")]
    labels = (template.get("metadata") or {}).get("labels")
    if (not causes or selector is None) and not selects(selector)(labels):
        text = "`selector` does not match template `labels`"
        causes.append(wrong("spec.template.metadata.labels", labels, text))
    return [*causes, *_template_causes(template["spec"])]


def _template_causes(spec: Json) -> list[StatusCause]:
    path = "spec.template.spec"
    causes = pod_spec_causes(spec, path)
    if spec["restartPolicy"] != "Always":
        causes.append(unsupported(f"{path}.restartPolicy", spec["restartPolicy"], ("Always",)))
    if "activeDeadlineSeconds" in spec:
        text = "activeDeadlineSeconds in ReplicaSet is not Supported"
        causes.append(not_allowed(f"{path}.activeDeadlineSeconds", text))
    return causes


def _strategy_causes(strategy: Json) -> list[StatusCause]:
    kind, rolling = strategy["type"], strategy.get("rollingUpdate")
    path = "spec.strategy.rollingUpdate"
    if kind == RECREATE:
        text = f"may not be specified when strategy `type` is '{RECREATE}'"
        return [not_allowed(path, text)] if rolling is not None else []
    if kind != ROLLING:
        shown = {"Type": kind, "RollingUpdate": rolling}
        return [unsupported("spec.strategy", shown, (RECREATE, ROLLING))]
    return _rolling_causes(rolling or {}, path)


def _rolling_causes(rolling: Json, path: str) -> list[StatusCause]:
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    causes = amount_causes(unavailable, f"{path}.maxUnavailable")
    causes += amount_causes(surge, f"{path}.maxSurge")
    if not causes and not _is_some(unavailable) and not _is_some(surge):
        text = "may not be 0 when `maxSurge` is 0"
        causes.append(wrong(f"{path}.maxUnavailable", unavailable, text))
    return causes + excess_causes(unavailable, f"{path}.maxUnavailable")


def _is_some(amount: int | str) -> bool:
    return amount_of(amount, WHOLE, up=True) > 0


_SCALE = Scale(
    wanted=("spec", "replicas"),
    present=("status", "replicas"),
    selector=lambda workload: selector_text(workload["spec"].get("selector")),
)
DEPLOYMENTS = Resource(
    group="apps",
    plural="deployments",
    kind="Deployment",
    fields="Deployment",
    short_names=("deploy",),
    categories=("all",),
    subresources=(scale_subresource(), status_subresource()),
    scale=_SCALE,
    columns=DEPLOYMENT_COLUMNS,
    cells=deployment_cells,
    merge_keys=POD_KEYS,
    has_status=True,
    has_generation=True,
    counts_annotations=True,
    prepare=without_status,
    default=_default_deployment,
    causes=_deployment_causes,
    changed_causes=lambda new, old: [*_deployment_causes(new), *_selector_is_fixed(new, old)],
    status_causes=partial(_status_causes, "updatedReplicas"),
)
REPLICA_SETS = Resource(
    group="apps",
    plural="replicasets",
    kind="ReplicaSet",
    fields="ReplicaSet",
    short_names=("rs",),
    categories=("all",),
    subresources=(scale_subresource(), status_subresource()),
    scale=_SCALE,
    columns=REPLICA_SET_COLUMNS,
    cells=replica_set_cells,
    merge_keys=POD_KEYS,
    has_status=True,
    has_generation=True,
    prepare=without_status,
    default=_default_replica_set,
    causes=_replica_set_causes,
    changed_causes=lambda new, old: [*_replica_set_causes(new), *_selector_is_fixed(new, old)],
    status_causes=partial(_status_causes, "fullyLabeledReplicas"),
)
