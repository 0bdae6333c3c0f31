"""Nodes and namespaces: defaults.

The real server's admission plugin TaintNodesByCondition, which gives every new Node the taint
`node.kubernetes.io/not-ready:NoSchedule` until a controller removes it, is off here, because there
is no such controller.
"""

from kubeshare_py.embedded_cluster.protocol import quantities
from kubeshare_py.embedded_cluster.protocol.resources import Admission
from kubeshare_py.embedded_cluster.protocol.status import Json, StatusCause, required, unsupported
from kubeshare_py.embedded_cluster.protocol.times import default_times

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def default_node(node: Json) -> None:
    """Canonical quantities; allocatable is capacity unless it is set."""
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    for part in ("capacity", "allocatable"):
        if part in status:
            status[part] = {name: quantities.canonical(text) for name, text in status[part].items()}
    default_times(status, "lastHeartbeatTime")
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))


def node_causes(node: Json) -> list[StatusCause]:
    """Taints need a key and a known effect."""
    causes = []
    for index, taint in enumerate(node["spec"].get("taints") or []):
        where = f"metadata.taints[{index}]"
        if not taint.get("key"):
            causes.append(required(f"{where}.key"))
        if taint.get("effect") not in _EFFECTS:
            causes.append(unsupported(f"{where}.effect", taint.get("effect", ""), _EFFECTS))
    return causes


def end_namespace(namespace: Json, _now: float) -> None:
    """Let it wait until it is empty."""
    namespace["status"] = {**namespace.get("status", {}), "phase": "Terminating"}


def prepare_namespace(namespace: Json, _admission: Admission) -> None:
    """Active, with its name as a label."""
    namespace["spec"] = {"finalizers": ["kubernetes"]}
    namespace["status"] = {"phase": "Active"}
    metadata = namespace["metadata"]
    metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata["name"]
