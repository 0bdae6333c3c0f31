"""Arguments of plugins, as a KubeSchedulerConfiguration gives them."""

from collections.abc import Callable
from random import Random

from tests.differential.generator.neighbours import REQUIRED
from tests.differential.generator.words import DONGLE, Json, chance, node_term, some

_RESOURCES = ("cpu", "memory", "ephemeral-storage", DONGLE)


def arguments(rng: Random) -> list[Json]:
    """A pluginConfig for some plugins."""
    names = some(rng, [*_OF_PLUGINS], 3)
    return [{"name": name, "args": _OF_PLUGINS[name](rng)} for name in names]


def _fit(rng: Random) -> Json:
    way = rng.choice(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    strategy: Json = {"type": way, "resources": _resources(rng, 5)}
    if way == "RequestedToCapacityRatio":
        levels = sorted(rng.sample(range(0, 101, 10), rng.randint(2, 4)))
        shape = [{"utilization": level, "score": rng.randint(0, 10)} for level in levels]
        strategy["requestedToCapacityRatio"] = {"shape": shape}
    found: Json = {"scoringStrategy": strategy}
    if chance(rng, 0.2):
        found["ignoredResources"] = [DONGLE]
    if chance(rng, 0.1):
        found["ignoredResourceGroups"] = ["rdma.example.com"]
    return found


def _resources(rng: Random, heaviest: int) -> list[Json]:
    names = some(rng, _RESOURCES, 3) or ["cpu"]
    return [{"name": name, "weight": rng.randint(1, heaviest)} for name in names]


def _balanced(rng: Random) -> Json:
    return {"resources": _resources(rng, 1)}


def _node_affinity(rng: Random) -> Json:
    found: Json = {}
    if chance(rng, 0.6):
        found[REQUIRED] = {"nodeSelectorTerms": [node_term(rng)]}
    if chance(rng, 0.6):
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": rng.choice((1, 40)), "preference": node_term(rng)}
        ]
    return {"addedAffinity": found} if found else {}


def _inter_pod(rng: Random) -> Json:
    return {
        "hardPodAffinityWeight": rng.choice((0, 1, 30, 100)),
        "ignorePreferredTermsOfExistingPods": chance(rng, 0.3),
    }


_OF_PLUGINS: dict[str, Callable[[Random], Json]] = {
    "NodeResourcesFit": _fit,
    "NodeResourcesBalancedAllocation": _balanced,
    "NodeAffinity": _node_affinity,
    "InterPodAffinity": _inter_pod,
}
