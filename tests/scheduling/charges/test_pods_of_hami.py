"""HAMi's pods through the machine: bound by its scheduler, or placed by ours."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import msgspec
import pytest

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.effects import PodWarning, ReportPodWarning
from kubeshare_py.domain.events import Event, InventoryRead, PodGone
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.manifests.events import node_events, pod_events
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.scheduling.explain.explanation import why
from tests.dialects.hami.pods import CORES, GPU, MEM, MIB
from tests.making import Driver, a_gpu

N1 = NodeName("n1")
ALLOCATED = "hami.io/vgpu-devices-allocated"
DIALECTS = Dialects({"kubeshare-scheduler": (SHAREDGPU, Hami())})
PODS, NODES = pod_events(DIALECTS), node_events(DIALECTS)
WHOLE_MIB = 16000


def event(name: str, limits: Mapping[str, int], told: str = "", node: str = "", **of: Any) -> Event:
    """A line of a watch about a pod; `of` has fields of spec, status and metadata."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", **of.get("about", {})}
    notes = {**({ALLOCATED: told} if told else {}), **of.get("notes", {})}
    container = {"resources": {"limits": {key: str(one) for key, one in limits.items()}}}
    spec: dict[str, Any] = {
        "schedulerName": "kubeshare-scheduler",
        "containers": [{"name": "main", **container}],
        **of.get("spec", {}),
    }
    if node:
        spec["nodeName"] = node
    body = {
        "metadata": {
            **metadata,
            "annotations": notes,
        },
        "spec": spec,
        "status": {
            "phase": of.get("phase", "Running" if node else "Pending"),
            "conditions": of.get("conditions", []),
        },
    }
    found = PODS.event("MODIFIED", msgspec.json.decode(msgspec.json.encode(body), type=PodFields))
    assert found is not None
    return found


def node_seen(name: str = "n1", cards: int = 2, labels: Mapping[str, str] | None = None) -> Event:
    offered = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: str(10 * cards)}
    metadata = {
        "name": name,
        "uid": f"uid-{name}",
        "labels": dict(labels or {}),
        "annotations": {"hami.io/node-nvidia-register": "[]"},
    }
    body = {"metadata": metadata, "status": {"capacity": offered, "allocatable": offered}}
    found = NODES.event("ADDED", msgspec.json.decode(msgspec.json.encode(body), type=NodeFields))
    assert found is not None
    return found


def a_driver(*names: str, cards: int = 2) -> Driver:
    """Nodes with cards of 16000 MiB, each for ten pods; `GPU-0`… in n1, which is the default."""
    driver = Driver({})
    for node in names or ("n1",):
        prefix = "" if node == "n1" else f"{node}-"
        found = tuple(
            a_gpu(f"GPU-{prefix}{at}", index=at, memory_bytes=WHOLE_MIB * MIB, max_tenants=10)
            for at in range(cards)
        )
        driver.tell(node_seen(node, cards), InventoryRead(((NodeName(node), found),)))
    driver.decide()
    return driver


def warnings(driver: Driver, *events: Event) -> dict[PodWarning, str]:
    effects = driver.tell(*events)
    return {one.warning: one.note for one in effects if isinstance(one, ReportPodWarning)}


def placed(driver: Driver, *events: Event) -> dict[str, list[str]]:
    """The cards of the pods that are bound now."""
    driver.tell(*events)
    found: dict[str, list[str]] = {}
    while binds := driver.decide():
        found |= {one.key.name: [card.uuid for card in one.allocation.cards] for one in binds}
    return found


def free_mib(driver: Driver) -> list[int]:
    columns = driver.machine.ledger.columns
    row = columns.row_of[N1]
    count = int(columns.gpu_count[row])
    return [columns.free_bytes.item(row, slot) // MIB for slot in range(count)]


HALF = {GPU: 1, MEM: 8000, CORES: 50}


def test_cards_that_an_unreadable_annotation_names_are_held_wholly_and_others_are_not() -> None:
    driver = a_driver()
    told = warnings(driver, event("old", HALF, "GPU-0,NVIDIA,8000:;", "n1"))
    assert told[PodWarning.UNREADABLE] == (
        "all of GPU-0 is charged, because it is not known how much of it the pod holds: "
        f"{ALLOCATED}: 'GPU-0,NVIDIA,8000' has 3 fields, not 4"
    )
    found = placed(driver, *(event(name, HALF) for name in "abc"))
    assert found == {"a": ["GPU-1"], "b": ["GPU-1"]}


@pytest.mark.parametrize("text", ["all", "GPU-0,NVIDIA,8000:;x,y:;"])
def test_for_an_unreadable_annotation_without_cards_idle_cards_are_held_back(text: str) -> None:
    """As many as the pod asks for: it may have had each of them alone."""
    driver = a_driver(cards=3)
    told = warnings(driver, event("old", HALF, text, "n1"))
    assert told[PodWarning.UNREADABLE].startswith(
        "an idle GPU is held back on n1, because it is not known what the pod holds: "
    )
    found = placed(driver, *(event(name, HALF) for name in "abcde"))
    assert len(found) == 4
    assert len({card for cards in found.values() for card in cards}) == 2
    more = placed(driver, PodGone(PodUid("uid-old"), stopped=True))
    assert len(more) == 1


def test_a_terminating_pod_keeps_its_part_until_it_is_gone_and_a_finished_one_has_none() -> None:
    """A card is free when nothing runs on it any more, and not when its pod is asked to end."""
    driver = a_driver()
    text = "GPU-0,NVIDIA,8000,50:;"
    driver.tell(event("old", HALF, text, "n1"))
    assert free_mib(driver) == [8000, 16000]
    ending = {"deletionTimestamp": "2026-11-23T12:00:00Z", "deletionGracePeriodSeconds": 30}
    driver.tell(event("old", HALF, text, "n1", about=ending))
    assert free_mib(driver) == [8000, 16000]
    driver.tell(event("old", HALF, text, "n1", about=ending, phase="Failed"))
    assert free_mib(driver) == [16000, 16000]


def with_inits(*inits: Mapping[str, int], apps: int = 1, app: Mapping[str, int]) -> dict[str, Any]:
    """The spec of a pod with these init containers, and so many containers of one kind."""

    def written(kind: str, each: Sequence[Mapping[str, int]]) -> list[dict[str, Any]]:
        return [
            {"name": f"{kind}{at}", "resources": {"limits": {k: str(n) for k, n in one.items()}}}
            for at, one in enumerate(each)
        ]

    return {"initContainers": written("i", inits), "containers": written("c", [app] * apps)}


@pytest.mark.parametrize("init", [{GPU: 1, MEM: 4000}, {GPU: 1, MEM: 10, CORES: 30}])
def test_an_init_container_that_fits_nowhere_keeps_its_pod_waiting(init: dict[str, int]) -> None:
    """Though the other container would fit."""
    driver = a_driver()
    held = {GPU: 1, MEM: WHOLE_MIB - 500, CORES: 80}
    for at in range(2):
        driver.tell(event(f"old{at}", held, f"GPU-{at},NVIDIA,{held[MEM]},80:;", "n1"))
    app = {GPU: 1, MEM: 100}
    assert placed(driver, event("p", {}, spec=with_inits(init, app=app))) == {}
    assert placed(driver, event("q", {}, spec=with_inits({GPU: 1, MEM: 90}, app=app)))


def test_containers_of_one_pod_take_one_place_of_a_card_together() -> None:
    """HAMi counts one for each container."""
    driver = a_driver(cards=1)
    for at in range(3):
        spec = with_inits(app={GPU: 1, MEM: 100}, apps=3)
        assert placed(driver, event(f"p{at}", {}, spec=spec)) == {f"p{at}": ["GPU-0"]}
    assert driver.machine.ledger.columns.tenants.item(0, 0) == 3
    assert free_mib(driver) == [WHOLE_MIB - 900]


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("GPU-0,NVIDIA,9000,0:;GPU-0,NVIDIA,4000,0:;", [9000, 0], [4000, 0]),
        ("GPU-1,NVIDIA,9000,0:;GPU-0,NVIDIA,4000,0:;", [4000, 9000], [4000, 0]),
        ("GPU-1,NVIDIA,9000,0:;;", [0, 9000], [0, 0]),
    ],
)
def test_what_an_init_container_held_beyond_others_is_free_when_it_has_ended(
    text: str, before: list[int], after: list[int]
) -> None:
    """A sidecar keeps its part, though the pod is initialized."""
    driver = a_driver(cards=2)
    app = {GPU: 1, MEM: 4000} if text.count("GPU-") == 2 else {}
    spec = with_inits({GPU: 1, MEM: 9000}, app=app)
    assert free_mib(driver) == [WHOLE_MIB] * 2
    for is_done, held in (("False", before), ("True", after)):
        conditions = [{"type": "Initialized", "status": is_done}]
        driver.tell(event("old", {}, text, "n1", spec=spec, conditions=conditions))
        assert free_mib(driver) == [WHOLE_MIB - one for one in held]
    spec["initContainers"][0]["restartPolicy"] = "Always"
    driver = a_driver(cards=2)
    driver.tell(event("old", {}, text, "n1", spec=spec, conditions=conditions))
    assert sum(free_mib(driver)) == 2 * WHOLE_MIB - 9000 - 4000 * bool(app)


def test_what_an_init_container_held_is_free_when_its_pod_ends() -> None:
    """HAMi gives it back when the init container has ended."""
    driver = a_driver(cards=1)
    spec = with_inits({GPU: 1, MEM: 9000}, app={GPU: 1, MEM: 4000})
    text = "GPU-0,NVIDIA,9000,0:;GPU-0,NVIDIA,4000,0:;"
    told = warnings(driver, event("old", {}, text, "n1", spec=spec))
    assert PodWarning.DIFFERENCE not in told
    assert free_mib(driver) == [WHOLE_MIB - 9000]
    driver.tell(event("old", {}, text, "n1", spec=spec, phase="Succeeded"))
    assert free_mib(driver) == [WHOLE_MIB]


def test_an_init_container_of_which_too_little_is_told_holds_what_it_asks_for() -> None:
    driver = a_driver(cards=1)
    spec = with_inits({GPU: 1, MEM: 9000}, app={GPU: 1, MEM: 4000})
    text = "GPU-0,NVIDIA,5000,0:;GPU-0,NVIDIA,4000,0:;"
    told = warnings(driver, event("old", {}, text, "n1", spec=spec))
    assert (
        f"init-0: of GPU GPU-0 its annotations say {1000 * MIB} bytes"
        in (told[PodWarning.DIFFERENCE])
    )
    assert free_mib(driver) == [WHOLE_MIB - 9000]


def test_the_same_pods_on_the_same_cluster_get_the_same_cards() -> None:
    """Of equal nodes HAMi takes the one that is ready first."""
    rng = Random(7)
    asked = [{GPU: rng.choice([1, 1, 2]), MEM: rng.choice([1000, 4000])} for _ in range(40)]
    runs = []
    for _ in range(2):
        driver = a_driver("n1", "n2", "n3", cards=4)
        runs.append(placed(driver, *(event(f"p{at}", one) for at, one in enumerate(asked))))
    assert runs[0] == runs[1]
    assert len(runs[0]) == 40


def test_a_pod_that_waits_is_placed_at_once_when_there_is_room() -> None:
    """Under HAMi it waits for kube-scheduler's flush, five minutes at most."""
    driver = a_driver(cards=1)
    assert placed(driver, event("first", {GPU: 1})) == {"first": ["GPU-0"]}
    assert placed(driver, event("late", HALF)) == {}
    assert placed(driver, PodGone(PodUid("uid-first"), stopped=True)) == {"late": ["GPU-0"]}


def test_forty_pods_at_once_get_their_parts_of_eight_cards() -> None:
    """In one iteration, five on each card."""
    driver = a_driver(cards=8)
    asked = {GPU: 1, MEM: 3200, CORES: 20}
    driver.tell(*(event(f"p{at}", asked) for at in range(41)))
    binds = driver.decide()
    assert len(binds) == 40
    assert free_mib(driver) == [0] * 8


def test_nodes_that_a_pod_prefers_count_beside_its_policy() -> None:
    """HAMi returns one node, and kube-scheduler's scores have no say."""
    driver = a_driver("n1", "n2")
    driver.tell(node_seen("n1", labels={"zone": "a"}), node_seen("n2", labels={"zone": "b"}))
    term = {"key": "zone", "operator": "In", "values": ["b"]}
    prefers = {
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 100, "preference": {"matchExpressions": [term]}}
                ]
            }
        }
    }
    assert placed(driver, event("b", HALF, spec=prefers)) == {"b": ["GPU-n2-1"]}
    assert placed(a_driver("n1", "n2"), event("plain", HALF)) == {"plain": ["GPU-1"]}


def message(driver: Driver, name: str) -> str:
    """Why a pod waits, as its condition says it."""
    found = why(driver.machine, PodKey("default", name))
    assert found is not None
    return found.message


def test_why_a_pod_waits_is_one_message_that_counts_nodes_by_reason() -> None:
    """HAMi writes an event for each reason, with tokens and names of nodes."""
    driver = a_driver("n1", "n2")
    asked = {GPU: 1, MEM: WHOLE_MIB + 1}
    assert placed(driver, event("big", asked), event("many", {GPU: 3, MEM: 1})) == {}
    assert message(driver, "big").endswith("0/2 nodes are available: 2 Insufficient GPU memory.")
    assert message(driver, "many").endswith("0/2 nodes are available: 2 too few GPUs.")


def test_a_card_that_the_pod_does_not_name_counts_for_that_alone() -> None:
    """Also if it has no place left."""
    driver = a_driver("n1", "n2")
    for at in range(10):
        driver.tell(event(f"old{at}", {GPU: 1, MEM: 1}, "GPU-0,NVIDIA,1,0:;", "n1"))
    named = {"nvidia.com/use-gpuuuid": "GPU-n2-0"}
    found = placed(driver, event("first", {GPU: 1}, notes=named), event("u", HALF, notes=named))
    assert found == {"first": ["GPU-n2-0"]}
    assert message(driver, "u") == (
        "0/2 nodes are available: 1 Insufficient GPU, 1 no GPU of a UUID that the pod names."
    )
