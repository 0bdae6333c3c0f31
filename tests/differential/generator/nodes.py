"""Nodes: labels, zones, taints, capacities, images."""

from collections.abc import Collection
from random import Random

from tests.differential.generator.words import (
    DONGLE,
    GKE_ZONE,
    HOSTNAME,
    NIC,
    NODE_LABELS,
    PULLED,
    REGION,
    ZONE,
    ZONES,
    Json,
    chance,
    some,
)

TAINTS = (("dedicated", "gpu"), ("dedicated", "db"), ("spot", ""), ("node.example/bad", "x"))
FEATURES = (
    *("GuaranteedQoSPodCPUResize", "RestartAllContainersOnContainerExits"),
    "UserNamespacesHostNetworkSupport",
)
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")


def nodes(rng: Random, subjects: Collection[str]) -> list[Json]:
    """Up to eight nodes, n0 and so on, seldom none; clusters differ in how alike theirs are."""
    count = rng.choice((0, 1, 2, 2, 3, 3, 4, 5, 6, 8)) if chance(rng, 0.5) else rng.randint(2, 5)
    plain = chance(rng, 0.5)
    found = [node(rng, f"n{at}", plain=plain) for at in range(count)]
    if "features" in subjects:
        for one in found:
            one["status"]["declaredFeatures"] = sorted(some(rng, FEATURES, len(FEATURES)))
    return found


def node(rng: Random, name: str, *, plain: bool) -> Json:
    """One node; a plain one is free of taints."""
    spec: Json = {}
    taints = [] if plain else _taints(rng)
    if not plain and chance(rng, 0.08):
        spec["unschedulable"] = True
        if chance(rng, 0.7):
            cordoned = "node.kubernetes.io/unschedulable"
            taints.append({"key": cordoned, "effect": "NoSchedule"})
    if taints:
        spec["taints"] = taints
    status: Json = {"allocatable": _allocatable(rng)}
    images = [_image(rng, *one) for one in some(rng, PULLED, 3)] if chance(rng, 0.4) else []
    if images:
        status["images"] = images
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": _labels(rng, name)},
        "spec": spec,
        "status": status,
    }


def _labels(rng: Random, name: str) -> dict[str, str]:
    labels = {HOSTNAME: name} if chance(rng, 0.97) else {}
    if chance(rng, 0.9):
        labels[ZONE] = labels[GKE_ZONE] = rng.choice(ZONES)
        if chance(rng, 0.5):
            labels[REGION] = "r"
    for key, values in NODE_LABELS.items():
        if chance(rng, 0.5):
            labels[key] = rng.choice(values)
    return labels


def _taints(rng: Random) -> list[Json]:
    found = {}
    for _ in range(rng.choice((0, 0, 0, 0, 1, 1, 2, 3))):
        key, value = rng.choice(TAINTS)
        effect = rng.choice(EFFECTS)
        # A node has one taint of a key and an effect.
        found[key, effect] = {"key": key, "effect": effect, **({"value": value} if value else {})}
    return [*found.values()]


def _allocatable(rng: Random) -> dict[str, str]:
    found = {
        "cpu": rng.choice(("1", "2", "4", "3500m", "16")),
        "memory": rng.choice(("512Mi", "1Gi", "4Gi", "4000Mi", "16Gi")),
        "ephemeral-storage": rng.choice(("0", "10Gi", "100Gi")),
        "pods": rng.choice(("0", "1", "2", "5", *["110"] * 6)),
    }
    for name in (DONGLE, NIC):
        if chance(rng, 0.4):
            found[name] = rng.choice(("0", "1", "4"))
    if chance(rng, 0.2):
        found["hugepages-2Mi"] = rng.choice(("0", "64Mi"))
    return found


def _image(rng: Random, name: str, size: int) -> Json:
    names = [name]
    if chance(rng, 0.3):
        names.insert(0, f"{name.partition(':')[0]}@sha256:{'0' * 64}")
    return {"names": names, "sizeBytes": size}
