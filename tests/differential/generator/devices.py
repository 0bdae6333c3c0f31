"""ResourceClaims of pods, the devices that nodes offer, and what other pods hold of them."""

from random import Random

from tests.differential.generator.words import ZONE, ZONES, Json, chance, some

DRIVER, NET_DRIVER = "gpu.example.com", "net.example.com"
_API = "resource.k8s.io/v1"
_CLAIMS = 5
_MODELS = ("a100", "t4")
_SELECTORS = (
    'device.attributes["gpu.example.com"].model == "a100"',
    'device.attributes["gpu.example.com"].index < 2',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("20Gi")) >= 0',
    'device.driver == "gpu.example.com"',
    '"model" in device.attributes["gpu.example.com"]',
    'device.attributes["gpu.example.com"].fast',
)


def devices(rng: Random, nodes: list[Json], incoming: Json) -> list[Json]:
    """Classes, slices of nodes, and claims in the namespace of the pod that is to be placed."""
    names = [node["metadata"]["name"] for node in nodes]
    slices = [one for name in names if chance(rng, 0.85) for one in _slices(rng, name)]
    if chance(rng, 0.15):
        slices.append(_shared_slice(rng))
    free = [(one["spec"], device) for one in slices for device in one["spec"]["devices"]]
    claims = [_claim(rng, at, incoming["metadata"]["namespace"]) for at in range(_CLAIMS)]
    for claim in claims:
        _allocate(rng, claim, free, incoming)
    return [*_classes(), *slices, *claims]


def resource_claims(rng: Random, made: Json) -> None:
    """Claims of a pod; one of them may be missing."""
    numbers = rng.sample(range(_CLAIMS), rng.choice((1, 1, 2)))
    if chance(rng, 0.04):
        numbers.append(_CLAIMS)  # never there
    made["spec"]["resourceClaims"] = [
        {"name": f"r{at}", "resourceClaimName": f"devices{number}"}
        for at, number in enumerate(numbers)
    ]


def _classes() -> list[Json]:
    expressions = {
        "gpu": f'device.driver == "{DRIVER}"',
        "net": f'device.driver == "{NET_DRIVER}"',
        "any": None,
    }
    return [
        {
            "apiVersion": _API,
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": text}}]} if text else {},
        }
        for name, text in expressions.items()
    ]


def _slices(rng: Random, node: str) -> list[Json]:
    found = [
        _slice(f"{node}-gpu", DRIVER, node, [_gpu(rng, at) for at in range(rng.randint(1, 4))])
    ]
    if chance(rng, 0.3):
        cards = [{"name": f"nic{at}"} for at in range(rng.randint(1, 2))]
        found.append(_slice(f"{node}-net", NET_DRIVER, node, cards))
    for one in found:
        one["spec"]["nodeName"] = node
    return found


def _shared_slice(rng: Random) -> Json:
    made = _slice("shared", NET_DRIVER, "shared", [{"name": "fabric"}])
    if chance(rng, 0.5):
        made["spec"]["allNodes"] = True
    else:
        expression = {"key": ZONE, "operator": "In", "values": some(rng, ZONES, 2) or [ZONES[0]]}
        terms = [{"matchExpressions": [expression]}]
        made["spec"]["nodeSelector"] = {"nodeSelectorTerms": terms}
    return made


def _slice(name: str, driver: str, pool: str, cards: list[Json]) -> Json:
    return {
        "apiVersion": _API,
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
            "devices": cards,
        },
    }


def _gpu(rng: Random, at: int) -> Json:
    attributes: Json = {"index": {"int": at}, "fast": {"bool": chance(rng, 0.5)}}
    if chance(rng, 0.95):
        attributes["model"] = {"string": rng.choice(_MODELS)}
    found: Json = {
        "name": f"gpu{at}",
        "attributes": attributes,
        "capacity": {"memory": {"value": rng.choice(("16Gi", "40Gi"))}},
    }
    if chance(rng, 0.05):
        found["taints"] = [{"key": "broken", "effect": rng.choice(("NoSchedule", "NoExecute"))}]
    return found


def _request(rng: Random, name: str) -> Json:
    exactly = _exactly(rng)
    if chance(rng, 0.35):
        alternatives = [{"name": f"a{at}", **_exactly(rng)} for at in range(rng.choice((2, 2, 3)))]
        return {"name": name, "firstAvailable": alternatives}
    return {"name": name, "exactly": exactly}


def _exactly(rng: Random) -> Json:
    found: Json = {
        "deviceClassName": rng.choice(("gpu",) * 6 + ("net", "any"))
        if chance(rng, 0.98)
        else "absent"
    }
    found["allocationMode"] = "ExactCount"
    found["count"] = rng.choice((1, 1, 1, 1, 1, 2, 3))
    if chance(rng, 0.1):
        found["allocationMode"] = "All"
        del found["count"]
    if chance(rng, 0.35):
        found["selectors"] = [{"cel": {"expression": rng.choice(_SELECTORS)}}]
    if chance(rng, 0.05):
        found["tolerations"] = [{"key": "broken", "operator": "Exists"}]
    return found


def _claim(rng: Random, at: int, namespace: str) -> Json:
    wanted: Json = {"requests": [_request(rng, f"q{one}") for one in range(rng.choice((1, 1, 2)))]}
    if chance(rng, 0.15):
        wanted["constraints"] = [{"matchAttribute": f"{DRIVER}/model"}]
    name = f"devices{at}"
    return {
        "apiVersion": _API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
        "spec": {"devices": wanted},
    }


def _allocate(rng: Random, claim: Json, free: list[tuple[Json, Json]], incoming: Json) -> None:
    """Perhaps give a claim a device, and reserve it for the pod or for others."""
    if not free or not chance(rng, 0.4):
        return
    spec, device = free.pop(rng.randrange(len(free)))
    wanted = claim["spec"]["devices"]["requests"][0]
    request = wanted["name"]
    if "firstAvailable" in wanted:
        request += "/" + rng.choice(wanted["firstAvailable"])["name"]
    allocation: Json = {
        "devices": {
            "results": [
                {
                    "request": request,
                    "driver": spec["driver"],
                    "pool": spec["pool"]["name"],
                    "device": device["name"],
                }
            ]
        }
    }
    if "nodeName" in spec:
        field = {"key": "metadata.name", "operator": "In", "values": [spec["nodeName"]]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    claim["status"] = {"allocation": allocation}
    way = rng.random()
    if way < 0.4:
        meta = incoming["metadata"]
        holder = {"resource": "pods", "name": meta["name"], "uid": meta["uid"]}
        claim["status"]["reservedFor"] = [holder]
    elif way < 0.8:
        holder = {"resource": "pods", "name": "another", "uid": "uid-another"}
        claim["status"]["reservedFor"] = [holder]
