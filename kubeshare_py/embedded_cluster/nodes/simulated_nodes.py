"""The nodes of a simulated cluster: read from its YAML file, and as objects of the API."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from kubeshare_py.documents.yaml_text import DocumentProblem, memory_bytes, read_document
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.node import Taint
from kubeshare_py.domain.quantity import (
    CARD_BYTES,
    CARD_NAME,
    CARDS_OF_NODE,
    SIMULATED_NODES,
    AmountRange,
    is_quantity,
)
from kubeshare_py.embedded_cluster.controllers.unstructured import Json
from kubeshare_py.embedded_cluster.protocol.times import micro_timestamp, timestamp
from kubeshare_py.inventory.card_file import read_topology, synthetic_uuid
from kubeshare_py.topology.wiring import Wiring, wired

# A simulated cluster from one YAML file: groups of equal nodes and the cards in them.


#: RFC 1123 subdomain, as Kubernetes asks of a node's name.
_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME = 253
_DEFAULT_ALLOCATABLE = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "500Gi", "pods": "110"}
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedNode:
    """One node: name, labels, annotations, allocatable (Kubernetes quantities) and cards."""

    name: NodeName
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Mapping[str, str]
    cards: tuple[Gpu, ...]
    annotations: Mapping[str, str] = field(default_factory=dict)


def read_cluster(text: bytes | str, source: str = "cluster file") -> tuple[SimulatedNode, ...]:
    """The nodes of a cluster file, in its order.

    Raises DocumentProblem with file, field and rule.
    """
    document = read_document(text, source, _ClusterDocument)
    nodes: list[SimulatedNode] = []
    seen: set[str] = set()
    for number, group in enumerate(document.nodes):
        count = sum(cards.count for cards in group.gpus)
        wiring = read_topology(group.topology, count, source, f"nodes[{number}].topology")
        try:
            for node in _nodes(group, wiring):
                if node.name in seen:
                    raise _FieldProblem("name", f"node {node.name} is there twice")
                seen.add(node.name)
                _within("count", SIMULATED_NODES, len(seen))
                nodes.append(node)
        except _FieldProblem as problem:
            place, rule = problem.args
            raise DocumentProblem(source, f"nodes[{number}].{place}", rule) from problem
    return tuple(nodes)


class _ClusterCards(msgspec.Struct, forbid_unknown_fields=True):
    model: str
    memory: int | str
    count: int = 1


class _ClusterTaint(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    effect: str
    value: str = ""


class _ClusterGroup(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    count: int = 1
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: list[_ClusterTaint] = []
    allocatable: dict[str, str | int] = {}
    gpus: list[_ClusterCards] = []
    topology: str = ""


class _ClusterDocument(msgspec.Struct, forbid_unknown_fields=True):
    nodes: list[_ClusterGroup]


class _FieldProblem(Exception):
    """Field within the group, and the rule it breaks."""


def _nodes(group: _ClusterGroup, wiring: Wiring) -> Iterator[SimulatedNode]:
    _within("count", SIMULATED_NODES, group.count)
    if group.count > 1 and "{n}" not in group.name:
        raise _FieldProblem("name", "needs {n} where the number goes, because count is more than 1")
    taints = tuple(_taint(taint, at) for at, taint in enumerate(group.taints))
    allocatable = _allocatable(group.allocatable)
    kinds = [_kind(cards, at) for at, cards in enumerate(group.gpus)]
    _within("gpus", CARDS_OF_NODE, sum(count for _, _, count in kinds))
    for number in range(1, group.count + 1):
        name = group.name.replace("{n}", str(number))
        if len(name) > _LONGEST_NAME or not _NODE_NAME.fullmatch(name):
            raise _FieldProblem("name", f"{name[:_LONGEST_NAME]!r} cannot be the name of a node")
        yield SimulatedNode(
            name=NodeName(name),
            labels=_labels(name, group.labels),
            taints=taints,
            allocatable=allocatable,
            cards=wired(_cards(name, kinds), wiring),
            annotations=dict(group.annotations),
        )


def _within(field: str, bound: AmountRange, amount: int) -> None:
    problem = bound.problem(amount)
    if problem:
        raise _FieldProblem(field, problem)


def _labels(name: str, given: Mapping[str, str]) -> dict[str, str]:
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        **given,
    }


def _taint(taint: _ClusterTaint, at: int) -> Taint:
    if taint.effect not in _EFFECTS:
        raise _FieldProblem(f"taints[{at}].effect", f"is none of {', '.join(_EFFECTS)}")
    return Taint(key=taint.key, value=taint.value, effect=taint.effect)


def _allocatable(given: Mapping[str, str | int]) -> dict[str, str]:
    amounts = _DEFAULT_ALLOCATABLE | {name: str(amount) for name, amount in given.items()}
    for name, amount in amounts.items():
        if not is_quantity(amount):
            raise _FieldProblem(f"allocatable.{name}", f"{amount[:40]!r} is not a quantity")
    return amounts


def _kind(cards: _ClusterCards, at: int) -> tuple[str, int, int]:
    _within(f"gpus[{at}].count", CARDS_OF_NODE, cards.count)
    if not cards.model.strip():
        raise _FieldProblem(f"gpus[{at}].model", "is empty")
    try:
        memory = memory_bytes(cards.memory)
    except ValueError as problem:
        raise _FieldProblem(f"gpus[{at}].memory", str(problem)) from problem
    _within(f"gpus[{at}].memory", CARD_BYTES, memory)
    _within(f"gpus[{at}].model", CARD_NAME, len(cards.model))
    # KubeShare writes models with dashes for spaces, everywhere.
    return cards.model.replace(" ", "-"), memory, cards.count


def _cards(node: str, kinds: list[tuple[str, int, int]]) -> tuple[Gpu, ...]:
    each = [(model, memory) for model, memory, count in kinds for _ in range(count)]
    return tuple(
        Gpu(
            uuid=GpuUuid(synthetic_uuid(node, index)),
            index=index,
            model=model,
            memory_bytes=memory,
        )
        for index, (model, memory) in enumerate(each)
    )


# Node objects of a simulated cluster, and their state while a node is lost.


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
