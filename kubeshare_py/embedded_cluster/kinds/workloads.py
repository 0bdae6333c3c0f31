"""Kinds that make pods, and disruption budgets: defaults, checks, rows of `kubectl get`."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from kubeshare_py.embedded_cluster.controllers.rollouts import RECREATE, ROLLING
from kubeshare_py.embedded_cluster.kinds.pod_specs import check_pod_spec, default_pod_spec
from kubeshare_py.embedded_cluster.kinds.storage import check_claim_spec, default_claim_spec
from kubeshare_py.embedded_cluster.protocol.checks import Checked
from kubeshare_py.embedded_cluster.protocol.merge import META_KEYS, POD_KEYS, REPLACED
from kubeshare_py.embedded_cluster.protocol.quantities import (
    WHOLE,
    amount_of,
    check_amount,
    check_excess,
)
from kubeshare_py.embedded_cluster.protocol.resources import (
    SCALE,
    STATUS,
    Admission,
    Resource,
    Scale,
    age_of,
    columns,
    without_status,
)
from kubeshare_py.embedded_cluster.protocol.selectors import check_selector, selector_text, selects
from kubeshare_py.embedded_cluster.protocol.status import Json
from kubeshare_py.embedded_cluster.protocol.times import default_times
from kubeshare_py.views.ages import duration, seconds

_WIDE = "Containers, Images, Selector"
_MISMATCH = "`selector` does not match template `labels`"
_SCALE = Scale(
    wanted=("spec", "replicas"),
    present=("status", "replicas"),
    selector=lambda workload: selector_text(workload["spec"].get("selector")),
)


def _default_template(spec: Json) -> None:
    default_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))


def _check_counts(ready_text: str, names: Sequence[str], workload: Checked, _old: Json) -> None:
    """No count of the status is negative, and no part is larger than the whole."""
    status = workload.at("status")
    status.at_least(0, "replicas", *names)
    for name in names:
        if name != _MISSING and status.get(name, 0) > status.get("replicas", 0):
            status.wrong(name, status.get(name), "cannot be greater than status.replicas")
    if status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        text = f"cannot be greater than {ready_text}"
        status.wrong("availableReplicas", status.get("availableReplicas"), text)


def _check_selector(spec: Checked, kind: str) -> None:
    """A selector is there, selects something, and selects the template."""
    selector, found = spec.get("selector", None), len(spec.causes)
    check_selector(spec.at("selector"))
    if len(spec.causes) > found and kind == "deployment":
        spec.wrong("selector", selector, "invalid label selector")
    if selector is None:
        spec.lacks("selector")
    elif not selector:
        spec.wrong("selector", selector, f"empty selector is invalid for {kind}")
    labels = (spec.value["template"].get("metadata") or {}).get("labels")
    is_fine = len(spec.causes) == found or kind == "statefulset"
    if selector != {} and (selector is None or is_fine) and not selects(selector)(labels):
        spec.wrong("template.metadata.labels", labels, _MISMATCH)


def _wide_cells(spec: Json) -> list[object]:
    containers = spec["template"]["spec"].get("containers") or []
    return [
        ",".join(container["name"] for container in containers),
        ",".join(container.get("image", "") for container in containers),
        selector_text(spec.get("selector")) or "<none>",
    ]


# Deployments and ReplicaSets (apps/v1).


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


def _check_deployment(deployment: Checked) -> None:
    spec = deployment.at("spec")
    spec.at_least(0, "replicas")
    _check_pods(spec)
    _check_strategy(spec.at("strategy"))
    spec.at_least(0, "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline <= spec.get("minReadySeconds", 0):
        spec.wrong("progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _check_replica_set(replica_set: Checked) -> None:
    spec = replica_set.at("spec")
    spec.at_least(0, "replicas", "minReadySeconds")
    _check_pods(spec)


def _check_pods(spec: Checked) -> None:
    """Selector and template, and that they belong together."""
    _check_selector(spec, "deployment")
    pod = spec.at("template.spec")
    check_pod_spec(pod)
    pod.one_of("restartPolicy", ("Always",))
    if "activeDeadlineSeconds" in pod.value:
        pod.forbid("activeDeadlineSeconds", "activeDeadlineSeconds in ReplicaSet is not Supported")


def _check_changed_deployment(new: Checked, old: Json) -> None:
    _check_deployment(new)
    new.at("spec").unchanged(old["spec"], "selector")


def _check_changed_replica_set(new: Checked, old: Json) -> None:
    _check_replica_set(new)
    new.at("spec").unchanged(old["spec"], "selector")


def _check_strategy(strategy: Checked) -> None:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate", None)
    if kind == RECREATE and rolling is not None:
        text = f"may not be specified when strategy `type` is '{RECREATE}'"
        strategy.forbid("rollingUpdate", text)
    elif kind == ROLLING:
        _check_rolling(strategy.at("rollingUpdate"))
    elif kind != RECREATE:
        strategy.unsupported("", {"Type": kind, "RollingUpdate": rolling}, (RECREATE, ROLLING))


def _check_rolling(rolling: Checked) -> None:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    fine = [check_amount(rolling, field) for field in ("maxUnavailable", "maxSurge")]
    if all(fine) and not _is_some(unavailable) and not _is_some(surge):
        rolling.wrong("maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    check_excess(rolling, "maxUnavailable")


def _is_some(amount: int | str) -> bool:
    return amount_of(amount, WHOLE, up=True) > 0


def _deployment_cells(deployment: Json, now: float) -> list[object]:
    spec, status = deployment["spec"], deployment.get("status") or {}
    return [
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age_of(deployment, now),
        *_wide_cells(spec),
    ]


def _replica_set_cells(replica_set: Json, now: float) -> list[object]:
    spec, status = replica_set["spec"], replica_set.get("status") or {}
    return [
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age_of(replica_set, now),
        *_wide_cells(spec),
    ]


DEPLOYMENTS = Resource(
    group="apps",
    plural="deployments",
    kind="Deployment",
    short_names=("deploy",),
    categories=("all",),
    subresources=(SCALE, STATUS),
    scale=_SCALE,
    columns=columns("Ready, Up-to-date, Available, Age", _WIDE),
    cells=_deployment_cells,
    merge_keys=POD_KEYS,
    has_generation=True,
    counts_annotations=True,
    prepare=without_status,
    default=_default_deployment,
    check=_check_deployment,
    check_changed=_check_changed_deployment,
    check_status=partial(_check_counts, "readyReplicas", ("updatedReplicas", *_READY, _MISSING)),
)
_REPLICA_SET_COLUMNS = columns("Desired:integer, Current:integer, Ready:integer, Age", _WIDE)
REPLICA_SETS = Resource(
    group="apps",
    plural="replicasets",
    kind="ReplicaSet",
    short_names=("rs",),
    categories=("all",),
    subresources=(SCALE, STATUS),
    scale=_SCALE,
    columns=_REPLICA_SET_COLUMNS,
    cells=_replica_set_cells,
    merge_keys=POD_KEYS,
    has_generation=True,
    prepare=without_status,
    default=_default_replica_set,
    check=_check_replica_set,
    check_changed=_check_changed_replica_set,
    check_status=partial(_check_counts, "readyReplicas", ("fullyLabeledReplicas", *_READY)),
)


# StatefulSets and ReplicationControllers (apps/v1, v1).


ORDERED, PARALLEL = "OrderedReady", "Parallel"
_ROLLING, _ON_DELETE = "RollingUpdate", "OnDelete"
_RETENTIONS = ("Retain", "Delete")
_CHANGEABLE = (
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
)
_FIXED_SET_SPEC = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
    "'minReadySeconds' are forbidden"
)


def _default_set(one: Json) -> None:
    spec = one.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", ORDERED)
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec.setdefault("updateStrategy", {})
    if "type" not in strategy:
        strategy["type"] = _ROLLING
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == _ROLLING and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    for when in ("whenDeleted", "whenScaled"):
        retention.setdefault(when, "Retain")
    for claim in spec.get("volumeClaimTemplates") or []:
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("apiVersion", "v1")
        default_claim_spec(claim.setdefault("spec", {}))
        claim.setdefault("status", {}).setdefault("phase", "Pending")
    _default_template(spec)
    status = one.setdefault("status", {})
    for name in ("replicas", "availableReplicas"):
        status.setdefault(name, 0)


def _check_set(one: Checked) -> None:
    spec = one.at("spec")
    policy, strategy = spec.get("podManagementPolicy"), spec.value["updateStrategy"]
    if policy not in (ORDERED, PARALLEL):
        spec.wrong("podManagementPolicy", policy, f"must be '{ORDERED}' or '{PARALLEL}'")
    if strategy["type"] not in (_ROLLING, _ON_DELETE):
        shown = {"Type": strategy["type"], "RollingUpdate": strategy.get("rollingUpdate")}
        spec.wrong("updateStrategy", shown, f"must be '{_ROLLING}' or '{_ON_DELETE}'")
    retention = spec.at("persistentVolumeClaimRetentionPolicy")
    for when in retention.value:
        retention.one_of(when, _RETENTIONS)
    for claim in spec.each("volumeClaimTemplates"):
        check_claim_spec(claim.at("spec"))
    spec.at_least(0, "replicas", "minReadySeconds")
    _check_selector(spec, "statefulset")
    names = [claim.value["metadata"]["name"] for claim in spec.each("volumeClaimTemplates")]
    pod = spec.at("template.spec")
    own = [one for one in pod.get("volumes", []) if one.get("name") not in names]
    given = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    pod.value = {**pod.value, "volumes": [*given, *own]}
    check_pod_spec(pod)
    pod.one_of("restartPolicy", ("Always",))


def _check_changed_set(new: Checked, old: Json) -> None:
    _check_set(new)
    spec, before = new.value["spec"], old["spec"]
    fixed = {*spec, *before} - {*_CHANGEABLE}
    if any(spec.get(name) != before.get(name) for name in fixed):
        new.forbid("spec", _FIXED_SET_SPEC)


def _set_cells(stateful: Json, now: float) -> list[object]:
    spec, status = stateful["spec"], stateful.get("status") or {}
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [ready, age_of(stateful, now), *_wide_cells(spec)[:2]]


def _default_controller(one: Json) -> None:
    spec = one.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    template = spec.get("template")
    if template is not None:
        default_pod_spec(template.setdefault("spec", {}))
        labels = (template.get("metadata") or {}).get("labels")
        if labels:
            spec.setdefault("selector", dict(labels))
            one["metadata"].setdefault("labels", dict(labels))
    one.setdefault("status", {}).setdefault("replicas", 0)


def _check_controller(one: Checked) -> None:
    spec = one.at("spec")
    spec.require("selector")
    spec.at_least(0, "replicas")
    template = spec.get("template", None)
    if template is None:
        spec.lacks("template")
        return
    labels = (template.get("metadata") or {}).get("labels") or {}
    if any(labels.get(key) != value for key, value in spec.get("selector", {}).items()):
        spec.wrong("template.metadata.labels", labels or None, _MISMATCH)
    check_pod_spec(spec.at("template.spec"))


def _controller_cells(controller: Json, now: float) -> list[object]:
    """As for a ReplicaSet, whose selector is written differently."""
    spec = controller["spec"]
    shown = {**spec, "selector": {"matchLabels": spec.get("selector") or {}}}
    return _replica_set_cells({**controller, "spec": shown}, now)


_SET_COUNTS = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
STATEFUL_SETS = Resource(
    group="apps",
    plural="statefulsets",
    kind="StatefulSet",
    short_names=("sts",),
    categories=("all",),
    subresources=(SCALE, STATUS),
    scale=_SCALE,
    columns=columns("Ready, Age", "Containers, Images"),
    cells=_set_cells,
    merge_keys=POD_KEYS,
    has_generation=True,
    prepare=without_status,
    default=_default_set,
    check=_check_set,
    check_changed=_check_changed_set,
    check_status=partial(_check_counts, "status.readyReplicas", _SET_COUNTS),
)
REPLICATION_CONTROLLERS = Resource(
    plural="replicationcontrollers",
    kind="ReplicationController",
    short_names=("rc",),
    categories=("all",),
    subresources=(SCALE, STATUS),
    scale=replace(
        _SCALE,
        selector=lambda one: selector_text({"matchLabels": one["spec"].get("selector") or {}}),
    ),
    columns=_REPLICA_SET_COLUMNS,
    cells=_controller_cells,
    merge_keys=POD_KEYS,
    selectable={"status.replicas": ("status", "replicas")},
    default_policy="Orphan",
    has_generation=True,
    prepare=without_status,
    default=_default_controller,
    check=_check_controller,
)


# Jobs: defaults, generated selector and labels, what may not change (kubectl-facts: batch/v1).


_PREFIX = "batch.kubernetes.io/"


def _prepare_job(job: Json, _admission: Admission) -> None:
    """Drops the status; selector and labels are generated from the Job's own uid."""
    job.pop("status", None)
    spec = job.setdefault("spec", {})
    _default_job(job)
    if spec.get("manualSelector"):
        return
    metadata = job["metadata"]
    marks = {"controller-uid": metadata["uid"], "job-name": metadata["name"]}
    labels = {**marks, **{_PREFIX + key: value for key, value in marks.items()}}
    template = spec["template"].setdefault("metadata", {})
    template["labels"] = {**template.get("labels", {}), **labels}
    if not metadata.get("labels"):
        metadata["labels"] = dict(template["labels"])
    key = f"{_PREFIX}controller-uid"
    spec["selector"] = {"matchLabels": {key: metadata["uid"]}}


def _default_job(job: Json) -> None:
    """Defaults that updates apply too."""
    spec = job["spec"]
    if "parallelism" not in spec and "completions" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    if not spec["manualSelector"]:
        del spec["manualSelector"]
    failing = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", failing)
    _default_template(spec)
    job.setdefault("status", {})


def _check_job(job: Checked) -> None:
    """The template must not restart for ever, and counts are not negative."""
    spec = job.at("spec")
    pod = spec.at("template.spec")
    check_pod_spec(pod)
    if pod.get("restartPolicy") == "Always":
        pod.unsupported("restartPolicy", "Always", ("OnFailure", "Never"))
    spec.at_least(0, "parallelism", "completions", "backoffLimit", "activeDeadlineSeconds")
    if spec.get("completionMode") == "Indexed" and "completions" not in spec.value:
        spec.lacks("completions", "when completion mode is Indexed")


def _check_job_update(job: Checked, old: Json) -> None:
    """Selector, mode, template (unless suspended and not started) and completions stay."""
    before = old["spec"]
    suspended = before.get("suspend") and "startTime" not in old.get("status", {})
    fixed = ["selector", "completionMode", *([] if suspended else ["template"])]
    fixed += [] if before["completionMode"] == "Indexed" else ["completions"]
    job.at("spec").unchanged(before, *fixed)


def _job_cells(job: Json, now: float) -> list[object]:
    spec, status = job["spec"], job.get("status") or {}
    return [
        _job_status(spec, status),
        _completions(spec, status),
        _job_duration(status, now),
        age_of(job, now),
        *_wide_cells(spec),
    ]


def _job_status(spec: Json, status: Json) -> str:
    true = {c["type"] for c in status.get("conditions") or [] if c.get("status") == "True"}
    for condition in ("Complete", "Failed"):
        if condition in true:
            return condition
    if spec.get("suspend") or "Suspended" in true:
        return "Suspended"
    return "FailureTarget" if "FailureTarget" in true else "Running"


def _completions(spec: Json, status: Json) -> str:
    succeeded = status.get("succeeded", 0)
    if "completions" in spec:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(status: Json, now: float) -> str:
    if "startTime" not in status:
        return ""
    finished = status.get("completionTime")
    end = seconds(finished) if finished else now
    return duration(end - seconds(status["startTime"]))


JOBS = Resource(
    group="batch",
    plural="jobs",
    kind="Job",
    categories=("all",),
    subresources=(STATUS,),
    columns=columns("Status, Completions, Duration, Age", _WIDE),
    cells=_job_cells,
    merge_keys=POD_KEYS,
    selectable={"status.successful": ("status", "succeeded")},
    has_generation=True,
    default_policy="Orphan",
    prepare=_prepare_job,
    default=_default_job,
    check=_check_job,
    check_update=_check_job_update,
)


# PodDisruptionBudgets (policy/v1).


#: Eviction of unready pods: always, or only while enough others are healthy.
ALWAYS_ALLOW, IF_HEALTHY_BUDGET = "AlwaysAllow", "IfHealthyBudget"
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def _default_budget(budget: Json) -> None:
    budget.setdefault("spec", {})
    status = budget.setdefault("status", {})
    for name in _COUNTS:
        status.setdefault(name, 0)
    empty: Json = {"lastTransitionTime": None, "reason": "", "message": ""}
    if status.get("conditions"):
        status["conditions"] = [{**empty, **one} for one in status["conditions"]]


def _check_budget(budget: Checked) -> None:
    spec = budget.at("spec")
    if {"minAvailable", "maxUnavailable"} <= {*spec.value}:
        names = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
        shown = {name[0].upper() + name[1:]: spec.get(name, None) for name in names}
        spec.wrong("", shown, "minAvailable and maxUnavailable cannot be both set")
    for name in ("minAvailable", "maxUnavailable"):
        check_amount(spec, name)
        check_excess(spec, name)
    if "unhealthyPodEvictionPolicy" in spec.value:
        spec.one_of("unhealthyPodEvictionPolicy", (ALWAYS_ALLOW, IF_HEALTHY_BUDGET))
    check_selector(spec.at("selector"))


def _budget_cells(budget: Json, now: float) -> list[object]:
    spec, status = budget.get("spec") or {}, budget.get("status") or {}
    return [
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        status.get("disruptionsAllowed", 0),
        age_of(budget, now),
    ]


BUDGETS = Resource(
    group="policy",
    plural="poddisruptionbudgets",
    kind="PodDisruptionBudget",
    short_names=("pdb",),
    subresources=(STATUS,),
    columns=columns("Min Available, Max Unavailable, Allowed Disruptions:integer, Age"),
    cells=_budget_cells,
    merge_keys={**META_KEYS, "conditions": "type", "selector": REPLACED},
    has_generation=True,
    unconditional_update=False,
    prepare=without_status,
    default=_default_budget,
    check=_check_budget,
    check_status=lambda new, _old: new.at("status").at_least(0, *_COUNTS),
)
