"""Terms about other pods: affinity, anti-affinity, topology spread; namespaces."""

from random import Random

from tests.differential.generator.words import (
    HOSTNAME,
    NAMESPACES,
    REGION,
    ZONE,
    Json,
    chance,
    label_selector,
    namespace_selector,
    some,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
KEYS = (ZONE, ZONE, HOSTNAME, HOSTNAME, REGION, "rack")


def namespaces(rng: Random) -> list[Json]:
    """The namespaces of pods, with labels."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": _team(rng, name)},
        }
        for name in NAMESPACES
    ]


def _team(rng: Random, name: str) -> dict[str, str]:
    labels = {"kubernetes.io/metadata.name": name}
    return {**labels, "team": rng.choice(("a", "b"))} if chance(rng, 0.7) else labels


def pod_affinity(rng: Random, made: Json) -> None:
    """Affinity and anti-affinity to other pods, required and preferred."""
    affinity = made["spec"].setdefault("affinity", {})
    for kind in some(rng, ("podAffinity", "podAntiAffinity"), 2) or ["podAntiAffinity"]:
        found: Json = {}
        if chance(rng, 0.65):
            found[REQUIRED] = [_term(rng) for _ in range(rng.choice((1, 1, 1, 2)))]
        if chance(rng, 0.5) or not found:
            found[PREFERRED] = [
                {"weight": rng.choice((1, 10, 100)), "podAffinityTerm": _term(rng)}
                for _ in range(rng.choice((1, 1, 2)))
            ]
        affinity[kind] = found


def _term(rng: Random) -> Json:
    term: Json = {"topologyKey": rng.choice(KEYS)}
    selector = label_selector(rng)
    if selector is not None:
        term["labelSelector"] = selector
    if chance(rng, 0.2):
        term["namespaces"] = some(rng, NAMESPACES, 2) or ["red"]
    if chance(rng, 0.2):
        term["namespaceSelector"] = namespace_selector(rng)
    return term


def spread(rng: Random, made: Json) -> None:
    """Topology spread constraints, required and wished for."""
    pairs = {
        (rng.choice(KEYS), rng.choice(("DoNotSchedule", "ScheduleAnyway")))
        for _ in range(rng.choice((1, 1, 2, 3)))
    }
    made["spec"]["topologySpreadConstraints"] = [
        _constraint(rng, key, unsatisfiable) for key, unsatisfiable in sorted(pairs)
    ]


def _constraint(rng: Random, key: str, unsatisfiable: str) -> Json:
    found: Json = {
        "maxSkew": rng.choice((1, 1, 2, 3)),
        "topologyKey": key,
        "whenUnsatisfiable": unsatisfiable,
    }
    selector = label_selector(rng)
    if selector is not None:
        found["labelSelector"] = selector
        if chance(rng, 0.2):
            selected = {*selector.get("matchLabels", ())}
            selected |= {one["key"] for one in selector.get("matchExpressions", ())}
            found["matchLabelKeys"] = [key for key in ("version", "tier") if key not in selected]
    if unsatisfiable == "DoNotSchedule" and chance(rng, 0.25):
        found["minDomains"] = rng.choice((1, 2, 3, 5))
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if chance(rng, 0.3):
            found[policy] = rng.choice(("Honor", "Ignore"))
    return found
