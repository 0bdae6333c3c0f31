"""Pods of HAMi in a cluster that keeps kube-scheduler: this scheduler is its extender now.

kube-scheduler is configured as docs/from-kube-scheduler.md shows it, and this scheduler as the
chart does it by the values of that page.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import yaml

from kubeshare_py.configuration.scheduler import read
from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.edges.process.plugin_entry_points import configured
from tests.controlplane.helm import template
from tests.controlplane.running import ControlPlane, free_ports
from tests.controlplane.token_limits import limits_of
from tests.deploy.page_commands import blocks
from tests.dialects import vendor_formats
from tests.stories.conftest import PODS, Json, Stage, annotations, bound, scheduled_condition
from tests.stories.hami_plugin import SETTINGS, allow_node_patches, cards, register
from tests.stories.kube_schedulers import kube_scheduler
from tests.stories.stand_in_plugin import StandInPlugin
from tests.stories.stand_in_plugin import devices_of as uuids_of
from tests.stories.test_hami import CORES, GPU, MEM, PERCENT, a_pod

pytestmark = pytest.mark.real_only("it needs kube-scheduler and Helm, which make e2e builds")

THEIRS = "hami-scheduler"
A100_MIB, T4_MIB = 40 * 1024, 15 * 1024
HALVES = 16
HALF = {GPU: 1, PERCENT: 50, CORES: 50}
_OFFERED = f"allocatable: {{cpu: 96, memory: 1Ti, {GPU}: 20}}"
CLUSTER = f"""
nodes:
  - {{name: n1, {_OFFERED}, gpus: [{{model: NVIDIA-A100, count: 2, memory: {A100_MIB}MiB}}]}}
  - {{name: n2, {_OFFERED}, gpus: [{{model: Tesla-T4, count: 2, memory: {T4_MIB}MiB}}]}}
"""
Devices = list[tuple[str, int, int]]


def of_page() -> tuple[Json, Json]:
    """The values of the chart, and the configuration of kube-scheduler."""
    values, configuration = (
        yaml.safe_load(one) for one in blocks("from-kube-scheduler.md", "yaml")[:2]
    )
    return values, configuration


@pytest.fixture(scope="module")
def document(
    plane: ControlPlane | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Json]:
    """What the chart makes of the page's values; the scheduler's account may do what it needs."""
    values, _ = of_page()
    folder = tmp_path_factory.mktemp("limits")
    with limits_of(values, Hami(), plane, folder):
        rendered = yaml.safe_load_all(template("--values", folder / "values.yaml"))
        [found] = [
            one["data"]["scheduler.yaml"]
            for one in rendered
            if one
            and (one["kind"], one["metadata"]["name"]) == ("ConfigMap", "kubeshare-scheduler")
        ]
        yield yaml.safe_load(found)


@asynccontextmanager
async def both(
    stage: Stage, plane: ControlPlane | None, document: Json, **more: object
) -> AsyncIterator[None]:
    """This scheduler, and kube-scheduler with it as its extender; the cards are known.

    `more` are settings of this scheduler beside those of the chart.
    """
    assert plane is not None
    for node in stage.nodes:
        await register(stage, node.name, cards(stage, node.name))
    [port] = free_ports(1)
    extender = {**document.get("extender", {}), "bindAddress": "127.0.0.1", "port": port}
    settings = {"profiles": document["profiles"], "extender": extender, **more}
    _, configuration = of_page()
    configuration["extenders"][0]["urlPrefix"] = f"https://127.0.0.1:{port}"
    async with stage.scheduler(settings, dialects=configured(read(settings))):
        await stage.warm_up()
        with kube_scheduler(plane, stage.folder, configuration):
            yield


async def create(stage: Stage, name: str, *containers: Mapping[str, int], **told: str) -> None:
    """A pod as HAMi's webhook leaves it."""
    await stage.client.create(PODS, a_pod(name, *containers, told=told, schedulerName=THEIRS))


async def given(stage: Stage, name: str) -> tuple[str, Devices]:
    """The node of a pod and the cards of its one container, as HAMi's device plugin reads them."""
    pod = await stage.expect_running(name)
    node = pod["spec"]["nodeName"]
    [devices] = vendor_formats.hami(annotations(pod), node)
    return node, devices


def devices_of(pods: list[Json]) -> dict[str, Devices]:
    """The same of many pods that are bound."""
    found = {}
    for pod in pods:
        if pod["spec"].get("nodeName"):
            [devices] = vendor_formats.hami(annotations(pod), pod["spec"]["nodeName"])
            found[pod["metadata"]["name"]] = devices
    return found


@dataclass(frozen=True, slots=True)
class Example:
    """A pod of HAMi's: what it asks for and says, and what of which cards it gets."""

    asked: Mapping[str, int]
    told: Mapping[str, str]
    allowed: frozenset[str]
    mib: int
    cores: int


def examples(a100s: frozenset[str], t4s: frozenset[str]) -> dict[str, Example]:
    """README's, and those of examples/nvidia for one pod."""
    use, deny, one = "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid", min(t4s)
    of_type, not_of_type = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
    any_card, two = a100s | t4s, {GPU: 2}
    alone = {GPU: 2, PERCENT: 100, CORES: 100}
    return {
        "readme": Example({GPU: 1, MEM: 3000}, {}, any_card, 3000, 0),
        "default-use": Example({GPU: 1, MEM: 3000, CORES: 30}, {}, any_card, 3000, 30),
        "type": Example(two, {of_type: "A100,V100"}, a100s, A100_MIB, 100),
        "not-type": Example(two, {not_of_type: "a100,2080"}, t4s, T4_MIB, 100),
        "uuid": Example({GPU: 1}, {use: f"{one},GPU-a"}, frozenset({one}), T4_MIB, 100),
        "not-uuid": Example(two, {deny: one}, a100s, A100_MIB, 100),
        "fraction": Example(
            {GPU: 2, PERCENT: 50, CORES: 30}, {of_type: "t4"}, t4s, T4_MIB // 2, 30
        ),
        "exclusive": Example(alone, {of_type: "t4"}, t4s, T4_MIB, 100),
    }


async def test_hamis_examples_are_placed_with_their_annotations(
    empty_stage: Stage, plane: ControlPlane | None, document: Json
) -> None:
    """Amounts in the limits and wishes in annotations, one pod after the other."""
    a100s, t4s = (frozenset(str(card.uuid) for card in one.cards) for one in empty_stage.nodes)
    async with both(empty_stage, plane, document):
        for name, wanted in examples(a100s, t4s).items():
            await create(empty_stage, name, wanted.asked, **wanted.told)
            node, devices = await given(empty_stage, name)
            uuids = {uuid for uuid, *_ in devices}
            assert [one[1:] for one in devices] == [(wanted.mib, wanted.cores)] * len(uuids), name
            assert (len(uuids), uuids - wanted.allowed) == (wanted.asked[GPU], set()), name
            assert uuids <= (a100s if node == "n1" else t4s), name
            await empty_stage.expect_deleted(name)


async def test_pods_share_cards_and_choose_policies_as_with_hami(
    empty_stage: Stage, plane: ControlPlane | None, document: Json
) -> None:
    """use_sharing_card.yaml, specify_scheduling_policy.yaml."""
    stage, one = empty_stage, str(empty_stage.nodes[1].cards[0].uuid)
    async with both(stage, plane, document):
        for name, percent in (("first", 40), ("second", 60)):
            asked = {GPU: 1, PERCENT: percent, CORES: 100 - percent}
            await create(stage, name, asked, **{"nvidia.com/use-gpuuuid": one})
            got = (one, T4_MIB * percent // 100, 100 - percent)
            assert await given(stage, name) == ("n2", [got])
        # Nodes are spread, and the cards of a node filled.
        policies = {"node-scheduler-policy": "spread", "gpu-scheduler-policy": "binpack"}
        told = {f"hami.io/{key}": text for key, text in policies.items()}
        for name in ("third", "fourth"):
            await create(stage, name, {GPU: 1, MEM: 1000}, **told)
        (node, cards_of_third), fourth = [await given(stage, name) for name in ("third", "fourth")]
        assert node == "n1"
        assert fourth == (node, cards_of_third)


#: What users ask for that nothing has, and the reasons of docs/from-hami.md.
TOO_MUCH: Mapping[str, tuple[Mapping[str, int], Mapping[str, str], str]] = {
    "memory": ({GPU: 1, MEM: A100_MIB + 1}, {}, "2 Insufficient GPU memory"),
    "cards": ({GPU: 3, MEM: 1}, {}, "2 too few GPUs"),
    "type": ({GPU: 1, MEM: 1}, {"nvidia.com/use-gputype": "H100"}, "2 no GPU of model *h100*"),
    "uuid": (
        *({GPU: 1, MEM: 1}, {"nvidia.com/use-gpuuuid": "GPU-a"}),
        "2 no GPU of a UUID that the pod names",
    ),
    "unit": ({GPU: 1, MEM: 16 << 30}, {}, "is a number of MiB"),
}


async def test_users_are_told_why_nothing_fits(
    empty_stage: Stage, plane: ControlPlane | None, document: Json
) -> None:
    """HAMi's words for it are CardInsufficientMemory, CardTypeMismatch and so on."""
    async with both(empty_stage, plane, document):
        for name, (asked, told, _) in TOO_MUCH.items():
            await create(empty_stage, name, asked, **told)
        for name, (*_, text) in TOO_MUCH.items():
            await expect_refused(empty_stage, name, text)


async def expect_refused(stage: Stage, name: str, text: str) -> None:
    """kube-scheduler says of the pod that it is unschedulable, and why."""
    pod = await stage.expect_eventually(
        name, lambda pod: text in scheduled_condition(pod).get("message", "")
    )
    assert scheduled_condition(pod)["reason"] == "Unschedulable"


async def test_hamis_device_plugin_goes_on_and_gives_each_pod_its_devices(
    empty_stage: Stage, plane: ControlPlane | None, document: Json
) -> None:
    """Only its scheduler is replaced: /bind waits for the lock of the node."""
    stage, names = empty_stage, [f"half-{number}" for number in range(4)]
    await allow_node_patches(stage.client)
    plugin = StandInPlugin(stage.client, answers_in_s=0.01)
    async with both(stage, plane, document, **SETTINGS), asyncio.TaskGroup() as group:
        running = group.create_task(plugin.run())
        for name in names:
            await create(stage, name, HALF, **{"nvidia.com/use-gputype": "t4"})

        def all_done(pods: list[Json]) -> bool:
            phases = [annotations(pod).get("hami.io/bind-phase") for pod in pods]
            return phases == ["success"] * len(names)

        pods = await stage.expect_all(all_done)
        running.cancel()
    assert plugin.wrong == []
    for pod in pods:
        [uuid] = uuids_of(plugin.given[f"default/{pod['metadata']['name']}"])
        assert annotations(pod)["hami.io/vgpu-devices-allocated"].startswith(f"{uuid},")


class TestEightCards:
    CLUSTER = f"""
nodes:
  - name: n1
    allocatable: {{cpu: 96, memory: 1Ti, {GPU}: 80}}
    gpus: [{{model: Tesla-T4, count: 8, memory: {T4_MIB}MiB}}]
"""

    async def test_a_burst_of_halves_fills_a_node_and_no_more(
        self, empty_stage: Stage, plane: ControlPlane | None, document: Json
    ) -> None:
        stage = empty_stage
        async with both(stage, plane, document):
            for number in range(HALVES + 2):
                await create(stage, f"half-{number}", HALF)
            pods = await stage.expect_all(lambda found: len(bound(found)) == HALVES)
            expect_full(pods)
            waiting = {pod["metadata"]["name"] for pod in pods} - {*bound(pods)}
            for name in waiting:
                await expect_refused(stage, name, "1 Insufficient GPU memory, Insufficient GPU")
            await stage.expect_deleted(min(bound(pods)))
            expect_full(await stage.expect_all(lambda found: len(bound(found)) == HALVES))


def expect_full(pods: list[Json]) -> None:
    """Each card has two halves, by the annotations that HAMi's tools read."""
    devices = [one for each in devices_of(pods).values() for one in each]
    assert {(mib, cores) for _, mib, cores in devices} == {(T4_MIB // 2, 50)}
    assert sorted(Counter(uuid for uuid, *_ in devices).values()) == [2] * (HALVES // 2)
