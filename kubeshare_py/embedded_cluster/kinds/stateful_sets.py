"""StatefulSets and ReplicationControllers: defaults, and what may be asked (apps/v1, v1)."""

from kubeshare_py.embedded_cluster.kinds import volume_claims
from kubeshare_py.embedded_cluster.kinds.containers import default_pod_spec, pod_spec_causes
from kubeshare_py.embedded_cluster.kinds.workload_cells import (
    REPLICA_SET_COLUMNS,
    STATEFUL_SET_COLUMNS,
    replication_controller_cells,
    stateful_set_cells,
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

ORDERED, PARALLEL = "OrderedReady", "Parallel"
_ROLLING, _ON_DELETE = "RollingUpdate", "OnDelete"
_RETENTIONS = ("Retain", "Delete")
_NOT_NEGATIVE = "must be greater than or equal to 0"
_CHANGEABLE = (
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
)
_FIXED = (
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
        volume_claims.default_claim_spec(claim.setdefault("spec", {}))
        claim.setdefault("status", {}).setdefault("phase", "Pending")
    default_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))
    status = one.setdefault("status", {})
    for name in ("replicas", "availableReplicas"):
        status.setdefault(name, 0)


def _set_causes(one: Json) -> list[StatusCause]:
    spec, causes = one["spec"], []
    policy, strategy = spec["podManagementPolicy"], spec["updateStrategy"]
    if policy not in (ORDERED, PARALLEL):
        text = f"must be '{ORDERED}' or '{PARALLEL}'"
        causes.append(wrong("spec.podManagementPolicy", policy, text))
    if strategy["type"] not in (_ROLLING, _ON_DELETE):
        shown = {"Type": strategy["type"], "RollingUpdate": strategy.get("rollingUpdate")}
        text = f"must be '{_ROLLING}' or '{_ON_DELETE}'"
        causes.append(wrong("spec.updateStrategy", shown, text))
    for when, kind in spec["persistentVolumeClaimRetentionPolicy"].items():
        if kind not in _RETENTIONS:
            where = f"spec.persistentVolumeClaimRetentionPolicy.{when}"
            causes.append(unsupported(where, kind, _RETENTIONS))
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or []):
        where = f"spec.volumeClaimTemplates[{index}]"
        causes += volume_claims.claim_spec_causes(claim["spec"], f"{where}.spec")
    for name in ("replicas", "minReadySeconds"):
        if spec.get(name, 0) < 0:
            causes.append(wrong(f"spec.{name}", spec[name], _NOT_NEGATIVE))
    return [*causes, *_selector_causes(spec), *_template_causes(spec)]


def _selector_causes(spec: Json) -> list[StatusCause]:
    selector = spec.get("selector")
    causes = selector_causes(selector or {}, "spec.selector")
    if selector is None:
        causes.append(required("spec.selector"))
    elif not selector:
        causes.append(wrong("spec.selector", selector, "empty selector is invalid for statefulset"))
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if selector != {} and not selects(selector)(labels):
        text = "`selector` does not match template `labels`"
        causes.append(wrong("spec.template.metadata.labels", labels, text))
    return causes


def _template_causes(spec: Json) -> list[StatusCause]:
    path, pod = "spec.template.spec", spec["template"]["spec"]
    names = [one["metadata"]["name"] for one in spec.get("volumeClaimTemplates") or []]
    own = [one for one in pod.get("volumes") or [] if one.get("name") not in names]
    given = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    causes = pod_spec_causes({**pod, "volumes": [*given, *own]}, path)
    if pod["restartPolicy"] != "Always":
        causes.append(unsupported(f"{path}.restartPolicy", pod["restartPolicy"], ("Always",)))
    return causes


def _set_update_causes(new: Json, old: Json) -> list[StatusCause]:
    fixed = {*new["spec"], *old["spec"]} - {*_CHANGEABLE}
    if all(new["spec"].get(name) == old["spec"].get(name) for name in fixed):
        return []
    return [not_allowed("spec", _FIXED)]


def _set_status_causes(new: Json, _old: Json) -> list[StatusCause]:
    names = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    counts = {name: new["status"].get(name, 0) for name in ("replicas", *names)}
    causes = [wrong(f"status.{name}", n, _NOT_NEGATIVE) for name, n in counts.items() if n < 0]
    text = "cannot be greater than status.replicas"
    causes += [
        wrong(f"status.{name}", counts[name], text)
        for name in names
        if counts[name] > counts["replicas"]
    ]
    if counts["availableReplicas"] > counts["readyReplicas"]:
        text = "cannot be greater than status.readyReplicas"
        causes.append(wrong("status.availableReplicas", counts["availableReplicas"], text))
    return causes


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


def _controller_causes(one: Json) -> list[StatusCause]:
    spec, causes = one["spec"], []
    if not spec.get("selector"):
        causes.append(required("spec.selector"))
    if spec["replicas"] < 0:
        causes.append(wrong("spec.replicas", spec["replicas"], _NOT_NEGATIVE))
    template = spec.get("template")
    if template is None:
        return [*causes, required("spec.template")]
    labels = (template.get("metadata") or {}).get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("selector") or {}).items()):
        text = "`selector` does not match template `labels`"
        causes.append(wrong("spec.template.metadata.labels", labels or None, text))
    return causes + pod_spec_causes(template["spec"], "spec.template.spec")


STATEFUL_SETS = Resource(
    group="apps",
    plural="statefulsets",
    kind="StatefulSet",
    fields="StatefulSet",
    short_names=("sts",),
    categories=("all",),
    subresources=(scale_subresource(), status_subresource()),
    scale=Scale(
        wanted=("spec", "replicas"),
        present=("status", "replicas"),
        selector=lambda one: selector_text(one["spec"].get("selector")),
    ),
    columns=STATEFUL_SET_COLUMNS,
    cells=stateful_set_cells,
    merge_keys=POD_KEYS,
    has_status=True,
    has_generation=True,
    prepare=without_status,
    default=_default_set,
    causes=_set_causes,
    changed_causes=lambda new, old: [*_set_causes(new), *_set_update_causes(new, old)],
    status_causes=_set_status_causes,
)
REPLICATION_CONTROLLERS = Resource(
    plural="replicationcontrollers",
    kind="ReplicationController",
    fields="ReplicationController",
    short_names=("rc",),
    categories=("all",),
    subresources=(scale_subresource(), status_subresource()),
    scale=Scale(
        wanted=("spec", "replicas"),
        present=("status", "replicas"),
        selector=lambda one: selector_text({"matchLabels": one["spec"].get("selector") or {}}),
    ),
    columns=REPLICA_SET_COLUMNS,
    cells=replication_controller_cells,
    merge_keys=POD_KEYS,
    selectable={"status.replicas": ("status", "replicas")},
    default_policy="Orphan",
    has_status=True,
    has_generation=True,
    prepare=without_status,
    default=_default_controller,
    causes=_controller_causes,
)
