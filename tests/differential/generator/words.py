"""Names, labels, amounts and selectors, few enough that objects often meet each other."""

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")
Json = dict[str, Any]

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
#: The label by which Google's CSI driver knows zones.
GKE_ZONE = "topology.gke.io/zone"
REGION = "topology.kubernetes.io/region"
#: In the form that volumes of Google's disks need.
ZONES = ("eu-west1-a", "eu-west1-b", "eu-west1-c")
NAMESPACES = ("default", "red", "blue")
#: Labels of nodes besides the well-known ones, with values of which some are numbers.
NODE_LABELS = {"disk": ("ssd", "hdd"), "size": ("1", "5", "12", "big"), "rack": ("r1", "r2")}
POD_LABELS = {"app": ("web", "db", "job"), "tier": ("front", "back"), "version": ("1", "2")}
DONGLE, NIC = "example.com/dongle", "rdma.example.com/nic"
PULLED = (
    ("registry.example/web:1", 40_000_000),
    ("registry.example/db:2", 700_000_000),
    ("registry.example/model:3", 9_000_000_000),
)


def chance(rng: Random, share: float) -> bool:
    """True so often."""
    return rng.random() < share


def some(rng: Random, among: Sequence[T], most: int) -> list[T]:
    """Up to so many different ones, in any order."""
    return rng.sample(among, rng.randint(0, min(most, len(among))))


def pod_labels(rng: Random) -> dict[str, str]:
    """Labels by which selectors find pods; often all of them."""
    return {key: rng.choice(values) for key, values in POD_LABELS.items() if chance(rng, 0.75)}


def label_selector(rng: Random) -> Json | None:
    """A metav1.LabelSelector of pods; None, an empty one and odd ones are among them."""
    way = rng.random()
    if way < 0.03:
        return None
    if way < 0.06:
        return {}
    found: Json = {}
    if way < 0.75:
        key = rng.choice([*POD_LABELS])
        found["matchLabels"] = {key: rng.choice(POD_LABELS[key])}
    if way >= 0.65:
        found["matchExpressions"] = [_expression(rng, POD_LABELS)]
    return found


def namespace_selector(rng: Random) -> Json:
    """A selector of namespaces; the empty one selects all."""
    if chance(rng, 0.3):
        return {}
    return {"matchLabels": {"team": rng.choice(("a", "b"))}}


def _expression(rng: Random, labels: dict[str, tuple[str, ...]]) -> Json:
    key = rng.choice([*labels])
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    if operator in ("In", "NotIn"):
        values = some(rng, labels[key], 2) or [labels[key][0]]
        return {"key": key, "operator": operator, "values": values}
    return {"key": key, "operator": operator}


def node_expression(rng: Random) -> Json:
    """One requirement of a node selector term, Gt and Lt included."""
    labels = {ZONE: ZONES, HOSTNAME: ("n0", "n1", "n2"), **NODE_LABELS}
    if chance(rng, 0.25):
        operator = rng.choice(("Gt", "Lt"))
        return {"key": "size", "operator": operator, "values": [rng.choice(("1", "4", "11"))]}
    return _expression(rng, labels)


def node_term(rng: Random) -> Json:
    """A node selector term: expressions, fields, both, or nothing, which matches no node."""
    way = rng.random()
    if way < 0.04:
        return {}
    term: Json = {}
    if way < 0.85:
        term["matchExpressions"] = [node_expression(rng) for _ in range(rng.choice((1, 1, 2)))]
    if way > 0.75:
        operator = rng.choice(("In", "In", "NotIn"))
        field = {"key": "metadata.name", "operator": operator}
        term["matchFields"] = [{**field, "values": [f"n{rng.randint(0, 6)}"]}]
    return term


def amounts(rng: Random, scale: float = 1.0) -> dict[str, str]:
    """Requests of a container for cpu, memory and the like; each may be missing or zero."""
    found: dict[str, str] = {}
    if chance(rng, 0.8):
        found["cpu"] = _cpu(rng, scale)
    if chance(rng, 0.7):
        found["memory"] = _memory(rng, scale)
    if chance(rng, 0.1):
        found["ephemeral-storage"] = rng.choice(("1Gi", "500M", "20Gi", "0"))
    for name in (DONGLE, NIC):
        if chance(rng, 0.08):
            found[name] = rng.choice(("0", "1", "2", "5"))
    if chance(rng, 0.04):
        found["hugepages-2Mi"] = rng.choice(("2Mi", "64Mi"))
    return found


def _cpu(rng: Random, scale: float) -> str:
    milli = round(rng.choice((0, 10, 100, 250, 500, 1000, 1500, 3000, 9000)) * scale)
    if milli % 1000 == 0 and chance(rng, 0.5):
        return str(milli // 1000)
    return f"{milli / 1000:g}" if chance(rng, 0.1) else f"{milli}m"


def _memory(rng: Random, scale: float) -> str:
    size = round(rng.choice((0, 1, 64, 200, 512, 1024, 4096)) * scale)
    return rng.choice((f"{size}Mi", f"{size}Mi", f"{size}M", f"{size * 1024}Ki", str(size << 20)))
