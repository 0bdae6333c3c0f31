"""Node objects of a simulated cluster, and their state while a node is lost."""

from kubeshare_py.domain.node import Taint
from kubeshare_py.embedded_cluster.controllers.unstructured import Json
from kubeshare_py.embedded_cluster.nodes.cluster_file import SimulatedNode
from kubeshare_py.embedded_cluster.protocol.times import micro_timestamp, timestamp

UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"
LEASE_SECONDS = 40


def node_address(ordinal: int) -> str:
    """The IP address of the cluster's `ordinal`-th node (below 65,000)."""
    return f"172.20.{ordinal >> 8 & 255}.{ordinal & 255}"


def node_object(node: SimulatedNode, address: str, now: float) -> Json:
    """The Node as its kubelet registers it."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": node_metadata(node),
        "spec": {"taints": taints(node.taints)} if node.taints else {},
        "status": node_status(node, address, now),
    }


def node_metadata(node: SimulatedNode) -> Json:
    """Its name, labels and annotations, as far as it has any of these."""
    noted = {"annotations": dict(node.annotations)} if node.annotations else {}
    return {"name": node.name, "labels": dict(node.labels), **noted}


def node_status(node: SimulatedNode, address: str, now: float) -> Json:
    """The status of a node that is well."""
    return {
        "capacity": dict(node.allocatable),
        "allocatable": dict(node.allocatable),
        "addresses": [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": node.name},
        ],
        "nodeInfo": {
            "architecture": node.labels.get("kubernetes.io/arch", ""),
            "bootID": f"boot-{node.name}",
            "containerRuntimeVersion": "simulated://1.0.0",
            "kernelVersion": "6.1.0-simulated",
            "kubeProxyVersion": "v1.36.3-sim",
            "kubeletVersion": "v1.36.3-sim",
            "machineID": f"machine-{node.name}",
            "operatingSystem": node.labels.get("kubernetes.io/os", ""),
            "osImage": "Simulated Linux",
            "systemUUID": f"system-{node.name}",
        },
        "conditions": conditions("True", "KubeletReady", "the simulated kubelet is well", now),
    }


def conditions(status: str, reason: str, message: str, now: float) -> list[Json]:
    """The node's conditions; `status` is Ready's: True, False or Unknown."""
    times = {"lastHeartbeatTime": timestamp(now), "lastTransitionTime": timestamp(now)}
    pressure = "Unknown" if status == "Unknown" else "False"
    return [
        *(
            {"type": kind, "status": pressure, "reason": reason, "message": message, **times}
            for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")
        ),
        {"type": "Ready", "status": status, "reason": reason, "message": message, **times},
    ]


def lost_conditions(now: float) -> list[Json]:
    """The conditions that the node controller writes when a kubelet is silent."""
    return conditions("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.", now)


def lost_taints(present: list[Json], now: float) -> list[Json]:
    """The taints of a lost node: those present and `unreachable`, both effects."""
    added = [
        {"key": UNREACHABLE, "effect": effect, "timeAdded": timestamp(now)}
        for effect in ("NoSchedule", "NoExecute")
    ]
    return [*ready_taints(present), *added]


def ready_taints(present: list[Json]) -> list[Json]:
    """The taints of a ready node: those present without unreachable and not-ready."""
    return [taint for taint in present if taint.get("key") not in (UNREACHABLE, NOT_READY)]


def taints(given: tuple[Taint, ...]) -> list[Json]:
    """Taints as Kubernetes writes them."""
    return [{"key": one.key, "value": one.value, "effect": one.effect} for one in given]


def node_lease(node: str, now: float) -> Json:
    """The Lease whose renewal is a node's heartbeat."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": node, "namespace": "kube-node-lease"},
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": micro_timestamp(now),
        },
    }
