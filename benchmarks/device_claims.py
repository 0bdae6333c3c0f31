"""How long decisions take about pods whose ResourceClaims are not allocated yet.

    python benchmarks/device_claims.py [--nodes N] [--devices N] [--held N] [--profile] [-o json]

The cluster has 5,000 nodes with a ResourceSlice of 8 devices each, of 5 models, and claims that
hold devices. Then pods come one by one with a claim of their own, are placed and stay. Counted is
all time inside `handle` until each is bound, the claim's allocation written and shown included, in
milliseconds per pod; the median of 20 pods, best of two runs.

`plain`: a claim asks for devices of the class; `model`: it selects a model; `several`: two requests
and a constraint between them; `ranked`: alternatives; `cards`: the devices are cards of the
inventory. `first`: a claim whose expression was never seen; `next`: further claims that say the
same. `start`: the first pod of all, which numbers all devices.
"""

import argparse
import cProfile
import json
import statistics
import time
from collections.abc import Callable, Sequence

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME, read
from kubeshare_py.domain.cluster_objects import Requirement, WatchedKind
from kubeshare_py.domain.device import (
    AllocatedDevice,
    ClaimAllocation,
    Device,
    DeviceAttribute,
    DeviceClass,
    DeviceKey,
    DeviceNodes,
    DeviceRequest,
    MatchAttribute,
    ResourceClaim,
    ResourceSlice,
)
from kubeshare_py.domain.effects import Bind, WriteObject
from kubeshare_py.domain.events import (
    BindAnswered,
    BindSlotsFree,
    Bound,
    InventoryRead,
    NodesListed,
    ObjectSeen,
    ObjectsListed,
    ObjectWritten,
    PodSeen,
    PodsListed,
    WriteOutcome,
)
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import DeviceClaimName, DeviceClaims, NodeTerm, Pod, Shape
from kubeshare_py.domain.storage import ReserveDevices
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.scheduling.machine import Machine

DRIVER, CLASS, NAMESPACE = "gpu.example.com", "gpu", "default"
MODELS, ASKED, ROUNDS = 5, 20, 2
Asking = Callable[[int], tuple[tuple[tuple[DeviceRequest, ...], ...], tuple[MatchAttribute, ...]]]


def request(name: str, *selectors: str, count: int = 1) -> DeviceRequest:
    """A request of the class."""
    return DeviceRequest(name=name, device_class=CLASS, count=count, selectors=selectors)


def of_model(number: int) -> str:
    """An expression that no other number has."""
    return (
        f'device.attributes["{DRIVER}"].model == "model-{number % MODELS}"'
        f' && device.attributes["{DRIVER}"].index < {100 + number}'
    )


def plain(number: int) -> tuple[tuple[tuple[DeviceRequest, ...], ...], tuple[MatchAttribute, ...]]:
    """Devices of the class, a number of them that depends on the claim."""
    return ((request("r", count=1 + number % 2),),), ()


def model(number: int) -> tuple[tuple[tuple[DeviceRequest, ...], ...], tuple[MatchAttribute, ...]]:
    """A device of a model."""
    return ((request("r", of_model(number)),),), ()


def several(
    number: int,
) -> tuple[tuple[tuple[DeviceRequest, ...], ...], tuple[MatchAttribute, ...]]:
    """Two requests for devices on one switch."""
    requests = (request("a", of_model(number)),), (request("b", count=2),)
    return requests, (MatchAttribute(DRIVER, "switch"),)


def ranked(number: int) -> tuple[tuple[tuple[DeviceRequest, ...], ...], tuple[MatchAttribute, ...]]:
    """Two alternatives."""
    return ((request("r/a", of_model(number)), request("r/b", of_model(number + 1), count=2)),), ()


ASKINGS: dict[str, Asking] = {
    "plain": plain,
    "model": model,
    "several": several,
    "ranked": ranked,
    "cards": model,
}


class Devices:
    """A machine that knows nodes, slices and claims."""

    def __init__(self, nodes: int, devices: int, held: int, *, cards: bool) -> None:
        self.machine = Machine(profiles(read(None), IN_TREE), "bench")
        self.count = 0
        names = [NodeName(f"node-{number:05d}") for number in range(nodes)]
        handle = self.machine.handle
        handle(PodsListed((), 0.0), 0.0)
        amounts = (("cpu", 128_000), ("memory", 1 << 40), ("pods", 250))
        handle(
            NodesListed(tuple(Node(name=name, labels={}, allocatable=amounts) for name in names)),
            0.0,
        )
        if cards:
            found = tuple((name, _cards(name, devices)) for name in names)
            handle(InventoryRead(found), 0.0)
        slices = tuple(_slice(name, number, devices) for number, name in enumerate(names))
        expression = f'device.driver == "{DRIVER}"'
        one = DeviceClass(name=CLASS, selectors=(expression,))
        handle(ObjectsListed(WatchedKind.DEVICE_CLASS, (one,)), 0.0)
        handle(ObjectsListed(WatchedKind.RESOURCE_SLICE, slices), 0.0)
        claims = tuple(_held(number, names, devices) for number in range(held))
        handle(ObjectsListed(WatchedKind.RESOURCE_CLAIM, claims), 0.0)

    def decide(self, asking: Asking, number: int) -> float:
        """One pod comes and is bound: the time in `handle`, in seconds."""
        self.count += 1
        name, now = f"pod-{self.count}", self.count * 1e-3
        requests, constraints = asking(number)
        claim = ResourceClaim(
            namespace=NAMESPACE,
            name=name,
            uid=name,
            resource_version="1",
            requests=requests,
            constraints=constraints,
        )
        handle, pod = self.machine.handle, _pod(name, self.count)
        started = time.perf_counter()
        handle(ObjectSeen(claim), now)
        handle(PodSeen(pod), now)
        (wish,) = [one for one in handle(BindSlotsFree(64), now) if isinstance(one, WriteObject)]
        write = wish.write
        assert isinstance(write, ReserveDevices)
        reserved_for = frozenset({pod.uid})
        shown = replace(
            claim, resource_version="2", allocation=write.allocation, reserved_for=reserved_for
        )
        handle(ObjectWritten(wish.uid, wish.token, write, WriteOutcome.DONE), now)
        handle(ObjectSeen(shown), now)
        (bind,) = [one for one in handle(BindSlotsFree(64), now) if isinstance(one, Bind)]
        handle(BindAnswered(bind.uid, bind.allocation.token, Bound()), now)
        handle(PodSeen(replace(pod, node_name=bind.node, allocation=bind.allocation)), now)
        return time.perf_counter() - started


def _pod(name: str, number: int) -> Pod:
    names = (DeviceClaimName("devices", name),)
    asked = DeviceClaims(namespace=NAMESPACE, pod=name, uid=f"uid-{name}", names=names)
    return Pod(
        uid=PodUid(f"uid-{name}"),
        key=PodKey(NAMESPACE, name),
        shape=Shape(resources=(("cpu", 500), ("memory", 1 << 30)), device_claims=asked),
        scheduler_name=SCHEDULER_NAME,
        created=f"{number:012d}",
    )


def _cards(node: NodeName, count: int) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(uuid=GpuUuid(f"GPU-{node}-{at}"), index=at, model="H100", memory_bytes=80 << 30)
        for at in range(count)
    )


def _slice(node: NodeName, number: int, count: int) -> ResourceSlice:
    devices = tuple(
        Device(
            name=f"gpu-{at}",
            attributes=(
                DeviceAttribute(DRIVER, "architecture", text="Hopper"),
                DeviceAttribute(DRIVER, "driverVersion", version="570.86.15"),
                DeviceAttribute(DRIVER, "index", at),
                DeviceAttribute(DRIVER, "model", text=f"model-{number % MODELS}"),
                DeviceAttribute(DRIVER, "pciBusID", text=f"0000:{at:02x}:00.0"),
                DeviceAttribute(DRIVER, "switch", at // 4),
                DeviceAttribute(DRIVER, "type", text="gpu"),
                DeviceAttribute(DRIVER, "uuid", text=f"GPU-{node}-{at}"),
            ),
        )
        for at in range(count)
    )
    return ResourceSlice(
        name=f"{node}-{DRIVER}",
        driver=DRIVER,
        pool=node,
        generation=1,
        slice_count=1,
        nodes=DeviceNodes(node),
        devices=devices,
    )


def _held(number: int, names: Sequence[NodeName], devices: int) -> ResourceClaim:
    """A claim that holds one device; they are spread over the nodes."""
    node = names[number * 7 % len(names)]
    at = number * 7 // len(names) % devices
    here = NodeTerm(fields=(Requirement("metadata.name", "In", (node,)),))
    return ResourceClaim(
        namespace=NAMESPACE,
        name=f"held-{number}",
        uid=f"held-{number}",
        requests=((request("r"),),),
        allocation=ClaimAllocation(
            (AllocatedDevice("r", DeviceKey(DRIVER, node, f"gpu-{at}")),), (here,)
        ),
        reserved_for=frozenset({f"other-{number}"}),
    )


def measured(nodes: int, devices: int, held: int) -> dict[str, dict[str, float]]:
    """Milliseconds per pod, by what its claim asks and by how new that is."""
    rows: dict[str, dict[str, float]] = {}
    for name, asking in ASKINGS.items():
        found: dict[str, float] = {}
        for _ in range(ROUNDS):
            cluster = Devices(nodes, devices, held, cards=name == "cards")
            times = {
                "start": [cluster.decide(plain, 0)],
                "first": [cluster.decide(asking, 7 + at) for at in range(ASKED)],
                "next": [cluster.decide(asking, 7) for _ in range(ASKED)],
            }
            for kind, seconds in times.items():
                found[kind] = min(found.get(kind, 1e9), round(1e3 * statistics.median(seconds), 3))
        rows[name] = found
    return rows


def profiled(nodes: int, devices: int, held: int) -> None:
    """Print where the time of `model` goes."""
    cluster = Devices(nodes, devices, held, cards=False)
    cluster.decide(plain, 0)
    profile = cProfile.Profile()
    profile.enable()
    for at in range(ASKED):
        cluster.decide(model, 7 + at)
    profile.disable()
    profile.print_stats("tottime")


def main() -> None:
    """Print a row for each kind of claim."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--held", type=int, default=10_000, help="claims that hold a device each")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    options = parser.parse_args()
    asked = options.nodes, options.devices, options.held
    if options.profile:
        profiled(*asked)
        return
    rows = measured(*asked)
    if options.output == "json":
        print(json.dumps(rows))
        return
    print(f"{'claims':<10}{'start ms':>10}{'first ms':>10}{'next ms':>10}")
    for name, row in rows.items():
        print(f"{name:<10}{row['start']:>10}{row['first']:>10}{row['next']:>10}")


if __name__ == "__main__":
    main()
