"""Whatever pods, nodes, groups, budgets and inventories say, the machine goes on.

Objects are decoded, translated and handled as in the scheduler, between others that are in order.
"""

import math
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.configuration.scheduler import SCHEDULER_NAME
from kubeshare_py.dialects.allocation import read_allocation, write_allocation
from kubeshare_py.domain.cluster_objects import GroupApi
from kubeshare_py.domain.effects import Bind, Effect
from kubeshare_py.domain.events import (
    BindAnswered,
    BindSlotsFree,
    Bound,
    Event,
    InventoryRead,
    NodesListed,
    PodsListed,
    TimePassed,
)
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.inventory.changes import next_reading
from kubeshare_py.inventory.collector_page import wirings
from kubeshare_py.inventory.node_annotations import ANNOTATION, NodeAnnotations, write_cards
from kubeshare_py.inventory.sample_merge import Reading
from kubeshare_py.inventory.series import Series
from kubeshare_py.manifests import events
from kubeshare_py.manifests.binding import annotation_problem, binding_annotations
from kubeshare_py.manifests.events import BudgetFields
from kubeshare_py.manifests.lease import read_lease
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pod_group import PodGroupFields
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.manifests.watch import Codec
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.topology.wiring import wired
from tests.inventory.vector import capacity, count, fault, told, up, well
from tests.making import a_machine, some_gpus
from tests.odd_input import NUMBERS, TEXTS, as_json, changed
from tests.scale import examples
from tests.valid_objects import ALLOCATION, BUDGET, GROUPS, LEASE, LOOSE, NODE, POD

#: A world takes some 10 ms.
FEW = examples(40)

_pods, _nodes, _budgets = Codec(PodFields), Codec(NodeFields), Codec(BudgetFields)
_groups = Codec(PodGroupFields)


class World:
    """A machine with two nodes and two cards each, and what it is told after that."""

    def __init__(self) -> None:
        self.machine: Machine = a_machine({})
        self.now = 0.0
        self.bound = 0
        one = self._node({**NODE, "spec": {}})
        two = self._node({**NODE, "spec": {}, "metadata": {"name": "n2"}})
        cards = tuple((NodeName(name), some_gpus(name, 2)) for name in ("n1", "n2"))
        self.handle(NodesListed((one, two)), PodsListed((), 0.0), InventoryRead(cards))

    def handle(self, *happened: Event | None) -> None:
        for event in happened:
            if event is not None:
                self._answer(self.machine.handle(event, self.now))

    def pod(self, pod: Any) -> None:
        line = _pods.line(_line(pod))
        if line.item is not None:
            self.handle(events.POD_EVENTS.event(line.type, line.item))

    def node(self, node: Any) -> None:
        line = _nodes.line(_line(node))
        if line.item is not None:
            self.handle(events.NODE_EVENTS.event(line.type, line.item))
            found = NodeAnnotations()
            annotations = line.item.metadata.annotations or {}
            found.take(NodeName(line.item.metadata.name), annotations.get(ANNOTATION, ""))
            self.handle(found.read())

    def settle(self) -> None:
        """Decide, and let hours pass."""
        for _ in range(4):
            self.handle(BindSlotsFree(8), TimePassed())
            self.now += 4000.0

    def _node(self, node: Any) -> Any:
        event = events.NODE_EVENTS.event("ADDED", _nodes.line(_line(node)).item or NodeFields())
        return getattr(event, "node", None)

    def _answer(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Bind):
                self.bound += 1
                # What the scheduler writes it must understand when it starts again.
                text = write_allocation(effect.allocation)
                assert read_allocation(text) == effect.allocation
                assert annotation_problem(binding_annotations(effect, "")) == ""
                answer = BindAnswered(effect.uid, effect.allocation.token, Bound())
                self._answer(self.machine.handle(answer, self.now))


def _line(value: Any) -> bytes:
    return as_json({"type": "ADDED", "object": value})


def healthy(name: str) -> dict[str, Any]:
    labels = {"sharedgpu/gpu_limit": "0.3", "sharedgpu/gpu_request": "0.3"}
    metadata = {"name": name, "namespace": "ns", "uid": name, "labels": labels}
    return {"metadata": metadata, "spec": {"schedulerName": SCHEDULER_NAME}}


def expect_goes_on(world: World) -> None:
    """One more pod that asks for nothing odd is placed."""
    before = world.bound
    world.settle()
    world.node({**NODE, "metadata": {**NODE["metadata"], "name": "n9"}, "spec": {}})
    world.handle(InventoryRead(((NodeName("n9"), some_gpus("n9", 4)),)))
    world.pod(healthy("later"))
    world.settle()
    assert world.bound > before


def test_the_examples_are_understood() -> None:
    world = World()
    world.pod({**LOOSE, "spec": {**LOOSE["spec"], "nodeSelector": {}, "affinity": {}}})
    expect_goes_on(world)
    assert world.bound == 2


@FEW
@given(changed(POD), st.booleans(), changed(LOOSE))
def test_any_pod_is_taken(odd: Any, bound: bool, other: Any) -> None:
    world = World()
    if bound and isinstance(odd.get("spec"), dict):
        odd["spec"]["nodeName"] = "n1"
    world.pod(odd)
    if isinstance(other.get("metadata"), dict):
        other["metadata"]["uid"] = "u2"
    world.pod(other)
    expect_goes_on(world)


@FEW
@given(changed(msgspec.json.decode(ALLOCATION)), TEXTS)
def test_any_allocation_is_taken(odd: Any, text: str) -> None:
    world = World()
    for number, written in enumerate((as_json(odd).decode(), text)):
        annotations = {"sharedgpu/allocation": written}
        metadata = {**healthy(f"b{number}")["metadata"], "annotations": annotations}
        world.pod({"metadata": metadata, "spec": {"nodeName": "n1"}})
    expect_goes_on(world)


@FEW
@given(changed(NODE), changed(msgspec.json.decode(write_cards(some_gpus("n1", 2)))), TEXTS)
def test_any_node_is_taken(odd: Any, cards: Any, text: str) -> None:
    world = World()
    world.node(odd)
    for written in (as_json(cards).decode(), text):
        annotations = {ANNOTATION: written}
        world.node({**NODE, "metadata": {**NODE["metadata"], "annotations": annotations}})
    expect_goes_on(world)


@FEW
@given(
    st.sampled_from([*GroupApi]).flatmap(lambda api: st.tuples(st.just(api), changed(GROUPS[api])))
)
def test_any_pod_group_is_taken(told_of: tuple[GroupApi, Any]) -> None:
    api, odd = told_of
    world = World()
    line = _groups.line(_line(odd))
    if line.item is not None:
        world.handle(events.pod_group_events(api).event(line.type, line.item))
    member = healthy("m")
    member["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "g"
    world.pod(member)
    expect_goes_on(world)


@FEW
@given(changed(BUDGET))
def test_any_budget_is_taken(odd: Any) -> None:
    world = World()
    line = _budgets.line(_line(odd))
    if line.item is not None:
        world.handle(events.BUDGET_EVENTS.event(line.type, line.item))
    expect_goes_on(world)


@FEW
@given(changed(LEASE, like=False))
def test_any_lease_is_read_or_refused(odd: Any) -> None:
    try:
        found = read_lease(odd)
    except msgspec.ValidationError:
        return
    assert math.isfinite(float(found.duration_s) + found.transitions)


SERIES = (
    capacity("n1", "GPU-n1-0"),
    capacity("n1", "GPU-n1-1", index="1"),
    fault("n1", "GPU-n1-1"),
    count("n1", 2),
    well("n1", 2),
    up("n1"),
    told("gpu_link", "n1", 32.0, uuid="GPU-n1-0", peer="GPU-n1-1", type="SYS"),
    told("kubeshare_gpu_numa_node", "n1", 0.0, uuid="GPU-n1-0"),
    told("kubeshare_gpu_info", "n1", 1.0, uuid="GPU-n1-0", parent="", clique=""),
)
VALUES = st.sampled_from(
    [*(float(one) for one in NUMBERS if abs(one) <= sys.float_info.max), math.inf, math.nan]
)


@FEW
@given(st.data())
def test_any_series_are_taken(data: st.DataObject) -> None:
    world = World()
    vector = []
    for one in SERIES:
        labels = dict(one.labels)
        for label in data.draw(st.lists(st.sampled_from(sorted(labels)), max_size=2)):
            labels[label] = data.draw(TEXTS)
        vector.append(Series(labels, data.draw(VALUES | st.just(one.value))))
    step = next_reading(Reading(), vector, 0.0, unix_now=1e9)
    world.handle(InventoryRead(step.changed))
    again = next_reading(step.reading, SERIES, 5.0, unix_now=1e9)
    cards = again.reading.cards
    remarks: list[object] = []
    found = wirings(vector, cards, remarks.append)
    joined = tuple((node, wired(cards[node], one)) for node, one in found.items())
    world.handle(InventoryRead(again.changed), InventoryRead(joined))
    expect_goes_on(world)


@pytest.mark.parametrize("memory", [2**48, 2**48 + 1, 2**53, 2**53 + 1, 2**62])
def test_what_is_written_of_the_largest_cards_is_read_again(memory: int) -> None:
    world = World()
    vector = (capacity("n1", "GPU-big", memory=str(memory), index="0"), up("n1"))
    step = next_reading(Reading(), vector, 0.0)
    world.handle(InventoryRead(step.changed))
    assert bool(step.changed) == (memory <= 2**48)
    expect_goes_on(world)
