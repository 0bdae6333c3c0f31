"""Cases: a cluster and a pod that is to be placed, the same ones for the same numbers."""

from collections.abc import Callable, Iterable
from random import Random

from tests.differential.generator import devices, neighbours, owners, pods, volumes
from tests.differential.generator.arguments import arguments
from tests.differential.generator.neighbours import namespaces
from tests.differential.generator.nodes import nodes
from tests.differential.generator.words import (
    NAMESPACES,
    Json,
    amounts,
    chance,
    label_selector,
)

#: What a case may be about: each adds its fields to pods.
SUBJECTS: dict[str, Callable[[Random, Json], None]] = {
    **dict(pods.ADDITIONS),
    "podAffinity": neighbours.pod_affinity,
    "spread": neighbours.spread,
    "owners": owners.owned,
    "volumes": volumes.volumes,
    "devices": devices.resource_claims,
}
#: The most pods that have a node.
_CROWD = 14


def case(seed: int, index: int, subjects: Iterable[str] = ()) -> Json:
    """One case; its subjects are some of those that are given, or of all."""
    rng = Random(f"differential {seed} {index}")
    among = sorted(subjects) or [*SUBJECTS]
    chosen = rng.sample(among, min(len(among), rng.choice((0, 1, 1, 2, 2, 3))))
    there = nodes(rng, chosen)
    objects = [*there, *namespaces(rng)]
    if there:
        objects += crowd(rng, [node["metadata"]["name"] for node in there], chosen)
    incoming = pods.pod(rng, "incoming")
    if chance(rng, 0.2):
        objects = [*objects[: len(there) + len(NAMESPACES)], *fill(rng, there, chosen)]
        incoming["spec"]["priority"] = rng.choice((7, 100))
        asked = {"cpu": rng.choice(("500m", "900m", "1500m", "2"))}
        incoming["spec"]["containers"] = [pods.container("c0", asked)]
    for subject in chosen:
        SUBJECTS[subject](rng, incoming)
    if chance(rng, 0.5):
        objects += budgets(rng)
    if "volumes" in chosen:
        asking = [incoming, *(one for one in objects if one["kind"] == "Pod")]
        objects += volumes.storage(rng, there, incoming["metadata"]["namespace"])
        objects += volumes.ephemeral_claims(rng, asking, there)
    if "devices" in chosen:
        objects += devices.devices(rng, there, incoming)
    if "owners" in chosen:
        objects += owners.owners(rng)
    made: Json = {"objects": objects, "pod": incoming}
    if chance(rng, 0.2):
        made["pluginConfig"] = arguments(rng)
    if "owners" in chosen and chance(rng, 0.6):
        entry = {"name": "PodTopologySpread", "args": owners.spread_arguments(rng)}
        made["pluginConfig"] = [*made.get("pluginConfig", ()), entry]
    return made


def crowd(rng: Random, names: list[str], subjects: list[str]) -> list[Json]:
    """Pods that have a node, some of them with fields of the case's subjects."""
    found = []
    scale = rng.choice((0.3, 0.6, 1.0))
    some_leave = chance(rng, 0.15)
    for at in range(rng.randint(0, _CROWD)):
        made = pods.pod(rng, f"b{at}")
        if chance(rng, 0.8):
            small = pods.container("c0", amounts(rng, scale * 0.3))
            made["spec"]["containers"] = [small]
        for subject in subjects:
            if chance(rng, 0.35):
                SUBJECTS[subject](rng, made)
        bound = pods.bind(rng, made, rng.choice(names), at)
        if chance(rng, 0.05):
            pods.resized(rng, bound)
        if some_leave and chance(rng, 0.3):
            pods.delete(bound)
        found.append(bound)
    return found


def fill(rng: Random, there: list[Json], subjects: list[str]) -> list[Json]:
    """Nodes of two cores each, filled with pods of low priority: some must go for others."""
    found: list[Json] = []
    for node in there:
        node["status"]["allocatable"] |= {"cpu": "2", "pods": "110"}
        node["spec"] = {}
        left = 2000
        while left > 0:
            milli = rng.choice((200, 300, 500, 900))
            made = pods.pod(rng, f"b{len(found)}")
            asked = {"cpu": f"{min(milli, left)}m"}
            made["spec"]["containers"] = [pods.container("c0", asked)]
            for subject in subjects:
                if chance(rng, 0.15):
                    SUBJECTS[subject](rng, made)
            bound = pods.bind(rng, made, node["metadata"]["name"], len(found) * 7 % 11)
            found.append(bound)
            left -= milli
    return found


def budgets(rng: Random) -> list[Json]:
    """PodDisruptionBudgets with little to spare."""
    return [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": f"budget-{at}", "namespace": rng.choice(NAMESPACES)},
            "spec": {"selector": label_selector(rng)},
            "status": {
                "disruptionsAllowed": rng.choice((0, 0, 1, 2)),
                "currentHealthy": 1,
                "desiredHealthy": 1,
                "expectedPods": 1,
            },
        }
        for at in range(rng.randint(1, 2))
    ]
