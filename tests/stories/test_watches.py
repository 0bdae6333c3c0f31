"""Watches break and history is forgotten: nothing is lost, nothing is counted twice."""

import pytest

from tests.stories.conftest import NODES, Stage, card, gpu

HALVES, CARDS = 60, 32
CLUSTER = """
nodes:
  - {name: "n{n}", count: 4, gpus: [{model: V100, count: 8, memory: 32GiB}]}
"""


@pytest.mark.slow
async def test_watches_cut_during_a_burst_of_halves(stage: Stage) -> None:
    for number in range(HALVES):
        await stage.create(f"half-{number}", gpu("0.5"))
        if number in (15, 45):
            stage.cluster.server.cut_watches()
    await stage.expect_bound(HALVES)
    for number in range(4):
        await stage.create(f"last-{number}", gpu("0.5"))
    await stage.expect_bound(2 * CARDS)
    await stage.create("over", gpu("0.001"))
    assert await stage.expect_reasons("over") == "0/4 nodes are available: 4 Insufficient GPU."


@pytest.mark.slow
async def test_pods_deleted_while_nobody_watched_are_missed_from_the_next_list(
    stage: Stage,
) -> None:
    for number in range(4):
        await stage.create(f"eight-{number}", gpu("8", "8"))
    await stage.expect_bound(4)
    await stage.create("next", gpu("8", "8"))
    await stage.expect_waiting("next")
    server = stage.cluster.server
    server.cut_watches()
    await stage.client.delete("/api/v1/namespaces/default/pods/eight-2", grace_period_s=0)
    server.compact()
    await stage.expect_running("next")
    asked = [one.query for one in stage.requests if one.path == "/api/v1/pods"]
    assert sum("sendInitialEvents" in query for query in asked) >= 2


@pytest.mark.slow
async def test_nodes_that_left_and_changed_while_nobody_watched(stage: Stage) -> None:
    server = stage.cluster.server
    await stage.patch_node("n2", {"metadata": {"labels": {"pool": "a"}}})
    await stage.create("first", gpu("0.5"), nodeSelector={"pool": "a"})
    await stage.expect_running("first")
    server.cut_watches()
    await stage.client.delete(f"{NODES}/n1")
    await stage.patch_node("n3", {"metadata": {"labels": {"pool": "b"}}})
    server.compact()
    await stage.create("a", gpu("0.5"), nodeSelector={"pool": "b"})
    assert (await stage.place("a"))[0] == "n3"
    await stage.create("b", gpu("9", "9"))
    assert (await stage.expect_waiting("b")).startswith(
        "impossible: no node has 9 GPUs: the largest has 8 (node n2). 0/3 "
    )


@pytest.mark.slow
async def test_binds_answered_while_the_watch_is_broken_are_not_decided_again(
    stage: Stage,
) -> None:
    before = len(stage.bindings())
    for number in range(20):
        await stage.create(f"half-{number}", gpu("0.5"))
    await stage.expect_sent(lambda: len(stage.bindings()) >= before + 5)
    stage.cluster.server.cut_watches()
    stage.cluster.server.compact()
    await stage.expect_bound(20)
    sent = [one["metadata"]["uid"] for one in stage.bindings()]
    assert len(sent) == len(set(sent))
    cards = {card(pod) for pod in await stage.all_pods()}
    assert len(cards) == 10
