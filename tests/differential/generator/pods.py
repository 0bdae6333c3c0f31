"""Pods: what they ask of a node besides its neighbours, its volumes and its devices."""

from collections.abc import Callable
from random import Random

from kubeshare_py.configuration.scheduler import SCHEDULER_NAME
from kubeshare_py.domain.quantity import amount
from tests.differential.generator.nodes import EFFECTS, TAINTS
from tests.differential.generator.words import (
    NAMESPACES,
    PULLED,
    Json,
    amounts,
    chance,
    node_term,
    pod_labels,
)

PRIORITIES = (0, 0, 5, 10, 100, 100)


def pod(rng: Random, name: str) -> Json:
    """A pod as an API server keeps it, that asks for cpu, memory and the like alone."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": rng.choice(NAMESPACES) if chance(rng, 0.4) else "default",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": pod_labels(rng),
        },
        "spec": {
            "schedulerName": SCHEDULER_NAME,
            "priority": rng.choice(PRIORITIES),
            "containers": [container("c0", amounts(rng, rng.choice((0.02, 0.05, 0.1, 0.3, 1.0))))],
        },
        "status": {"phase": "Pending"},
    }


def container(name: str, asked: dict[str, str], **fields: object) -> Json:
    """A container that asks for these amounts."""
    resources: Json = {"requests": asked} if asked else {}
    return {"name": name, "image": "registry.example/c:0", "resources": resources, **fields}


def bind(rng: Random, made: Json, node: str, at: int) -> Json:
    """Give a pod a node and the state of one that runs there."""
    made["spec"]["nodeName"] = node
    made["spec"]["priority"] = rng.choice((0, 0, 1, 5, 10))
    hour, minute = divmod(at % 1440, 60)
    started = f"2026-01-0{rng.choice((1, 1, 2))}T{hour:02}:{minute:02}:00Z"
    made["status"] = {"phase": "Running", "startTime": started}
    if chance(rng, 0.05):
        made["status"]["phase"] = rng.choice(("Succeeded", "Failed"))
    return made


def delete(made: Json) -> None:
    """Begin a pod's deletion."""
    made["metadata"]["deletionTimestamp"] = "2026-01-03T00:00:00Z"
    made["metadata"]["deletionGracePeriodSeconds"] = 30


def containers(rng: Random, made: Json) -> None:
    """Several containers, init containers of both kinds, overhead, requests of the whole pod."""
    spec = made["spec"]
    scale = rng.choice((0.05, 0.2, 1.0))
    spec["containers"] = [
        container(f"c{at}", amounts(rng, scale)) for at in range(rng.randint(1, 3))
    ]
    if chance(rng, 0.6):
        spec["initContainers"] = [
            container(
                f"i{at}",
                amounts(rng, scale),
                **({"restartPolicy": "Always"} if chance(rng, 0.4) else {}),
            )
            for at in range(rng.randint(1, 3))
        ]
    if chance(rng, 0.3):
        spec["overhead"] = {"cpu": rng.choice(("10m", "250m")), "memory": "16Mi"}
    if chance(rng, 0.25):
        # No less than the containers ask for together.
        every = (*spec["containers"], *spec.get("initContainers", ()))
        asked = [one["resources"].get("requests", {}) for one in every]
        milli = sum(amount("cpu", one.get("cpu", "0")) for one in asked) + rng.choice((0, 50, 2000))
        spec["resources"] = {"requests": {"cpu": f"{milli}m"}}


def tolerations(rng: Random, made: Json) -> None:
    """Tolerations of taints that nodes have, and of all."""
    found: list[Json] = []
    for _ in range(rng.randint(1, 3)):
        key, value = rng.choice((*TAINTS, ("node.kubernetes.io/unschedulable", "")))
        one: Json = {"key": key}
        if chance(rng, 0.5):
            one["operator"] = "Exists"
        else:
            one |= {"operator": "Equal"} if chance(rng, 0.8) else {}
            one |= {"value": value} if value else {}
        if chance(rng, 0.6):
            one["effect"] = rng.choice(EFFECTS)
        found.append(one)
    if chance(rng, 0.06):
        found.append({"operator": "Exists"})
    made["spec"]["tolerations"] = found


def node_affinity(rng: Random, made: Json) -> None:
    """A node selector, required terms and preferred ones."""
    if chance(rng, 0.35):
        made["spec"]["nodeSelector"] = {"disk": rng.choice(("ssd", "hdd"))}
    found: Json = {}
    if chance(rng, 0.45):
        terms = [node_term(rng) for _ in range(rng.choice((1, 1, 2, 3)))]
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if chance(rng, 0.65):
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": rng.choice((1, 10, 50, 100)), "preference": node_term(rng)}
            for _ in range(rng.randint(1, 3))
        ]
    if found:
        made["spec"].setdefault("affinity", {})["nodeAffinity"] = found


def ports(rng: Random, made: Json) -> None:
    """Ports of the host, at addresses, for some protocols, of containers and sidecars."""
    spec = made["spec"]
    spec["containers"][0]["ports"] = _ports(rng)
    if chance(rng, 0.2):
        sidecar = container("side", {}, restartPolicy="Always", ports=_ports(rng))
        spec.setdefault("initContainers", []).append(sidecar)
    if chance(rng, 0.1):
        spec["hostNetwork"] = True
        for one in (*spec["containers"], *spec.get("initContainers", ())):
            for port in one.get("ports", ()):
                port["hostPort"] = port["containerPort"]


def _ports(rng: Random) -> list[Json]:
    found = {}
    for _ in range(rng.randint(1, 3)):
        number = rng.choice((80, 443, 8080))
        protocol = rng.choice(("TCP", "TCP", "UDP", "SCTP"))
        address = rng.choice(("", "", "0.0.0.0", "10.0.0.1", "127.0.0.1"))
        one: Json = {"containerPort": number, "protocol": protocol}
        if chance(rng, 0.85):
            one["hostPort"] = number
        if address:
            one["hostIP"] = address
        found[number, protocol, address] = one
    return [*found.values()]


def images(rng: Random, made: Json) -> None:
    """Images that some nodes have."""
    for one in made["spec"]["containers"]:
        image = rng.choice(PULLED)[0]
        one["image"] = image.partition(":")[0] if chance(rng, 0.1) else image


def features(rng: Random, made: Json) -> None:
    """Fields that need a feature of the node's kubelet."""
    spec = made["spec"]
    if chance(rng, 0.6):
        rule = {
            "action": rng.choice(("RestartAllContainers", "RestartAllContainers", "Restart")),
            "exitCodes": {"operator": "In", "values": [42]},
        }
        spec["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    if chance(rng, 0.5):
        spec["hostNetwork"], spec["hostUsers"] = True, chance(rng, 0.2)


def no_preemption(rng: Random, made: Json) -> None:
    """A pod that never preempts."""
    made["spec"]["preemptionPolicy"] = "Never"


def resized(rng: Random, made: Json) -> None:
    """A running pod in the middle of a resize."""
    if "startTime" not in made["status"] or "cpu" not in _requests(made):
        return
    allocated = {**_requests(made), "cpu": rng.choice(("100m", "1", "2500m"))}
    statuses = [{"name": "c0", "allocatedResources": allocated}]
    if chance(rng, 0.5):
        statuses[0]["resources"] = {"requests": {**allocated, "cpu": "700m"}}
    made["status"]["containerStatuses"] = statuses
    if chance(rng, 0.3):
        reason = rng.choice(("Infeasible", "Deferred"))
        condition = {"type": "PodResizePending", "status": "True", "reason": reason}
        made["status"]["conditions"] = [condition]


def _requests(made: Json) -> Json:
    found: Json = made["spec"]["containers"][0]["resources"].get("requests", {})
    return found


#: What is added to a pod, and how often an incoming pod of that subject has it.
ADDITIONS: tuple[tuple[str, Callable[[Random, Json], None]], ...] = (
    ("containers", containers),
    ("tolerations", tolerations),
    ("nodeAffinity", node_affinity),
    ("ports", ports),
    ("images", images),
    ("features", features),
    ("noPreemption", no_preemption),
)
