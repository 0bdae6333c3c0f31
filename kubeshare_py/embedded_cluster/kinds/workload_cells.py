"""Rows of `kubectl get` for workloads, their scale and disruption budgets."""

from kubeshare_py.embedded_cluster.protocol.label_selectors import selector_text
from kubeshare_py.embedded_cluster.protocol.resources import PrinterColumn
from kubeshare_py.embedded_cluster.protocol.status import Json
from kubeshare_py.views.ages import age

_WIDE = (
    PrinterColumn("Containers", priority=1),
    PrinterColumn("Images", priority=1),
    PrinterColumn("Selector", priority=1),
)
DEPLOYMENT_COLUMNS = (
    PrinterColumn("Ready"),
    PrinterColumn("Up-to-date"),
    PrinterColumn("Available"),
    PrinterColumn("Age"),
    *_WIDE,
)
REPLICA_SET_COLUMNS = (
    PrinterColumn("Desired", "integer"),
    PrinterColumn("Current", "integer"),
    PrinterColumn("Ready", "integer"),
    PrinterColumn("Age"),
    *_WIDE,
)
STATEFUL_SET_COLUMNS = (PrinterColumn("Ready"), PrinterColumn("Age"), *_WIDE[:2])
BUDGET_COLUMNS = (
    PrinterColumn("Min Available"),
    PrinterColumn("Max Unavailable"),
    PrinterColumn("Allowed Disruptions", "integer"),
    PrinterColumn("Age"),
)


def deployment_cells(deployment: Json, now: float) -> list[object]:
    """Ready of desired, up to date, available, age; containers, images, selector when wide."""
    spec, status = deployment["spec"], deployment.get("status") or {}
    return [
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        _age(deployment, now),
        *_wide_cells(spec),
    ]


def replica_set_cells(replica_set: Json, now: float) -> list[object]:
    """Desired, current, ready, age; containers, images, selector when wide."""
    spec, status = replica_set["spec"], replica_set.get("status") or {}
    return [
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        _age(replica_set, now),
        *_wide_cells(spec),
    ]


def replication_controller_cells(controller: Json, now: float) -> list[object]:
    """As for a ReplicaSet, whose selector is written differently."""
    spec = controller["spec"]
    shown = {**spec, "selector": {"matchLabels": spec.get("selector") or {}}}
    return replica_set_cells({**controller, "spec": shown}, now)


def stateful_set_cells(stateful: Json, now: float) -> list[object]:
    """Ready of desired, age; containers and images when wide."""
    spec, status = stateful["spec"], stateful.get("status") or {}
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [ready, _age(stateful, now), *_wide_cells(spec)[:2]]


def budget_cells(budget: Json, now: float) -> list[object]:
    """The two limits, how many pods may go now, age."""
    spec, status = budget.get("spec") or {}, budget.get("status") or {}
    return [
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        status.get("disruptionsAllowed", 0),
        _age(budget, now),
    ]


def _wide_cells(spec: Json) -> list[object]:
    containers = spec["template"]["spec"].get("containers") or []
    return [
        ",".join(container["name"] for container in containers),
        ",".join(container.get("image", "") for container in containers),
        selector_text(spec.get("selector")) or "<none>",
    ]


def _age(obj: Json, now: float) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)
