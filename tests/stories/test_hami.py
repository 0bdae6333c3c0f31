"""HAMi's pods: the examples of its repository, and pods of its scheduler and of its ancestor's."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest
import yaml

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.card_reading import IsolationBackend, IsolationChoice
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.embedded_cluster.nodes.container_runtime import pod_environment
from kubeshare_py.embedded_cluster.protocol.mutation import environment
from kubeshare_py.scheduling.machine import Machine
from tests.controlplane.running import ControlPlane
from tests.controlplane.token_limits import limits_with
from tests.dialects import vendor_formats
from tests.stories.conftest import NODES, PODS, Json, Stage, annotations

MIB = 1 << 20
OURS = "kubeshare-scheduler"
DIALECTS = Dialects({OURS: (SHAREDGPU, Hami())})
CHOICES = {OURS: IsolationChoice((IsolationBackend.NONE,))}
GPU, MEM, PERCENT = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage"
CORES = "nvidia.com/gpucores"
DOCUMENT: Json = {
    "profiles": [{"schedulerName": OURS}],
    "inventory": {"intervalSeconds": 0.1},
    "leaderElection": {"leaderElect": False},
}
#: A node's devices are slices.
REGISTERED = {"metadata": {"annotations": {"hami.io/node-nvidia-register": "[]"}}}
#: Its own agent serves them; what HAMi's plugin once registered may still be there.
SERVED = {
    "metadata": {
        "annotations": {"kubeshare.io/node-agent": '{"v":1,"plugins":["nvidia.com/gpu as slices"]}'}
    }
}
A100, T4 = "NVIDIA-A100-SXM4-40GB", "Tesla-T4"


def of_nodes(*nodes: tuple[str, int, int]) -> str:
    """A cluster file of nodes n1, n2… with cards: model, number, MiB."""
    gpus = [
        {"name": f"n{at}", "gpus": [{"model": model, "count": count, "memory": f"{mib}MiB"}]}
        for at, (model, count, mib) in enumerate(nodes, 1)
    ]
    return yaml.safe_dump({"nodes": gpus})


@pytest.fixture(scope="module", autouse=True)
def limits(plane: ControlPlane | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The scheduler's account may write HAMi's annotations."""
    with limits_with(Hami(), plane, tmp_path_factory.mktemp("limits")):
        yield


@pytest.fixture
def nodes() -> str:
    return of_nodes((A100, 2, 40000))


def a_pod(
    name: str,
    *containers: Mapping[str, int],
    inits: tuple[Mapping[str, int], ...] = (),
    told: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    def written(kind: str, each: tuple[Mapping[str, int], ...]) -> list[Json]:
        return [
            {
                "name": f"{kind}{at}",
                "image": "ubuntu:22.04",
                "resources": {"limits": {key: str(amount) for key, amount in one.items()}},
            }
            for at, one in enumerate(each)
        ]

    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": dict(told or {})},
        "spec": {
            "schedulerName": OURS,
            "containers": written("c", containers),
            "initContainers": written("i", inits),
            **spec,
        },
    }


async def registered(stage: Stage) -> Stage:
    for node in stage.nodes:
        await stage.client.merge_patch(f"{NODES}/{node.name}", REGISTERED)
    return stage


async def create(stage: Stage, name: str, *containers: Mapping[str, int], **more: Any) -> None:
    """A pod as the webhook leaves it."""
    await stage.client.create(
        PODS, environment(CHOICES, DIALECTS)(a_pod(name, *containers, **more), {})
    )


async def cards_of(
    stage: Stage, name: str, *containers: Mapping[str, int], **more: Any
) -> list[list[tuple[str, int, int]]]:
    """What a new pod's containers got, as HAMi's device plugin reads it."""
    await create(stage, name, *containers, **more)
    pod = await stage.expect_running(name)
    return vendor_formats.hami(annotations(pod), pod["spec"]["nodeName"])


def free(machine: Machine, node: str = "n1") -> list[int]:
    """The free MiB of a node's cards."""
    columns = machine.ledger.columns
    row = columns.row_of[NodeName(node)]
    return [
        int(columns.free_bytes[row, slot]) // MIB for slot in range(int(columns.gpu_count[row]))
    ]


async def test_an_example_gets_its_part_of_a_card(empty_stage: Stage) -> None:
    """default_use.yaml: 3000 MiB and 30 cores; and README's, without cores."""
    stage = await registered(empty_stage)
    async with stage.scheduler(DOCUMENT, dialects=DIALECTS) as machine:
        [[(uuid, mib, cores)]] = await cards_of(stage, "gpu-pod", {GPU: 1, MEM: 3000, CORES: 30})
        assert (mib, cores) == (3000, 30)
        assert uuid in {card.uuid for card in stage.nodes[0].cards}
        pod = await stage.pod("gpu-pod")
        seen = pod_environment(msgspec.convert(pod, UnstructuredObject), "", "")["c0"]
        assert seen["NVIDIA_VISIBLE_DEVICES"] == uuid
        [[(_, mib, cores)]] = await cards_of(stage, "readme", {GPU: 1, MEM: 3000})
        assert (mib, cores) == (3000, 0)
        assert sum(free(machine)) == 2 * 40000 - 6000


async def test_nothing_is_left_to_allocate_where_the_node_agent_serves_the_devices(
    empty_stage: Stage,
) -> None:
    """HAMi's plugin, which would write that the pod has them, is not there."""
    stage = await registered(empty_stage)
    await stage.client.merge_patch(f"{NODES}/{stage.nodes[0].name}", SERVED)
    async with stage.scheduler(DOCUMENT, dialects=DIALECTS):
        await create(stage, "p", {}, {GPU: 1, MEM: 3000, CORES: 30})
        pod = await stage.expect_running("p")
        nothing, [(uuid, *amounts)] = vendor_formats.hami_done(
            annotations(pod), stage.nodes[0].name
        )
        assert (nothing, amounts) == ([], [3000, 30])
        assert uuid in {card.uuid for card in stage.nodes[0].cards}


@pytest.mark.slow
async def test_cards_are_alone_unless_a_pod_asks_for_a_part(empty_stage: Stage) -> None:
    """use_as_normal.yaml, use_exclusive_card.yaml: no third pod fits beside them."""
    stage = await registered(empty_stage)
    async with stage.scheduler(DOCUMENT, dialects=DIALECTS):
        [[(first, mib, cores)]] = await cards_of(stage, "gpu-pod1", {GPU: 1})
        [[(second, *_)]] = await cards_of(stage, "gpu-pod2", {GPU: 1})
        assert (mib, cores) == (40000, 100)
        assert first != second
        await create(stage, "small", {GPU: 1, MEM: 1})
        await stage.expect_waiting("small")
        for name in ("gpu-pod1", "gpu-pod2", "small"):
            await stage.expect_deleted(name)
        [both] = await cards_of(stage, "exclusive", {GPU: 2, PERCENT: 100, CORES: 100})
        assert [(mib, cores) for _, mib, cores in both] == [(40000, 100)] * 2


async def test_fractions_fill_cards_exactly(empty_stage: Stage) -> None:
    """use_memory_fraction.yaml, use_sharing_card.yaml."""
    stage = await registered(empty_stage)
    async with stage.scheduler(DOCUMENT, dialects=DIALECTS) as machine:
        [parts] = await cards_of(stage, "gpu-pod", {GPU: 2, PERCENT: 50, CORES: 30})
        assert [(mib, cores) for _, mib, cores in parts] == [(20000, 30)] * 2
        await stage.expect_deleted("gpu-pod")
        one = {"nvidia.com/use-gpuuuid": stage.nodes[0].cards[0].uuid}
        await cards_of(stage, "gpu-pod1", {GPU: 1, PERCENT: 40, CORES: 60}, told=one)
        await cards_of(stage, "gpu-pod2", {GPU: 1, PERCENT: 60, CORES: 40}, told=one)
        assert sorted(free(machine)) == [0, 40000]
        await create(stage, "gpu-pod3", {GPU: 1, PERCENT: 1, CORES: 0}, told=one)
        await stage.expect_waiting("gpu-pod3")


@pytest.mark.parametrize("nodes", [of_nodes((A100, 2, 40000), (T4, 2, 15000))])
async def test_types_and_uuids_choose_cards(empty_stage: Stage) -> None:
    """specify_card_type_to_use.yaml, …_not_use.yaml, specify_uuid_to_use.yaml, …_not_use.yaml."""
    stage = await registered(empty_stage)
    a100s, t4s = ([card.uuid for card in node.cards] for node in stage.nodes)
    async with stage.scheduler(DOCUMENT, dialects=DIALECTS):
        asked = {GPU: 2, MEM: 100}
        for number, (key, text, wanted) in enumerate(
            (
                ("use-gputype", "A100,V100", a100s),
                ("nouse-gputype", "a100,1080", t4s),
                ("use-gpuuuid", f"{t4s[0]}, {t4s[1]}", t4s),
                ("nouse-gpuuuid", t4s[0], a100s),
            )
        ):
            told = {f"nvidia.com/{key}": text}
            [parts] = await cards_of(stage, f"p{number}", asked, told=told)
            assert sorted(uuid for uuid, *_ in parts) == sorted(wanted), key
        await create(stage, "none", asked, told={"nvidia.com/use-gputype": "H100"})
        await stage.expect_waiting("none")


@pytest.mark.parametrize("nodes", [of_nodes((A100, 2, 40000), (A100, 2, 40000))])
async def test_policies_are_the_pods_own(empty_stage: Stage) -> None:
    """specify_scheduling_policy.yaml: spread over nodes, and fill cards there."""
    stage = await registered(empty_stage)
    told = {"hami.io/node-scheduler-policy": "spread", "hami.io/gpu-scheduler-policy": "binpack"}
    async with stage.scheduler(DOCUMENT, dialects=DIALECTS):
        found = []
        for number in range(4):
            name = f"p{number}"
            [[(uuid, *_)]] = await cards_of(stage, name, {GPU: 1, MEM: 1000}, told=told)
            pod = await stage.pod(name)
            found.append((pod["spec"]["nodeName"], uuid))
        assert [node for node, _ in found] == ["n1", "n2", "n1", "n2"]
        assert len({*found}) == 2


async def test_containers_have_their_own_parts_and_places(empty_stage: Stage) -> None:
    """Init containers come first, and a container without cards has its place too."""
    stage = await registered(empty_stage)
    async with stage.scheduler(DOCUMENT, dialects=DIALECTS) as machine:
        slots = await cards_of(
            stage, "p", {}, {GPU: 1, MEM: 300}, {GPU: 2, MEM: 200}, inits=({GPU: 1, MEM: 100},)
        )
        # The init container uses a card of the one with two cards.
        assert slots[0][0][0] == slots[3][0][0]
        assert sum(free(machine)) == 2 * 40000 - 700
    assert [[mib for _, mib, _ in slot] for slot in slots] == [[100], [], [300], [200, 200]]


async def test_pods_of_the_old_schedulers_are_charged(empty_stage: Stage) -> None:
    """HAMi's, with an init container, and its ancestor's with one end for all."""
    stage = await registered(empty_stage)
    one, two = (card.uuid for card in stage.nodes[0].cards)
    new = {"hami.io/vgpu-devices-allocated": f";{one},NVIDIA,3000,50:;", "hami.io/vgpu-node": "n1"}
    old = {"hami.sh/vgpu-devices-allocated": f"{one},NVIDIA,1000,0:{two},NVIDIA,2000,0:;"}
    bound: Json = {"schedulerName": "old-scheduler", "nodeName": "n1"}
    ask = {GPU: 1, MEM: 3000, CORES: 50}
    for pod in (
        a_pod("hami", ask, inits=({},), told=new, **bound),
        a_pod("seed", {GPU: 1, MEM: 1000}, {GPU: 1, MEM: 2000}, told=old, **bound),
        a_pod("bad", ask, told={"hami.io/vgpu-devices-allocated": f"{two},NVIDIA,1"}, **bound),
    ):
        await stage.client.create(PODS, pod)
    async with stage.scheduler(DOCUMENT, dialects=DIALECTS) as machine:
        event = await stage.expect_event("bad", "AllocationUnreadable")
        assert f"all of {two} is charged" in event["note"]
        assert "has 3 fields, not 4" in event["note"]
        [[(uuid, *_)]] = await cards_of(stage, "p", {GPU: 1, MEM: 1})
        assert uuid == one  # though the other one would be the emptier
        await stage.expect_deleted("bad")
        [[(uuid, *_)]] = await cards_of(stage, "q", {GPU: 1, MEM: 1})
        assert uuid == two
        assert sorted(free(machine)) == sorted([40000 - 4000 - 1, 40000 - 2000 - 1])


async def test_what_cannot_be_meant_is_said_on_the_pod(empty_stage: Stage) -> None:
    """HAMi runs such a pod into an error of its node."""
    stage = await registered(empty_stage)
    async with stage.scheduler(DOCUMENT, dialects=DIALECTS):
        await create(stage, "p", {GPU: 1, MEM: 16 << 30})
        assert "is a number of MiB" in await stage.expect_waiting("p")


async def test_nodes_whose_devices_are_whole_cards_get_none_of_these_pods(
    empty_stage: Stage,
) -> None:
    """And the label gpu with another value than on keeps them away."""
    stage = empty_stage
    async with stage.scheduler(DOCUMENT, dialects=DIALECTS):
        await create(stage, "p", {GPU: 1, MEM: 100})
        assert "Insufficient nvidia.com/gpu of hami" in await stage.expect_waiting("p")
        await registered(stage)
        await stage.expect_running("p")
        await stage.client.merge_patch(f"{NODES}/n1", {"metadata": {"labels": {"gpu": "off"}}})
        await create(stage, "q", {GPU: 1, MEM: 100})
        assert "the label gpu with another value than on" in await stage.expect_waiting("q")
