"""Which cards there are is Prometheus's word: late, gone, silent, back."""

import json
from pathlib import Path

import pytest

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.values import replace
from kubeshare_py.inventory.node_annotations import ANNOTATION, write_cards
from kubeshare_py.manifests.state_group import ROOT
from tests.edges.collector_place import Place, serving
from tests.stories.conftest import Stage, card, gpu
from tests.stories.scheduler_port import port_of
from tests.stories.scraping import scrape_of, start_collector
from tests.stories.test_prometheus import expect_nothing_placed

N1, N2 = NodeName("n1"), NodeName("n2")
CLUSTER = """
nodes:
  - {name: "n{n}", count: 2, gpus: [{model: T4, count: 2, memory: 16GiB}]}
  - {name: plain}
"""


@pytest.mark.slow
async def test_until_the_inventory_is_read_only_pods_without_gpus_are_placed(
    empty_stage: Stage,
) -> None:
    stage = empty_stage
    stage.cluster.collectors.prometheus_answers = False
    async with stage.scheduler():
        await stage.create("share", gpu("0.5"))
        await stage.create("web")
        assert await stage.expect_waiting("share") == "GPU inventory not read yet"
        await stage.expect_running("web")
        stage.cluster.collectors.prometheus_answers = True
        await stage.expect_running("share")


@pytest.mark.slow
async def test_a_restarted_scheduler_keeps_off_used_cards_before_it_knows_their_size(
    empty_stage: Stage,
) -> None:
    stage = empty_stage
    async with stage.scheduler():
        for number in range(4):
            await stage.create(f"most-{number}", gpu("0.8"))
        await stage.expect_bound(4)
    stage.cluster.collectors.prometheus_answers = False
    async with stage.scheduler():
        await stage.create("more", gpu("0.5"))
        await stage.expect_waiting("more", "GPU inventory not read yet")
        stage.cluster.collectors.prometheus_answers = True
        reason = "0/3 nodes are available: 1 no GPU, 2 Insufficient GPU."
        assert await stage.expect_reasons("more", "nodes are available") == reason


@pytest.mark.slow
async def test_a_card_that_is_gone_takes_nobody_and_its_pod_stays(stage: Stage) -> None:
    here = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}
    await stage.create("first", gpu("0.3"), **here)
    _, uuid = await stage.place("first")
    index = [gpu.uuid for gpu in stage.nodes[0].cards].index(GpuUuid(uuid))
    stage.cluster.collectors.targets.remove_card(N1, index)
    await stage.inventory_asked()
    await stage.create("both", gpu("2", "2"), **here)
    await stage.expect_waiting("both", "too few GPUs")
    await stage.create("second", gpu("0.3"), **here)
    _, other = await stage.place("second")
    assert other != uuid
    assert (await stage.pod("first"))["status"]["phase"] == "Running"
    stage.cluster.collectors.targets.restore_card(N1, index)
    await stage.create("third", gpu("0.7"), **here)
    await stage.expect_running("third")


async def test_the_configuration_scales_cards_by_node_and_model(empty_stage: Stage) -> None:
    stage = empty_stage
    rule = {"nodes": ["n1"], "models": ["T4"], "coresScaling": 0.5}
    document = {"inventory": {"intervalSeconds": 0.1, "scaling": [rule]}}
    async with stage.scheduler({"leaderElection": {"leaderElect": False}, **document}):
        for name in ("first", "second"):
            await stage.create(name, gpu("0.6"))
            assert (await stage.place(name))[0] == "n2"
        await stage.create("third", gpu("0.6"))
        await stage.expect_waiting("third", "Insufficient GPU")
        await stage.create("small", gpu("0.5"))
        assert (await stage.place("small"))[0] == "n1"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["take_down", "stop_scraping"])
async def test_a_collector_that_is_silent_is_no_news(stage: Stage, how: str) -> None:
    here = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}
    getattr(stage.cluster.collectors.targets, how)(N1)
    await stage.inventory_asked()
    await stage.create("pair", gpu("2", "2"), **here)
    await stage.expect_running("pair")
    stage.cluster.collectors.targets.bring_up(N1)
    await stage.inventory_asked()
    await stage.create("more", gpu("0.1"), **here)
    await stage.expect_waiting("more", "Insufficient GPU")


async def test_prometheus_goes_away_and_comes_back(stage: Stage) -> None:
    stage.cluster.collectors.prometheus_answers = False
    await stage.inventory_asked()
    await stage.create("pair", gpu("2", "2"))
    await stage.expect_running("pair")
    stage.cluster.collectors.targets.remove_card(N1, 0)
    stage.cluster.collectors.targets.remove_card(N2, 0)
    stage.cluster.collectors.prometheus_answers = True
    await stage.inventory_asked()
    await stage.create("again", gpu("2", "2"))
    await stage.expect_waiting("again", "too few GPUs")


async def test_cards_that_come_later_are_used(empty_stage: Stage) -> None:
    stage = empty_stage
    targets = stage.cluster.collectors.targets
    for node in (N1, N2):
        targets.remove_card(node, 0)
        targets.remove_card(node, 1)
    async with stage.scheduler():
        await stage.create("a", gpu("0.5"))
        known = "no GPU of any node is known. 0/3 nodes are available: 3 no GPU."
        assert await stage.expect_reasons("a", "no GPU") == known
        uuid = targets.restore_card(N2, 1)
        assert await stage.place("a") == ("n2", uuid)


@pytest.mark.slow
async def test_a_card_replaced_by_another_one(stage: Stage) -> None:
    here = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}
    targets = stage.cluster.collectors.targets
    targets.remove_card(N1, 1)
    await stage.inventory_asked()
    await stage.create("a", gpu("1"), **here)
    _, old = await stage.place("a")
    targets.remove_card(N1, 0)
    new = targets.restore_card(N1, 1)
    await stage.inventory_asked()
    await stage.create("b", gpu("1"), **here)
    assert card(await stage.expect_running("b")) == new != old
    await stage.create("c", gpu("0.1"), **here)
    await stage.expect_waiting("c", "Insufficient GPU")
    await stage.expect_deleted("a")
    await stage.expect_waiting("c", "Insufficient GPU")


async def test_an_unhealthy_card_takes_nobody_until_it_is_well(
    empty_stage: Stage, tmp_path: Path
) -> None:
    stage, file = empty_stage, tmp_path / "cards.yaml"
    cards = "nodes: [{{names: [n1], cards: [{{model: T4, memory: 16GiB, healthy: {}}}]}}]"
    file.write_text(cards.format("false"))
    source = {"source": "file", "path": str(file), "intervalSeconds": 0.1}
    async with stage.scheduler({"inventory": source}):
        await stage.create("a", gpu("0.5"))
        assert "1 unhealthy GPU" in await stage.expect_waiting("a", "nodes are available")
        file.write_text(cards.format("true"))
        await stage.expect_eventually("a", lambda pod: pod["spec"].get("nodeName") == "n1")


@pytest.mark.slow
async def test_a_card_that_falls_ill_keeps_its_pod_and_takes_no_other(stage: Stage) -> None:
    here = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}
    targets = stage.cluster.collectors.targets
    await stage.create("first", gpu("0.3"), **here)
    _, uuid = await stage.place("first")
    index = [one.uuid for one in stage.nodes[0].cards].index(GpuUuid(uuid))
    targets.break_card(N1, index)
    await stage.inventory_asked()
    told = await stage.expect_event("n1", "GPUUnhealthy")
    assert told["note"].endswith("no more pods are placed on it. It is held by default/first")
    assert uuid in (await stage.expect_event("first", "GPUUnhealthy"))["note"]
    await stage.create("second", gpu("0.3"), **here)
    _, other = await stage.place("second")
    assert other != uuid
    targets.break_card(N1, 1 - index)
    await stage.inventory_asked()
    await stage.create("third", gpu("0.8"), **here)
    assert "1 unhealthy GPU" in await stage.expect_waiting("third", "unhealthy")
    port = await port_of(stage)
    cluster = json.loads((await port.fetch(f"{ROOT}/gpus"))[1])
    shown = {card["uuid"]: card for node in cluster["nodes"] for card in node["cards"]}
    for held in (uuid, other):
        assert (shown[held]["healthy"], shown[held]["used_milli"]) == (False, 300)
    assert "unhealthy GPU" in (await port.fetch(f"{ROOT}/namespaces/default/pods/third"))[1]
    assert (await stage.pod("first"))["status"]["phase"] == "Running"
    targets.mend_card(N1, index)
    assert uuid in (await stage.expect_event("first", "GPUHealthy"))["note"]
    # What the first pod holds was charged all the time: there is room for 0.7 and no more.
    await stage.create("fourth", gpu("0.7"), **here)
    assert await stage.place("fourth") == ("n1", uuid)
    assert "Insufficient GPU" in (await port.fetch(f"{ROOT}/namespaces/default/pods/third"))[1]


async def test_a_new_node_has_its_cards_of_the_file_at_once(
    empty_stage: Stage, tmp_path: Path
) -> None:
    stage, file = empty_stage, tmp_path / "cards.yaml"
    only = stage.nodes[1].cards[0]
    cards = f"[{{model: T4, memory: 16GiB, uuid: {only.uuid}}}]"
    file.write_text(f"nodes: [{{names: [n2], cards: {cards}}}]")
    source = {"source": "file", "path": str(file), "intervalSeconds": 3600}
    node = await stage.client.get("/api/v1/nodes/n2")
    await stage.client.delete("/api/v1/nodes/n2")
    async with stage.scheduler({"inventory": source, "leaderElection": {"leaderElect": False}}):
        await stage.create("share", gpu("0.5"))
        await stage.expect_waiting("share", "2 no GPU")
        metadata = {"name": "n2", "labels": node["metadata"]["labels"]}
        await stage.client.create("/api/v1/nodes", {**node, "metadata": metadata})
        assert card(await stage.expect_running("share")) == only.uuid


@pytest.mark.slow
async def test_collectors_that_are_asked_themselves_need_no_prometheus(empty_stage: Stage) -> None:
    stage, hosts = empty_stage, {"127.0.0.2": N1, "127.0.0.3": N2}
    stage.cluster.collectors.prometheus_answers = False
    place = Place(stage.nodes, hosts)
    async with serving(place), stage.scheduler(scrape_of(place)):
        await stage.create("share", gpu("0.5"))
        assert await stage.expect_waiting("share") == "GPU inventory not read yet"
        await start_collector(stage, N1, "127.0.0.2")
        node, uuid = await stage.place("share")
        assert (node, uuid in {one.uuid for one in stage.nodes[0].cards}) == ("n1", True)
        here = {"nodeSelector": {"kubernetes.io/hostname": "n2"}}
        await stage.create("there", gpu("2", "2"), **here)
        assert "too few GPUs" in await stage.expect_waiting("there")
        await start_collector(stage, N2, "127.0.0.3")
        await stage.expect_running("there")
        place.hung.add(N2)
        place.collectors.remove_card(N1, 0)
        place.collectors.remove_card(N1, 1)
        # That n2 hangs is no news, and keeps nobody from hearing of n1.
        await expect_nothing_placed(stage, {"nodeSelector": {"kubernetes.io/hostname": "n1"}})
        await stage.expect_deleted("there")
        await stage.create("there-again", gpu("2", "2"), **here)
        await stage.expect_running("there-again")


async def test_the_cards_that_nodes_tell_of_themselves(empty_stage: Stage) -> None:
    stage = empty_stage
    a, b = stage.nodes[1].cards[0], stage.nodes[0].cards[0]

    async def tell(node: str, *cards: Gpu) -> None:
        annotations = {ANNOTATION: write_cards(cards)}
        await stage.client.merge_patch(
            f"/api/v1/nodes/{node}", {"metadata": {"annotations": annotations}}
        )

    await tell("n2", a)
    annotated = {"source": "annotation", "intervalSeconds": 0.1}
    async with stage.scheduler({"inventory": annotated}):
        await stage.create("first", gpu("0.7"))
        assert await stage.place("first") == ("n2", a.uuid)
        await stage.create("second", gpu("0.7"))
        reason = "0/3 nodes are available: 1 Insufficient GPU, 2 no GPU."
        assert await stage.expect_reasons("second", "nodes are available") == reason
        await tell("n1", b)
        assert await stage.place("second") == ("n1", b.uuid)
        # A card that is ill, or of which nobody tells any more, takes no others.
        await tell("n1", replace(b, healthy=False))
        await tell("n2")
        await stage.create("third", gpu("0.1"))
        assert "1 unhealthy GPU" in await stage.expect_waiting("third", "2 no GPU")
        await tell("n1", b)
        assert await stage.place("third") == ("n1", b.uuid)


@pytest.mark.slow
async def test_a_node_that_lists_cards_of_another_takes_none_that_pods_hold(
    empty_stage: Stage,
) -> None:
    stage = empty_stage
    mine, free = stage.nodes[0].cards

    async def tell(node: str, *cards: Gpu) -> None:
        annotations = {ANNOTATION: write_cards(cards)}
        await stage.client.merge_patch(
            f"/api/v1/nodes/{node}", {"metadata": {"annotations": annotations}}
        )

    await tell("n1", mine, free)
    annotated = {"inventory": {"source": "annotation", "intervalSeconds": 0.1}}
    async with stage.scheduler(annotated):
        await stage.create("held", gpu("0.7"))
        _, held = await stage.place("held")
    await tell("n2", mine, free)
    # A new start, which knows nothing of what came first.
    async with stage.scheduler(annotated):
        for node in ("n1", "n2"):
            event = await stage.expect_event(node, "GPUClaimedTwice")
            assert f"{held} (by {'n2' if node == 'n1' else 'n1'}, counts " in event["note"]
        await stage.create("fits", gpu("0.3"))
        assert await stage.place("fits") == ("n1", held)
        await stage.create("more", gpu("0.3"))
        await stage.expect_waiting("more", "unhealthy GPU")
        await tell("n2")
        other = next(one.uuid for one in (mine, free) if one.uuid != held)
        assert await stage.place("more") == ("n1", other)
        for node in ("n1", "n2"):
            await stage.expect_event(node, "GPUClaimSettled")
