"""Rows with devices alike are asked about once: each gets the answer that it gets alone."""

from random import Random

import numpy as np
import pytest

from kubeshare_plugins.kubernetes.dynamic_resources import (
    DeviceSearch,
    DynamicResources,
    FoundClaims,
    KnownSearches,
    alternative_points,
)
from kubeshare_py.cluster.rows import AllRows, OneRow, Rows, SomeRows
from kubeshare_py.devices.device_verdicts import DeviceVerdicts, TableVerdicts
from kubeshare_py.domain.cluster_objects import ObjectKey, Requirement, WatchedKind
from kubeshare_py.domain.device import (
    AllocationMode,
    Device,
    DeviceAttribute,
    DeviceNodes,
    DeviceRequest,
    DeviceTaint,
    MatchAttribute,
    ResourceClaim,
    ResourceSlice,
)
from kubeshare_py.domain.events import InventoryRead, NodeGone, NodeSeen, ObjectGone
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import DeviceClaimName, DeviceClaims, NodeTerm
from kubeshare_py.domain.values import replace
from tests.making import Driver, a_node, a_share
from tests.making.devices import (
    DRIVER,
    a_claim_of,
    a_claiming_pod,
    an_open_claim,
    claim,
    device,
    device_driver,
    devices_of,
    request,
    sliced,
)
from tests.scale import seeds

NODES = [f"n{number}" for number in range(6)]
_RACK = NodeTerm((Requirement("rack", "In", ("r1",)),))
_SELECTORS = (
    f'device.attributes["{DRIVER}"].model == "A"',
    f'device.attributes["{DRIVER}"].at < 2',
    f'has(device.attributes["{DRIVER}"].model)',
)


def _any_device(rng: Random, name: str, uuids: list[str]) -> Device:
    found = [DeviceAttribute(DRIVER, "at", rng.randint(0, 3))]
    if rng.random() < 0.9:
        found.append(DeviceAttribute(DRIVER, "model", text=rng.choice("AB")))
    for key in ("parentUUID", "uuid"):
        if uuids and rng.random() < 0.4:
            found.append(DeviceAttribute(DRIVER, key, text=rng.choice(uuids)))
    taints = (DeviceTaint("broken", "", "NoSchedule"),) if rng.random() < 0.1 else ()
    unsupported = ("consumesCounters",) if rng.random() < 0.1 else ()
    return Device(name=name, attributes=tuple(found), taints=taints, unsupported=unsupported)


def _any_slice(rng: Random, driver: Driver) -> ResourceSlice:
    node = rng.choice(NODES)
    gpus = driver.machine.ledger.inventory.get(NodeName(node), ())
    uuids = [str(gpu.uuid) for gpu in gpus]
    devices = [_any_device(rng, f"gpu-{at}", uuids) for at in range(rng.randint(0, 3))]
    made = sliced(*devices, node=node)
    choice = rng.random()
    if choice < 0.1:
        return replace(made, name="all", pool="all", nodes=DeviceNodes(everywhere=True))
    if choice < 0.2:
        return replace(made, name="rack", pool="rack", nodes=DeviceNodes(terms=(_RACK,)))
    if choice < 0.3:
        return replace(made, slice_count=2)
    return made


def _any_request(rng: Random, name: str) -> DeviceRequest:
    selectors = rng.sample(_SELECTORS, rng.choice((0, 0, 1, 2)))
    made = request(name, rng.choice((1, 1, 2)), *selectors)
    return replace(made, mode=AllocationMode.ALL) if rng.random() < 0.1 else made


def _any_claim(rng: Random, name: str) -> ResourceClaim:
    requests = [_any_request(rng, f"r{at}") for at in range(rng.choice((1, 1, 2)))]
    constraints = (MatchAttribute(DRIVER, rng.choice(("at", "model"))),) * (rng.random() < 0.5)
    made = claim(*requests, name=name, constraints=constraints)
    if rng.random() < 0.2:
        made = replace(made, requests=(*made.requests, (_any_request(rng, "x/a"), request("x/b"))))
    return replace(made, namespace="default", resource_version="1")


def _change(rng: Random, driver: Driver) -> None:
    """Something happens to the cluster."""
    node = NodeName(rng.choice(NODES))
    match rng.randint(0, 8):
        case 0 | 1 | 2:
            driver.see(_any_slice(rng, driver))
        case 3:
            name = rng.choice([*NODES, "all", "rack"])
            driver.tell(ObjectGone(WatchedKind.RESOURCE_SLICE, ObjectKey("", name)))
        case 4:
            name = f"held-{rng.randint(0, 3)}"
            held = a_claim_of(f"gpu-{rng.randint(0, 2)}", node=node)
            driver.see(replace(held, name=name, resource_version=str(rng.random())))
        case 5:
            name = f"held-{rng.randint(0, 3)}"
            driver.tell(ObjectGone(WatchedKind.RESOURCE_CLAIM, ObjectKey("default", name)))
        case 6:
            driver.show(a_share(f"s{rng.random()}", 100))
        case 7 if rng.random() < 0.5:
            driver.tell(NodeSeen(a_node(node, labels={"rack": rng.choice(("r1", "r2"))})))
        case 7:
            gone = [NodeName(one) for one in rng.sample(NODES, 2)]
            driver.tell(*map(NodeGone, gone))
            driver.tell(*(NodeSeen(a_node(one)) for one in gone))
        case _:
            gpus = driver.machine.ledger.inventory.get(node, ())
            cards = [replace(gpu, index=1 - gpu.index) for gpu in gpus]
            driver.tell(InventoryRead(((node, tuple(cards)),)))


def _answers(search: DeviceSearch, rows: Rows, known: TableVerdicts) -> list[bool]:
    """Whether claims can be allocated, by position."""
    asked = np.flatnonzero(rows.present)
    found = {
        position: not reason
        for positions, reason, _ in search.reasons(asked, known)
        for position in positions.tolist()
    }
    assert [*sorted(found)] == asked.tolist()
    return [found.get(position, False) for position in range(len(rows.index))]


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(300))
def test_any_rows_get_the_answers_that_each_gets_alone(seed: int) -> None:
    rng = Random(seed)
    driver = device_driver(dict.fromkeys(NODES, 2), slices=False)
    known = TableVerdicts(DeviceVerdicts())
    before = KnownSearches(worth_keeping=0)
    if rng.random() < 0.3:
        driver.see(an_open_claim("pending"), sliced(Device(name="p"), node="n0", pool="p"))
        driver.show(a_claiming_pod("pending", "pending"))
    wanted: tuple[ResourceClaim, ...] = ()
    for _ in range(8):
        for _ in range(rng.randint(1, 6)):
            _change(rng, driver)
        if not wanted or rng.random() < 0.5:
            wanted = tuple(_any_claim(rng, name) for name in ("a", "b")[: rng.randint(1, 2)])
            driver.see(*wanted)
        names = tuple(DeviceClaimName(one.name, one.name) for one in wanted)
        asking = DeviceClaims(namespace="default", pod="asking", uid="uid-asking", names=names)
        columns, found = driver.machine.ledger.columns, FoundClaims(wanted, wanted)
        every: Rows = AllRows(columns)
        if rng.random() < 0.3:
            some = rng.sample(range(columns.rows), 3)
            every = SomeRows(columns, np.array(some))

        together = DeviceSearch(asking, found, every, DeviceVerdicts(), before)

        answers = _answers(together, every, known)
        for position, row in enumerate(every.index.tolist()):
            if columns.present[row]:
                alone = DeviceSearch(asking, found, OneRow(columns, row), DeviceVerdicts())
                assert answers[position] == (not isinstance(alone.allocations(0), str))


def test_the_first_alternatives_have_the_most_points() -> None:
    first, second = request("r/a", 1, _SELECTORS[0]), request("r/b")
    one = replace(claim((first, second)), namespace="default", resource_version="1")
    driver = device_driver(dict.fromkeys(NODES[:3], 0), slices=False)
    driver.see(
        one,
        sliced(device("gpu", model="B"), node="n0"),
        sliced(device("gpu", model="A"), node="n1"),
    )
    rows = AllRows(driver.machine.ledger.columns)
    asked = a_claiming_pod().shape

    score = DynamicResources().score(asked)

    assert score is not None
    points = score(rows, None)[np.flatnonzero(rows.present)]
    assert points.tolist() == [7, 8, 0]


def test_a_pod_goes_where_its_claim_gets_the_first_alternative() -> None:
    first, second = request("r/a", 1, _SELECTORS[0]), request("r/b")
    driver = device_driver({"n0": 0, "n1": 0}, slices=False)
    driver.see(
        replace(an_open_claim(), requests=((first, second),)),
        sliced(device("gpu", model="B"), node="n0"),
        sliced(device("gpu", model="A"), node="n1"),
    )

    driver.show(a_claiming_pod())

    assert devices_of(driver) == [f"{DRIVER}/n1/gpu"]


def test_allocated_alternatives_count_on_every_node() -> None:
    named = replace(an_open_claim(), requests=((request("r/a"), request("r/b")), (request("x"),)))

    assert alternative_points(named, {"r/b", "x"}) == 7
    assert alternative_points(named, {"x"}) == 0
