"""Random pods of every language on the same cards, through the machine.

The books are the test's own, in thousandths and bytes: which cards a pod has is read from the
annotations of its own language, and what it may hold of them from what it asked for.
"""

import copy
import json
from collections import Counter, defaultdict
from random import Random
from typing import Any

import msgspec
import pytest

from kubeshare_py.dialects.dialect import Dialect
from kubeshare_py.dialects.dialects import IN_TREE, Dialects
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import (
    BindSlotsFree,
    InventoryRead,
    NodesListed,
    PodGone,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.manifests.binding import binding_annotations
from kubeshare_py.manifests.events import node_events
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pods.pod import to_domain
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.scheduling.machine import Machine
from tests.dialects import vendor_formats
from tests.dialects.languages import GIB, Asked, Part, any_pod
from tests.making import a_gpu, a_machine
from tests.scale import scaled, seeds

Json = dict[str, Any]
#: By node, GiB of each card.
CARDS = {"n1": (16, 16, 16), "n2": (16, 40), "n3": (24, 24)}
#: Nodes whose agent serves `nvidia.com/gpu`: pods of that language go to no other.
SERVING = {"n1", "n3"}
#: Nodes whose devices of that name are slices, as HAMi's device plugin says.
SLICED: dict[str, dict[str, str]] = {"n2": {"hami.io/node-nvidia-register": "[]"}}
SCHEDULER, HAMIS = "kubeshare-scheduler", "hami-scheduler"
#: Both profiles evict no pods.
PROFILES = [
    {"schedulerName": name, "plugins": {"postFilter": {"disabled": [{"name": "*"}]}}}
    for name in (SCHEDULER, HAMIS)
]
#: So that times of decisions have as many digits as today's.
NOW_S = 1.8e9


def all_dialects() -> Dialects:
    made = [one for factory in IN_TREE.values() if isinstance(one := factory(), Dialect)]
    return Dialects(
        {
            SCHEDULER: [one for one in made if one.name != "hami"],
            HAMIS: [one for one in made if one.name in ("sharedgpu", "hami")],
        }
    )


DIALECTS = all_dialects()


class World:
    """A machine, the pods as a server has them, and books of what they hold."""

    def __init__(self) -> None:
        self.asked: dict[str, Asked] = {}
        #: Of bound pods, the node.
        self.placed: dict[str, str] = {}
        self.machine = self.started(())

    def started(self, pods: tuple[Json, ...]) -> Machine:
        """A machine that starts with these pods there."""
        machine = a_machine({"profiles": PROFILES})
        inventory = tuple(
            (
                NodeName(node),
                tuple(
                    a_gpu(f"GPU-{node}-{at}", index=at, memory_bytes=gib * GIB)
                    for at, gib in enumerate(cards)
                ),
            )
            for node, cards in CARDS.items()
        )
        machine.handle(PodsListed(tuple(map(read_pod, pods)), 0.0), 0.0)
        machine.handle(NodesListed(tuple(map(read_node, CARDS))), 0.0)
        machine.handle(InventoryRead(inventory), 0.0)
        return machine

    def create(self, asked: Asked) -> None:
        self.asked[asked.pod["metadata"]["name"]] = asked
        self.see(asked.pod)

    def see(self, pod: Json) -> None:
        """The watch shows the pod."""
        self.machine.handle(PodSeen(read_pod(pod)), 0.0)

    def delete(self, name: str) -> None:
        self.machine.handle(PodGone(PodUid(f"uid-{name}"), stopped=True), 0.0)
        self.asked.pop(name)
        self.placed.pop(name, None)

    def decide(self) -> None:
        """Bind what can be bound, as the API server would show it."""
        for effect in self.machine.handle(BindSlotsFree(64), 0.0):
            if isinstance(effect, Bind):
                self._bound(effect)
        self.judge()

    def _bound(self, bind: Bind) -> None:
        asked = self.asked[bind.key.name]
        found = DIALECTS.results(bind.allocation, bind.decided, NOW_S)
        assert not isinstance(found, str), found
        pod = asked.pod
        pod["spec"]["nodeName"] = bind.node
        pod["metadata"].setdefault("annotations", {}).update(binding_annotations(bind, "", found))
        pod["metadata"]["labels"] |= DIALECTS.labels(bind.allocation, found)
        self.placed[bind.key.name] = bind.node
        self.machine.handle(PodSeen(read_pod(pod)), 0.0)

    # --- books ---------------------------------------------------------------------------------

    def judge(self) -> None:
        """No card gives more than it has, and one that a pod has alone is no other's."""
        milli: Counter[str] = Counter()
        memory: Counter[str] = Counter()
        tenants: defaultdict[str, set[str]] = defaultdict(set)
        alone: dict[str, str] = {}
        for name, node in self.placed.items():
            asked = self.asked[name]
            for part, uuids in by_its_language(asked, node):
                assert len({*uuids}) == part.count, f"{name} has {uuids} for {part}"
                for uuid in uuids:
                    milli[uuid] += part.milli
                    memory[uuid] += part.bytes_of(bytes_of(uuid))
                    tenants[uuid].add(name)
                    if part.alone:
                        alone[uuid] = name
        self._judge_names()
        for uuid, pods in tenants.items():
            assert milli[uuid] <= 1000, f"{uuid} gives {milli[uuid]} thousandths to {pods}"
            assert memory[uuid] <= bytes_of(uuid), f"{uuid} gives {memory[uuid]} bytes to {pods}"
            assert uuid not in alone or pods == {alone[uuid]}, f"{uuid} of {alone[uuid]}: {pods}"
        assert self.free() == {
            uuid: (1000 - milli[uuid], bytes_of(uuid) - memory[uuid]) for uuid in every_card()
        }

    def _judge_names(self) -> None:
        """In a namespace, a GPUID of a node is one card, and a card has one."""
        found = set()
        for name, node in self.placed.items():
            if self.asked[name].language == "sharepod":
                meta = self.asked[name].pod["metadata"]
                [uuid] = vendor_formats.kubeshare(meta["annotations"])[0]
                found.add((meta["namespace"], node, meta["annotations"]["kubeshare/GPUID"], uuid))
        assert len(found) == len({one[:3] for one in found})
        assert len(found) == len({(one[0], one[3]) for one in found})

    def free(self, machine: Machine | None = None) -> dict[str, tuple[int, int]]:
        """What the ledger has left of each card: thousandths and bytes."""
        columns = (machine or self.machine).ledger.columns
        found = {}
        for node in CARDS:
            row = columns.row_of[NodeName(node)]
            for slot, uuid in enumerate(columns.uuids[row]):
                free = columns.free_milli.item(row, slot), columns.free_bytes.item(row, slot)
                found[str(uuid)] = free
        return found


def by_its_language(asked: Asked, node: str) -> list[tuple[Part, list[str]]]:
    """The parts of a pod with their cards, as its own tools read the annotations; checked."""
    meta = asked.pod["metadata"]
    given: dict[str, str] = meta["annotations"]
    expect_kubeshares_own(asked, given)
    if asked.language in ("sharedgpu", "sharepod"):
        return [(asked.parts[0], vendor_formats.kubeshare(given)[0])]
    if asked.language == "gpushare":
        return by_gpushare(asked, given, node)
    if asked.language == "hami":
        return by_hami(asked, given, node)
    if asked.language == "nvidia":
        assert node in SERVING, f"the kubelet picks cards of {node}"
        told = vendor_formats.containers(given)
        assert {*told} == {part.container for part in asked.parts}
        return [(part, told[part.container]) for part in asked.parts]
    return by_nano(asked, given, meta["labels"], node)


def by_hami(asked: Asked, given: dict[str, str], node: str) -> list[tuple[Part, list[str]]]:
    assert node in SLICED, f"devices of {node} are no slices"
    slots = vendor_formats.hami(given, node)
    assert len(slots) == len(asked.pod["spec"]["containers"])
    assert {at for at, slot in enumerate(slots) if slot} == {one.container for one in asked.parts}
    for part in asked.parts:
        for uuid, mib, cores in slots[part.container]:
            asked_of = part.memory or bytes_of(uuid) // 100 * part.percent
            assert abs(mib - (asked_of >> 20)) <= 1
            assert cores == part.milli // 10
    return [(part, [uuid for uuid, _, _ in slots[part.container]]) for part in asked.parts]


def by_nano(
    asked: Asked, given: dict[str, str], labels: dict[str, str], node: str
) -> list[tuple[Part, list[str]]]:
    names = [one["name"] for one in asked.pod["spec"]["containers"]]
    told = vendor_formats.nano(given, labels, asked.prefix, names)
    assert told is not None
    asking = {f"c{part.container}" for part in asked.parts}
    assert {name for name, cards in told.items() if cards} == asking
    return [(part, uuids(node, told[f"c{part.container}"])) for part in asked.parts]


def by_gpushare(asked: Asked, given: dict[str, str], node: str) -> list[tuple[Part, list[str]]]:
    second = vendor_formats.gpushare_second(given)
    assert second is not None
    found = []
    for part in asked.parts:
        units = second.cards[part.container]
        assert part.memory is not None
        assert {*units.values()} == {part.memory // GIB}
        percent = vendor_formats.gpushare_percent(given).get(part.container, {})
        assert {*percent.values()} == ({part.milli // 10} if part.milli else set())
        found.append((part, uuids(node, [*units])))
    cards = {index for units in second.cards.values() for index in units}
    assert second.totals == {index: CARDS[node][index] for index in cards}
    first = vendor_formats.gpushare_first(given)
    if len(cards) == 1:
        [index] = cards
        summed = sum(second.cards[part.container][index] for part in asked.parts)
        assert first == (index, summed, CARDS[node][index])
    else:
        assert first is None, "the first generation knows one card"
    return found


def expect_kubeshares_own(asked: Asked, given: dict[str, str]) -> None:
    """Every pod has `sharedgpu/*`; the allocation in it holds what the pod asked for."""
    cards, memory = vendor_formats.kubeshare(given)
    allocation = json.loads(given["sharedgpu/allocation"])
    assert allocation["dialect"] == asked.language
    held = [card for claim in allocation["claims"] for card in (claim.get("cards") or (claim,))]
    assert list(dict.fromkeys(card["uuid"] for card in held)) == cards
    assert sum(card["bytes"] for card in held) == memory
    wanted = Counter((part.milli, part.count) for part in asked.parts)
    count_of = {
        claim["container"]: len(claim["cards"])
        for claim in allocation["claims"]
        if "cards" in claim
    }
    if count_of:
        got = Counter(
            (claim["cards"][0]["milli"], len(claim["cards"])) for claim in allocation["claims"]
        )
    else:
        got = Counter([(held[0]["milli"], len(held))])
        if asked.same_card:
            wanted = Counter([(sum(part.milli for part in asked.parts), asked.parts[0].count)])
    assert got == wanted


def uuids(node: str, indices: list[int]) -> list[str]:
    return [f"GPU-{node}-{index}" for index in indices]


def bytes_of(uuid: str) -> int:
    _, node, index = uuid.split("-")
    return CARDS[node][int(index)] * GIB


def every_card() -> list[str]:
    return [f"GPU-{node}-{at}" for node, cards in CARDS.items() for at in range(len(cards))]


def read_pod(pod: Json) -> Any:
    return to_domain(msgspec.json.decode(msgspec.json.encode(pod), type=PodFields), DIALECTS)


def read_node(name: str, like: str = "") -> Any:
    """The node, whose plugins are those of the node `like`, or its own."""
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "500"}
    agent = {"kubeshare.io/node-agent": '{"v":1,"plugins":["nvidia.com/gpu"],"held":[]}'}
    like = like or name
    meta = {"name": name, "annotations": agent if like in SERVING else SLICED[like]}
    devices = len(CARDS[like]) * (1 if like in SERVING else 10)
    offered = {"nvidia.com/gpu": str(devices)}
    written = {"metadata": meta, "status": {"allocatable": amounts | offered}}
    fields = msgspec.json.decode(msgspec.json.encode(written), type=NodeFields)
    return node_events(DIALECTS).reduce(fields)


def run(seed: int, steps: int = 40) -> World:
    """Pods come and go; each decision is judged."""
    world, rng = World(), Random(seed)
    for number in range(steps):
        if world.asked and rng.random() < 0.35:
            world.delete(rng.choice(sorted(world.asked)))
        else:
            world.create(any_pod(f"p{number}", rng))
        world.decide()
    return world


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(10))
def test_no_card_gives_too_much_whatever_language_its_pods_speak(seed: int) -> None:
    """And a restart from the bound pods gives the same ledger."""
    languages: Counter[str] = Counter()
    for number in range(scaled(20, least=3)):
        world = run(seed * 1000 + number)
        languages.update(world.asked[name].language for name in world.placed)
        bound = tuple(copy.deepcopy(world.asked[name].pod) for name in world.placed)
        assert world.free(world.started(bound)) == world.free()
    # Pods of `cambricon` ask for no GPUs: tests/scheduling/charges/test_cards_of_vendors.py.
    assert {*languages} == {*IN_TREE} - {"cambricon"}
