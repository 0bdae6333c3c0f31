"""Services and controllers of pods, and the constraints of spread that pods then get by default."""

from random import Random

from tests.differential.generator.neighbours import KEYS
from tests.differential.generator.words import (
    NAMESPACES,
    POD_LABELS,
    Json,
    chance,
    pod_labels,
)

#: Controllers of each namespace: apiVersion, kind and name.
CONTROLLERS = (
    ("apps/v1", "ReplicaSet", "rs-0"),
    ("apps/v1", "ReplicaSet", "rs-1"),
    ("apps/v1", "StatefulSet", "sts-0"),
    ("v1", "ReplicationController", "rc-0"),
)
#: References that lead to no selector.
_OTHERS = (
    ("batch/v1", "Job", "rs-0"),
    ("example.com/v1", "ReplicaSet", "rs-0"),
    ("apps/v1beta1", "StatefulSet", "sts-0"),
    ("apps/v1", "ReplicaSet", "gone"),
)


def owned(rng: Random, made: Json) -> None:
    """A controller; some pods have other owners instead, or none."""
    if chance(rng, 0.3):
        return
    references = [_reference(rng.choice(CONTROLLERS), controls=True)]
    if chance(rng, 0.1):
        references = [_reference(rng.choice(_OTHERS), controls=True)]
    if chance(rng, 0.15):
        references[0]["controller"] = False
    if chance(rng, 0.1):
        references.insert(0, _reference(rng.choice(CONTROLLERS), controls=False))
    made["metadata"]["ownerReferences"] = references
    if chance(rng, 0.4):
        made["spec"].pop("topologySpreadConstraints", None)


def _reference(owner: tuple[str, str, str], *, controls: bool) -> Json:
    version, kind, name = owner
    found = {"apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{kind}-{name}"}
    return {**found, "controller": True} if controls else found


def owners(rng: Random) -> list[Json]:
    """Services, and most of the controllers of each namespace."""
    found = [_service(rng, f"s{at}") for at in range(rng.randint(0, 4))]
    for namespace in NAMESPACES:
        found += [_controller(rng, owner, namespace) for owner in CONTROLLERS if chance(rng, 0.8)]
    return found


def _service(rng: Random, name: str) -> Json:
    spec: Json = {"ports": [{"port": 80}]}
    if chance(rng, 0.9):
        spec["selector"] = _some_of(rng, pod_labels(rng))
    namespace = rng.choice((*NAMESPACES, "default", "default"))
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _controller(rng: Random, owner: tuple[str, str, str], namespace: str) -> Json:
    """One whose template has the labels that it selects, as the API server requires."""
    version, kind, name = owner
    labels = pod_labels(rng) or {"app": "web"}
    selected = _some_of(rng, labels) or labels
    spec: Json = {"replicas": 1, "selector": selected, "template": _template(labels)}
    if version != "v1":
        spec["selector"] = _selector(rng, labels, selected)
    if kind == "StatefulSet":
        spec["serviceName"] = "s0"
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _selector(rng: Random, labels: dict[str, str], selected: dict[str, str]) -> Json:
    found: Json = {"matchLabels": selected}
    key = rng.choice([*POD_LABELS])
    line: Json = {"key": key, "operator": "Exists" if key in labels else "DoesNotExist"}
    if key in labels and chance(rng, 0.5):
        line = {"key": key, "operator": "In", "values": [*POD_LABELS[key]][::-1]}
    if chance(rng, 0.4):
        found["matchExpressions"] = [line]
    if chance(rng, 0.2):
        return {"matchExpressions": [line]}
    return found


def _template(labels: dict[str, str]) -> Json:
    containers = [{"name": "c0", "image": "registry.example/c:0"}]
    return {"metadata": {"labels": labels}, "spec": {"containers": containers}}


def _some_of(rng: Random, labels: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if chance(rng, 0.6)}


def spread_arguments(rng: Random) -> Json:
    """Arguments of PodTopologySpread."""
    if chance(rng, 0.3):
        return {"defaultingType": "System"}
    pairs = {
        (rng.choice(KEYS), rng.choice(("DoNotSchedule", "ScheduleAnyway")))
        for _ in range(rng.choice((0, 1, 1, 2, 3)))
    }
    listed = [_constraint(rng, *pair) for pair in sorted(pairs)]
    return {"defaultingType": "List", "defaultConstraints": listed}


def _constraint(rng: Random, key: str, unsatisfiable: str) -> Json:
    found: Json = {
        "maxSkew": rng.choice((1, 1, 2, 3)),
        "topologyKey": key,
        "whenUnsatisfiable": unsatisfiable,
    }
    if unsatisfiable == "DoNotSchedule" and chance(rng, 0.25):
        found["minDomains"] = rng.choice((1, 2, 3, 5))
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if chance(rng, 0.3):
            found[policy] = rng.choice(("Honor", "Ignore"))
    if chance(rng, 0.1):
        found["matchLabelKeys"] = ["version"]
    return found
