"""HAMi's own device plugin goes on running under this scheduler."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from tests.controlplane.running import ControlPlane
from tests.controlplane.token_limits import limits_with
from tests.stories.conftest import Json, Stage, annotations, card, gpu
from tests.stories.hami_plugin import (
    CLUSTER,
    HANDSHAKE,
    REGISTER,
    SEED_HANDSHAKE,
    SETTINGS,
    allow_node_patches,
    annotate,
    cards,
    offer,
    register,
    register_as_seed,
)
from tests.stories.stand_in_plugin import StandInPlugin, devices_of

DIALECTS = Dialects({"kubeshare-scheduler": (SHAREDGPU, Hami())})
IN_HAMI: Json = {
    **SETTINGS,
    "profiles": [{"dialects": [{"name": "sharedgpu"}, {"name": "hami"}]}],
}
LOCK, PHASE = "hami.io/mutex.lock", "hami.io/bind-phase"
HERE: dict[str, object] = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}


@pytest.fixture(scope="module", autouse=True)
def limits(plane: ControlPlane | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The scheduler's account may write HAMi's annotations."""
    with limits_with(Hami(), plane, tmp_path_factory.mktemp("limits")):
        yield


@pytest.fixture
def nodes() -> str:
    return CLUSTER


@pytest.fixture
async def registered(empty_stage: Stage) -> Stage:
    """Both nodes have two cards that the plugin registered."""
    await allow_node_patches(empty_stage.client)
    for node in ("n1", "n2"):
        await register(empty_stage, node, cards(empty_stage, node))
    return empty_stage


@asynccontextmanager
async def plugin_of(stage: Stage) -> AsyncIterator[StandInPlugin]:
    """HAMi's plugin runs on all nodes."""
    plugin = StandInPlugin(stage.client, answers_in_s=0.01)
    running = asyncio.create_task(plugin.run())
    try:
        yield plugin
    finally:
        running.cancel()


async def a_hami_pod(stage: Stage, name: str, node: str = "", *, containers: int = 1) -> None:
    """A pod as HAMi's users write it, of a node or of any; a container asks for half a card."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "20480"}
    found = [
        {"name": f"c{number}", "image": "busybox", "resources": {"limits": limits}}
        for number in range(containers)
    ]
    where = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    await stage.create(name, {}, containers=found, **where)


async def expect_allocated(stage: Stage, *names: str) -> None:
    """The plugin has given these pods their devices."""

    def done(pods: list[Json]) -> bool:
        phases = {one["metadata"]["name"]: annotations(one) for one in pods}
        return all(phases.get(name, {}).get(PHASE) == "success" for name in names)

    await stage.expect_all(done)


async def expect_unlocked(stage: Stage, node: str) -> None:
    """The plugin, or the scheduler, has freed the node's lock."""

    def is_free(found: list[Json]) -> bool:
        [one] = [one for one in found if one["metadata"]["name"] == node]
        return LOCK not in one["metadata"].get("annotations", {})

    await stage.expect_all(is_free, "/api/v1/nodes")


async def node_annotations(stage: Stage, node: str) -> dict[str, str]:
    found: Json = await stage.client.get(f"/api/v1/nodes/{node}")
    texts: dict[str, str] = found["metadata"].get("annotations", {})
    return texts


async def test_registered_cards_are_the_inventory(registered: Stage) -> None:
    """HAMi's plugin of today registers them as JSON."""
    async with registered.scheduler(SETTINGS):
        await registered.create("p", gpu("0.5"), **HERE)
        node, uuid = await registered.place("p")
        assert (node, uuid in {one.uuid for one in cards(registered, "n1")}) == ("n1", True)


async def test_the_ancestors_annotations_are_the_inventory(empty_stage: Stage) -> None:
    """They are records of seven fields."""
    stage = empty_stage
    await allow_node_patches(stage.client)
    await register_as_seed(stage, "n1", cards(stage, "n1"), "now")
    async with stage.scheduler(SETTINGS):
        await stage.create("p", gpu("1", "1", gpu_mem=str(40960 * 2**20)))
        assert (await stage.place("p"))[0] == "n1"
        await stage.create("q", gpu("0.1", gpu_mem=str(40961 * 2**20)))
        await stage.expect_waiting("q")


async def test_a_card_that_turns_unhealthy_takes_no_pods(registered: Stage) -> None:
    """A changed register annotation counts with the next pass."""
    stage = registered
    first, second = cards(stage, "n1")
    ill = msgspec.structs.replace(first, health=False)
    async with stage.scheduler(SETTINGS):
        await stage.warm_up()
        await register(stage, "n1", [ill, second])
        await stage.create("p", gpu("0.5"), **HERE)
        _, uuid = await stage.place("p")
        assert uuid == second.uuid
        await register(stage, "n1", [ill, msgspec.structs.replace(second, health=False)])
        await stage.create("q", gpu("0.1"), **HERE)
        await stage.expect_waiting("q")
        await register(stage, "n1", [first, second])
        await stage.expect_running("q")


async def test_without_its_annotation_a_node_has_no_cards_and_its_pods_stay(
    registered: Stage,
) -> None:
    """The cards are removed with the annotation."""
    stage = registered
    async with stage.scheduler(SETTINGS):
        await stage.create("p", gpu("0.7"), **HERE)
        node, uuid = await stage.place("p")
        await register(stage, "n1", None)
        await stage.create("q", gpu("0.1"), **HERE)
        await stage.expect_waiting("q", "no GPU")
        # The charge is remembered: the card has no more room than before.
        await register(stage, "n1", [one for one in cards(stage, "n1") if one.uuid == uuid])
        await stage.expect_running("q")
        await stage.create("r", gpu("0.3"), **HERE)
        await stage.expect_waiting("r")
        assert (await stage.place("q"), node) == (("n1", uuid), "n1")


async def test_a_malformed_annotation_is_an_error_of_its_node_alone(
    registered: Stage,
) -> None:
    stage = registered
    await register(stage, "n1", "garbage")
    async with stage.scheduler(SETTINGS):
        await stage.create("p", gpu("0.5"))
        assert (await stage.place("p"))[0] == "n2"
        await stage.create("q", gpu("0.5"), **HERE)
        await stage.expect_waiting("q", "no GPU")
        await register(stage, "n1", cards(stage, "n1"))
        await stage.expect_running("q")


async def test_a_dead_plugins_cards_take_no_pods_until_it_lives_again(registered: Stage) -> None:
    """The node has 0 devices to allocate where it had more."""
    stage = registered
    async with stage.scheduler(SETTINGS):
        await stage.warm_up()
        await offer(stage, "n1", 0)
        await stage.create("p", gpu("0.5"), **HERE)
        await stage.expect_waiting("p", "unhealthy GPU")
        # Whoever asks the plugin for a sign of life again: that is none.
        await annotate(stage, "n1", **{HANDSHAKE: None})
        await stage.create("q", gpu("0.5"))
        assert (await stage.place("q"))[0] == "n2"
        await stage.expect_waiting("p", "unhealthy GPU")
        await offer(stage, "n1", 20)
        await stage.expect_running("p")


async def test_a_silent_plugin_is_asked_for_a_sign_of_life(registered: Stage) -> None:
    """`Requesting_` and the time, as HAMi's scheduler writes it, and in UTC."""
    stage = registered
    await register_as_seed(stage, "n2", cards(stage, "n2"), "2020-01-01 00:00:00 +0000 UTC")
    await annotate(stage, "n2", **{REGISTER: None})
    async with stage.scheduler(SETTINGS):

        def asked() -> bool:
            patches = stage.sent("PATCH", "/n1") + stage.sent("PATCH", "/n2")
            return len({one.path for one in patches if one.user.name == SCHEDULER}) == 2

        await stage.expect_sent(asked)
    for node, key in (("n1", HANDSHAKE), ("n2", SEED_HANDSHAKE)):
        assert (await node_annotations(stage, node))[key].startswith("Requesting_20")


async def test_a_cordoned_card_takes_no_pods_and_keeps_its_own(registered: Stage) -> None:
    """Its pod runs on; without the annotation the card takes pods at once."""
    stage = registered
    async with stage.scheduler(SETTINGS):
        await stage.create("p", gpu("0.5"), **HERE)
        _, uuid = await stage.place("p")
        await annotate(stage, "n1", **{"hami.io/device-cordon": f" {uuid} ,"})
        await stage.create("q", gpu("0.5"), **HERE)
        _, other = await stage.place("q")
        assert other != uuid
        assert (await stage.pod("p"))["status"]["phase"] == "Running"
        await annotate(stage, "n1", **{"hami.io/device-cordon": None})
        await stage.create("r", gpu("0.5"), **HERE)
        await stage.expect_running("r")


@pytest.mark.slow
async def test_hamis_own_plugin_gives_a_burst_of_pods_their_devices_one_by_one(
    registered: Stage,
) -> None:
    """The plugin finds for each call the pod for which the kubelet asks."""
    stage = registered
    names = [f"p{number}" for number in range(6)]
    async with stage.scheduler(IN_HAMI, dialects=DIALECTS), plugin_of(stage) as plugin:
        for name in names:
            await a_hami_pod(stage, name)
        await expect_allocated(stage, *names)
        assert plugin.wrong == []
        for name in names:
            pod = await stage.pod(name)
            assert devices_of(plugin.given[f"default/{name}"]) == [card(pod)]
            assert annotations(pod)["hami.io/vgpu-node"] == pod["spec"]["nodeName"]
        for node in ("n1", "n2"):
            await expect_unlocked(stage, node)


async def test_a_pod_of_several_containers_keeps_the_lock_until_the_last_has_its_devices(
    registered: Stage,
) -> None:
    stage = registered
    async with stage.scheduler(IN_HAMI, dialects=DIALECTS), plugin_of(stage) as plugin:
        await a_hami_pod(stage, "two", "n1", containers=2)
        await a_hami_pod(stage, "one", "n1")
        await expect_allocated(stage, "two", "one")
        assert plugin.wrong == []
        assert len(plugin.given["default/two"]) == 2


async def test_a_plugin_that_does_not_answer_blocks_one_pod_and_its_node_alone(
    registered: Stage,
) -> None:
    stage = registered
    async with stage.scheduler(IN_HAMI, dialects=DIALECTS), plugin_of(stage) as plugin:
        answers = plugin.mute["n1"] = asyncio.Event()
        await a_hami_pod(stage, "lost", "n1")
        await stage.expect_eventually("lost", lambda pod: bool(pod["spec"].get("nodeName")))
        await a_hami_pod(stage, "behind", "n1")
        await a_hami_pod(stage, "elsewhere", "n2")
        await expect_allocated(stage, "elsewhere")
        await stage.delete("lost")
        answers.set()
        await expect_allocated(stage, "behind")


async def test_locks_that_no_plugin_frees_are_freed(registered: Stage) -> None:
    """One is malformed, and one is of a pod that is gone."""
    stage = registered
    await annotate(stage, "n1", **{LOCK: "garbage"})
    await annotate(stage, "n2", **{LOCK: "2020-01-01T00:00:00Z,default,gone"})
    async with stage.scheduler(IN_HAMI, dialects=DIALECTS), plugin_of(stage) as plugin:
        await a_hami_pod(stage, "a", "n1")
        await a_hami_pod(stage, "b", "n2")
        await expect_allocated(stage, "a", "b")
        assert plugin.wrong == []


async def test_without_the_setting_nothing_is_locked(registered: Stage) -> None:
    stage = registered
    unlocked = {"inventory": {**IN_HAMI["inventory"], "nodeLock": False}}
    async with stage.scheduler({**IN_HAMI, **unlocked}, dialects=DIALECTS):
        await a_hami_pod(stage, "p", "n1")
        await stage.expect_running("p")
        assert LOCK not in await node_annotations(stage, "n1")
