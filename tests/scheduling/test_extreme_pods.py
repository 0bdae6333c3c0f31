"""What a tenant writes into a pod costs a bounded number of calls: to read it, and to try it.

Each kind of text, list or map that a pod may have is as long as the limits allow, and as long as
the API server accepts. Calls are counted, because they do not depend on the machine.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from kubeshare_py.domain.events import BindSlotsFree, PodSeen
from kubeshare_py.manifests.events import POD_EVENTS
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.manifests.watch import Codec
from tests.making import Driver, a_pod, a_shape
from tests.making.calls import calls_of

Json = dict[str, Any]
CODEC = Codec(PodFields)
#: Calls of functions of Python and of C for one pod, some 25 ms.
MOST_CALLS = 100_000
#: As long as an object of 1 MB can have such lists.
LONG = 6000
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NODE_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _line(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, "values": values}


def _texts(number: int, at: int = 0) -> list[str]:
    return [f"v{at}-{one}" for one in range(number)]


def _node_affinity(terms: int, lines: int, values: int) -> Json:
    made = [
        {"matchExpressions": [_line(f"k{at % 5}", "NotIn", *_texts(values, at))] * lines}
        for at in range(terms)
    ]
    return {"affinity": {"nodeAffinity": {NODE_TERMS: {"nodeSelectorTerms": made}}}}


def _preferences(terms: int) -> Json:
    made = [
        {"weight": 1, "preference": {"matchExpressions": [_line(f"k{at % 5}", "NotIn", f"v{at}")]}}
        for at in range(terms)
    ]
    return {"affinity": {"nodeAffinity": {PREFERRED: made}}}


def _apart(terms: int, values: int) -> Json:
    made = [
        {
            "topologyKey": HOST,
            "labelSelector": {"matchExpressions": [_line("app", "NotIn", *_texts(values, at))]},
            "namespaceSelector": {"matchExpressions": [_line("team", "NotIn", f"t{at}")]},
        }
        for at in range(terms)
    ]
    return {"affinity": {"podAntiAffinity": {NODE_TERMS: made}}}


def _spread(constraints: int, values: int, keys: int = 0) -> Json:
    made = [
        {
            "maxSkew": 1 + at,
            "topologyKey": HOST if at % 2 else ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchExpressions": [_line("app", "NotIn", *_texts(values, at))]},
            "matchLabelKeys": _texts(keys),
        }
        for at in range(constraints)
    ]
    return {"topologySpreadConstraints": made}


def _volumes(number: int, source: str) -> Json:
    fields: Json = {"persistentVolumeClaim": {"claimName": "c"}, "rbd": {"monitors": ["m"]}}
    named = {"persistentVolumeClaim": "claimName", "rbd": "image"}.get(source, "any")
    of_one = fields.get(source, {})
    return {
        "volumes": [{"name": f"v{at}", source: {**of_one, named: f"c{at}"}} for at in range(number)]
    }


def _containers(number: int, kind: str = "containers", **more: Any) -> Json:
    return {kind: [{"name": f"c{at}", "image": f"i{at}", **more} for at in range(number)]}


def _ports(number: int) -> Json:
    ports = [{"containerPort": 1 + at, "hostPort": 1 + at} for at in range(number)]
    return {"containers": [{"name": "main", "ports": ports}]}


def _resources(number: int) -> Json:
    named = {f"example.com/r{at}": "1" for at in range(number)}
    return {"containers": [{"name": "main", "resources": {"requests": named}}]}


def _named(number: int) -> list[Json]:
    return [{"name": f"example.com/n{at}"} for at in range(number)]


def _map(number: int, prefix: str = "example.com") -> Mapping[str, str]:
    return {f"{prefix}/k{at}": "v" for at in range(number)}


def _annotation(key: str, text: str) -> Json:
    return {"annotations": {f"sharedgpu/{key}": text}}


SPECS = {
    "node affinity of most values": _node_affinity(1, 1, 5000),
    "node affinity of most terms": _node_affinity(500, 2, 5),
    "node affinity of too many terms": _node_affinity(LONG, 1, 1),
    "node affinity of too many values": _node_affinity(20, 1, 3000),
    "most preferences": _preferences(500),
    "anti-affinity of most terms": _apart(100, 18),
    "anti-affinity of most values": _apart(1, 1990),
    "anti-affinity of too many terms": _apart(1000, 1),
    "most constraints of spread": _spread(100, 19),
    "too many constraints of spread": _spread(1000, 1),
    "too many keys of constraints": _spread(50, 1, keys=400),
    "most tolerations": {
        "tolerations": [{"key": one, "operator": "Exists"} for one in _texts(500)]
    },
    "too many tolerations": {"tolerations": [{"key": one} for one in _texts(LONG)]},
    "too many labels of nodes": {"nodeSelector": _map(LONG)},
    "most claims of volumes": _volumes(500, "persistentVolumeClaim"),
    "too many claims of volumes": _volumes(LONG, "persistentVolumeClaim"),
    "too many volumes of pods": _volumes(LONG, "ephemeral"),
    "too many disks": _volumes(LONG, "rbd"),
    "most containers": _containers(1000),
    "most containers with resources": _containers(500, resources={"requests": {"cpu": "1m"}}),
    "too many containers": _containers(LONG),
    "too many sidecars": _containers(LONG, "initContainers", restartPolicy="Always"),
    "most ports of the host": _ports(500),
    "too many ports of the host": _ports(LONG),
    "most resources": _resources(900),
    "too many resources": _resources(LONG),
    "many gates": {"schedulingGates": _named(LONG)},
    "too many claims of devices": {"resourceClaims": _named(LONG)},
}
METADATA = {
    "many labels": {"labels": _map(LONG)},
    "unknown labels of ours": {"labels": _map(LONG, "sharedgpu")},
    "many annotations": {"annotations": _map(LONG)},
    "unknown annotations of ours": {"annotations": _map(LONG, "sharedgpu")},
    "many owners": {"ownerReferences": [{"uid": one, "name": "x"} for one in _texts(LONG)]},
    **{
        f"{key} of {kind}": _annotation(key, text)
        for key in (
            "gpu_models",
            "gpu_models_denied",
            "gpu_request_of",
            "group_within",
            "allocation",
        )
        for kind, text in (
            ("one long text", "y" * 250_000),
            ("many names", "a," * 100_000),
            ("many stars", "a*>" * 80_000),
            ("digits", "9" * 250_000),
            ("nested lists", "[" * 250_000),
        )
    },
}


def _pod(name: str, spec: Json, metadata: Json) -> bytes:
    asked = {"sharedgpu/gpu_request": "0.01", "sharedgpu/gpu_limit": "1.0"}
    about = {"name": name, "namespace": "attacker", "uid": f"uid-{name}", "labels": asked}
    about |= {**metadata, "labels": {**asked, **metadata.get("labels", {})}}
    containers = [{"name": "main"}]
    whole = {"schedulerName": "kubeshare-scheduler", "containers": containers, **spec}
    return msgspec.json.encode({"type": "ADDED", "object": {"metadata": about, "spec": whole}})


def _calls(driver: Driver, lines: Sequence[bytes]) -> int:
    """How many calls it takes to read such pods and to try them."""

    def read_and_try() -> None:
        for line in lines:
            decoded = CODEC.line(line)
            assert decoded.item is not None
            event = POD_EVENTS.event(decoded.type, decoded.item)
            assert isinstance(event, PodSeen)
            driver.machine.handle(event, driver.now)
            driver.machine.handle(BindSlotsFree(64), driver.now)

    return calls_of(read_and_try)


#: By name, the spec and the metadata.
KINDS = [
    *((name, spec, {}) for name, spec in SPECS.items()),
    *((name, {}, metadata) for name, metadata in METADATA.items()),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "metadata"), [(spec, about) for _, spec, about in KINDS], ids=[one[0] for one in KINDS]
)
def test_a_pod_as_large_as_it_may_be_costs_a_bounded_turn(spec: Json, metadata: Json) -> None:
    driver = Driver({f"n{number}": 1 for number in range(20)})
    for number in range(300):
        labels = (("app", f"a{number}"),)
        placed = a_pod(f"placed{number}", a_shape(), labels=labels, node_name=f"n{number % 20}")
        driver.tell(PodSeen(placed))
    assert _calls(driver, [_pod("p", spec, metadata)]) < MOST_CALLS
