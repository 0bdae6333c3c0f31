"""Containers of one pod with cards of their own: what each sees, and what a restart keeps."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from kubeshare_py.dialects.dialect import PlacedNode, ResultKeys
from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.card_reading import IsolationBackend, IsolationChoice
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.embedded_cluster.nodes.container_runtime import pod_environment
from kubeshare_py.embedded_cluster.protocol.mutation import environment
from kubeshare_py.scheduling.machine import Machine
from tests.dialects.halves import HALF, Halves
from tests.stories.conftest import PODS, Json, Stage, annotations, gpu

GIB = 1 << 30
#: Containers that ask for cards, as annotations name them.
KEYS = {"side": "init-0", "main": "container-0", "other": "container-2"}
CLUSTER = "nodes: [{name: n1, gpus: [{model: T4, count: 2, memory: 16GiB}]}]"


class Quiet(Halves):
    """Without annotations of its own, which the policies of a real cluster would have to know."""

    name = "quiet"
    result_keys = ResultKeys()

    def results(self, allocation: Allocation, node: PlacedNode) -> Mapping[str, str]:
        return {}


DIALECTS = Dialects({"kubeshare-scheduler": (SHAREDGPU, Quiet())})


def uuids(stage: Stage) -> list[str]:
    return [card.uuid for node in stage.nodes for card in node.cards]


def by_container(stage: Stage) -> dict[str, str]:
    """As a scheduler writes it: two containers share one card, and one has the other for itself."""
    shared, whole = uuids(stage)
    part: Json = {"uuid": shared, "milli": 300, "bytes": GIB, "model": "T4"}
    alone = part | {"uuid": whole, "milli": 1000, "bytes": 2 * GIB, "exclusive": True}
    parts: dict[str, list[Json]] = {
        "container-0": [part],
        "container-1": [part | {"milli": 200}, alone],
    }
    claims: list[Any] = [
        {"container": name, "limit_milli": 500, "cards": cards} for name, cards in parts.items()
    ]
    placed = {"v": 2, "token": "forged-1", "dialect": "d", "claims": claims, "port": 50500}
    results = {
        "allocation": json.dumps(placed),
        "gpu_uuid": f"{shared},{whole}",
        "gpu_mem": str(4 * GIB),
        "gpu_manager_port": "50500",
        "container-0.gpu_uuid": shared,
        "container-1.gpu_uuid": f"{shared},{whole}",
    }
    return {f"sharedgpu/{name}": value for name, value in results.items()}


@pytest.mark.slow
async def test_what_containers_hold_together_is_charged_and_a_new_scheduler_knows_it(
    empty_stage: Stage,
) -> None:
    stage = empty_stage
    shared, _ = uuids(stage)
    async with stage.scheduler():
        # A pod that is in its first list was bound before, which is no event.
        await stage.warm_up()
        await stage.create("both", annotations=by_container(stage), nodeName="n1")
        await stage.expect_event("both", "AllocationNotOurs")
        await stage.create("fits", gpu("0.4"))
        fits = await stage.expect_running("fits")
        assert fits["metadata"]["annotations"]["sharedgpu/gpu_uuid"] == shared
        await stage.create("too-big", gpu("0.2"))
        told = await stage.expect_waiting("too-big")
    async with stage.scheduler():
        await stage.create("again", gpu("0.2"))
        assert await stage.expect_waiting("again") == told
        await stage.create("rest", gpu("0.1"))
        await stage.expect_running("rest")
        await stage.expect_deleted("both")
        await stage.expect_running("too-big")
        await stage.expect_running("again")


async def test_a_container_that_is_told_anothers_cards_is_noticed(empty_stage: Stage) -> None:
    stage = empty_stage
    _, whole = uuids(stage)
    told = by_container(stage) | {"sharedgpu/container-0.gpu_uuid": whole}
    async with stage.scheduler():
        await stage.create("both", annotations=told, nodeName="n1")
        event = await stage.expect_event("both", "GPUMismatch")
        assert f"sharedgpu/container-0.gpu_uuid says {whole}" in event["note"]


def asking(name: str, halves: int = 1, **fields: Any) -> Json:
    resources = {"limits": {HALF: str(halves)}} if halves else {}
    return {"name": name, "image": "busybox", "resources": resources, **fields}


def admitted(**spec: Any) -> Json:
    """A pod of ours as the webhook leaves it."""
    choices = {"kubeshare-scheduler": IsolationChoice((IsolationBackend.NONE,))}
    spec = {"schedulerName": "kubeshare-scheduler", **spec}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mixed"}, "spec": spec}
    return environment(choices, DIALECTS)(pod, {})


def seen_by(pod: Json) -> dict[str, str]:
    """The cards that a kubelet tells each container."""
    found = pod_environment(msgspec.convert(pod, UnstructuredObject), "", "")
    return {name: variables["NVIDIA_VISIBLE_DEVICES"] for name, variables in found.items()}


def books(machine: Machine) -> list[tuple[int, int, int]]:
    """What is free of each card, in thousandths and bytes, and its pods."""
    columns = machine.ledger.columns
    row = columns.row_of[NodeName("n1")]
    tables = (columns.free_milli, columns.free_bytes, columns.tenants)
    parts = [[table.item(row, slot) for table in tables] for slot in (0, 1)]
    return [(milli, memory, pods) for milli, memory, pods in parts]


@pytest.mark.slow
async def test_each_container_sees_its_own_part_and_a_new_scheduler_has_the_same_books(
    empty_stage: Stage,
) -> None:
    stage = empty_stage
    containers = [asking("main"), asking("log", 0), asking("other")]
    inits = [asking("side", restartPolicy="Always")]
    async with stage.scheduler(dialects=DIALECTS) as machine:
        await stage.client.create(PODS, admitted(containers=containers, initContainers=inits))
        pod = await stage.expect_running("mixed")
        before = books(machine)
    given = annotations(pod)
    told = {name: given[f"sharedgpu/{name}.gpu_uuid"] for name in KEYS.values()}
    cards = sorted(uuids(stage))
    assert sorted({*told.values()}) == cards
    assert seen_by(pod) == {**{name: told[key] for name, key in KEYS.items()}, "log": "void"}
    assert "sharedgpu/container-1.gpu_uuid" not in given
    assert sorted(given["sharedgpu/gpu_uuid"].split(",")) == cards
    assert json.loads(given["sharedgpu/allocation"])["v"] == 2
    assert sorted(before) == [(0, 0, 1), (500, 8 * GIB, 1)]
    async with stage.scheduler(dialects=DIALECTS) as machine:
        await stage.create("rest", gpu("0.2"))
        await stage.expect_running("rest")
        await stage.expect_deleted("rest")
        assert books(machine) == before
