"""Nodes, pods and what belongs to them, from one line each: `p1 app=web on n1 asks cpu=1`."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from kubeshare_py.configuration.scheduler import SCHEDULER_NAME
from tests.differential.upstream.selectors import (
    label_selector,
    node_term,
    pod_term,
    preferred_node_term,
    preferred_pod_term,
    spread_constraint,
)

Json = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NOON = "2026-11-23T12:00:00Z"
_HOSTNAME = "kubernetes.io/hostname"
#: Of nodes of which nothing is said: enough for every pod.
_PLENTY = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"}
#: What a term of a mapping becomes: the affinity's field, and the list in it.
_AFFINITY: Mapping[str, tuple[str, str, Callable[[str], Json]]] = {
    "near": ("podAffinity", REQUIRED, pod_term),
    "apart": ("podAntiAffinity", REQUIRED, pod_term),
    "likes": ("podAffinity", PREFERRED, preferred_pod_term),
    "dislikes": ("podAntiAffinity", PREFERRED, preferred_pod_term),
    "prefers": ("nodeAffinity", PREFERRED, preferred_node_term),
}
_NODE_SECTIONS = frozenset({"has", "tainted", "pulled", "declares"})
_POD_SECTIONS = frozenset(
    {
        *("asks", "and", "init", "sidecar", "overhead", "altogether", "tolerates", "ports"),
        *("wants", "mounts", "pulls", "gated"),
    }
)
_POD_VALUES = frozenset({"on", "in", "priority", "started", "nominated", "owner", "created"})
_TAINT = re.compile(r"(?P<key>[^=:<>]*)((?P<operator>[=<>])(?P<value>[^:]*))?(:(?P<effect>\w+))?")
_TOLERATED = {"=": "Equal", ">": "Gt", "<": "Lt", None: "Exists"}


def node(text: str) -> Json:
    """`NAME label=value has cpu=2 tainted key=value:NoSchedule pulled image=size cordoned named`.

    `named` stands for the label with the node's name.
    A node with `has` has just that, and room for 110 pods unless it says otherwise.
    """
    name, *words = text.split()
    flags = {one for one in words if one in ("cordoned", "named")}
    parts = _sections([one for one in words if one not in flags], _NODE_SECTIONS)
    allocatable = {"pods": "110", **_pairs(parts["has"][0])} if "has" in parts else _PLENTY
    status: Json = {"allocatable": allocatable, "capacity": allocatable}
    spec: Json = {}
    if "cordoned" in flags:
        spec["unschedulable"] = True
    if "tainted" in parts:
        spec["taints"] = [_taint(one) for one in parts["tainted"][0]]
    if "pulled" in parts:
        pulled = _pairs(parts["pulled"][0])
        status["images"] = [
            {"names": [image], "sizeBytes": int(size)} for image, size in pulled.items()
        ]
    if "declares" in parts:
        status["declaredFeatures"] = parts["declares"][0]
    labels = _pairs(parts[""][0]) | ({_HOSTNAME: name} if "named" in flags else {})
    metadata = {"name": name, "labels": labels}
    made = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
    return {**made, "spec": spec, "status": status}


def pod(given: str | Json) -> Json:
    """A pod from a line, or from a mapping with the line as `pod` and terms beside it.

    `NAME label=value ... on NODE in NAMESPACE priority N started SECONDS nominated NODE never
    leaving asks cpu=1 and cpu=2 init cpu=3 sidecar cpu=1 overhead cpu=1 altogether cpu=4
    tolerates key=value:Effect ports 10.0.0.1:80/UDP wants label=value mounts CLAIM pulls IMAGE
    gated NAME owner KIND/NAME`. `and` begins another container.

    Beside it: near, apart, likes, dislikes, needs, prefers, spread; `spec` and `metadata` are
    merged in as they are.
    """
    mapping: Json = {"pod": given} if isinstance(given, str) else given
    name, *words = mapping["pod"].split()
    values, words = _values(words)
    flags = {one for one in words if one in ("never", "leaving")}
    parts = _sections([one for one in words if one not in flags], _POD_SECTIONS)
    namespace = values.get("in", "default")
    metadata = {
        **{"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"},
        **{"labels": _pairs(parts[""][0]), "creationTimestamp": _moment(values, "created")},
    }
    if "owner" in values:
        kind, _, owner = values["owner"].partition("/")
        owned = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": owner}
        metadata["ownerReferences"] = [{**owned, "controller": True}]
    if "leaving" in flags:
        metadata["deletionTimestamp"] = _NOON
        metadata["deletionGracePeriodSeconds"] = 30
    spec = _spec(values, parts, flags) | _terms(mapping)
    status: Json = {"phase": "Running" if "on" in values else "Pending"}
    if "on" in values:
        status["startTime"] = _moment(values, "started")
    if "nominated" in values:
        status["nominatedNodeName"] = values["nominated"]
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata | mapping.get("metadata", {})}
    return {**made, "spec": spec | mapping.get("spec", {}), "status": status}


def namespace(name: str, labels: str) -> Json:
    """A namespace with labels `a=b c=d`."""
    metadata = {"name": name, "labels": _pairs(labels.split())}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def budget(text: str) -> Json:
    """`NAME allows N for SELECTOR [without p1,p2]`: a PodDisruptionBudget.

    Those after `without` are evicted already, and not gone yet.
    """
    found = re.fullmatch(r"(\S+) allows (\d+) for (.*?)(?: without (\S+))?", text)
    assert found, text
    name, allowed, selector, evicted = found.groups()
    disrupted = dict.fromkeys((evicted or "").split(",") if evicted else (), _NOON)
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": label_selector(selector)},
        "status": {"disruptionsAllowed": int(allowed), "disruptedPods": disrupted},
    }


def _spec(values: Mapping[str, str], parts: Mapping[str, list[list[str]]], flags: set[str]) -> Json:
    spec: Json = {"schedulerName": SCHEDULER_NAME, "containers": _containers(parts)}
    inits = [_init(words, restarts=False) for words in parts.get("init", ())]
    inits += [_init(words, restarts=True) for words in parts.get("sidecar", ())]
    if inits:
        spec["initContainers"] = [{**one, "name": f"i{at}"} for at, one in enumerate(inits)]
    if "on" in values:
        spec["nodeName"] = values["on"]
    if "priority" in values:
        spec["priority"] = int(values["priority"])
    if "never" in flags:
        spec["preemptionPolicy"] = "Never"
    made = {field: read(parts[word][0]) for word, (field, read) in _FIELDS.items() if word in parts}
    return spec | made


def _containers(parts: Mapping[str, list[list[str]]]) -> list[Json]:
    asked = [*parts.get("asks", [[]]), *parts.get("and", ())]
    made = [{"name": f"c{at}", "image": "none", **_requests(one)} for at, one in enumerate(asked)]
    if "ports" in parts:
        made[0]["ports"] = [_port(one) for one in parts["ports"][0]]
    if "pulls" in parts:
        images = parts["pulls"][0]
        made = [{"name": f"c{at}", "image": image} for at, image in enumerate(images)]
    return made


def _init(words: list[str], *, restarts: bool) -> Json:
    made = {"image": "none", **_requests(words)}
    return made | {"restartPolicy": "Always"} if restarts else made


def _requests(words: list[str]) -> Json:
    return {"resources": {"requests": _pairs(words)}} if words else {}


def _port(text: str) -> Json:
    address, _, rest = text.rpartition(":")
    number, _, protocol = rest.partition("/")
    made: Json = {"hostPort": int(number), "containerPort": int(number)}
    made["protocol"] = protocol or "TCP"
    return {**made, "hostIP": address} if address else made


def _terms(mapping: Json) -> Json:
    affinity: Json = {}
    for word, (field, listed, term) in _AFFINITY.items():
        if word in mapping:
            affinity.setdefault(field, {})[listed] = [term(one) for one in mapping[word]]
    if "needs" in mapping:
        terms = [node_term(one) for one in mapping["needs"]]
        affinity.setdefault("nodeAffinity", {})[REQUIRED] = {"nodeSelectorTerms": terms}
    made: Json = {"affinity": affinity} if affinity else {}
    if "spread" in mapping:
        made["topologySpreadConstraints"] = [spread_constraint(one) for one in mapping["spread"]]
    return made


def _values(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """What follows `on`, `in` and so on, and the other words."""
    found, left, rest = {}, [], iter(words)
    for word in rest:
        if word in _POD_VALUES:
            found[word] = next(rest)
        else:
            left.append(word)
    return found, left


def _sections(words: list[str], begins: frozenset[str]) -> dict[str, list[list[str]]]:
    """The words after each word that begins a section; those before all of them are in ""."""
    found: dict[str, list[list[str]]] = {"": [[]]}
    current = found[""][0]
    for word in words:
        if word in begins:
            current = []
            found.setdefault(word, []).append(current)
        else:
            current.append(word)
    return found


def _pairs(words: list[str]) -> dict[str, str]:
    return {key: value for key, _, value in (one.partition("=") for one in words)}


def _taint(text: str) -> Json:
    key, _, effect = text.rpartition(":")
    name, _, value = key.partition("=")
    return {"key": name, "value": value, "effect": effect}


def _toleration(text: str) -> Json:
    found = _TAINT.fullmatch(text)
    assert found, text
    made: Json = {"operator": _TOLERATED[found["operator"]]}
    for field in ("key", "value", "effect"):
        if found[field]:
            made[field] = found[field]
    return made


def _volume(at: int, claim: str) -> Json:
    return {"name": f"v{at}", "persistentVolumeClaim": {"claimName": claim}}


def _moment(values: Mapping[str, str], name: str) -> str:
    seconds = int(values.get(name, "0"))
    return f"2026-11-23T{10 + seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"


#: What the words of a section become: the field of the spec, and what is in it.
_FIELDS: Mapping[str, tuple[str, Callable[[list[str]], object]]] = {
    "overhead": ("overhead", _pairs),
    "altogether": ("resources", lambda words: {"requests": _pairs(words)}),
    "tolerates": ("tolerations", lambda words: [_toleration(one) for one in words]),
    "wants": ("nodeSelector", _pairs),
    "gated": ("schedulingGates", lambda words: [{"name": one} for one in words]),
    "mounts": ("volumes", lambda words: [_volume(at, one) for at, one in enumerate(words)]),
}
