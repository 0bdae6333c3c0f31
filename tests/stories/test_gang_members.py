"""What happens to single members of a gang: gated, urgent, done, above the minimum."""

import pytest

from tests.stories.conftest import JOBS, PODS, Stage, bound, gpu
from tests.stories.gang_pods import gang, job

PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
NEVER = {"preemptionPolicy": "Never"}
CLUSTER = 'nodes: [{name: "n{n}", count: 2, gpus: [{model: A100, count: 2, memory: 40GiB}]}]'


@pytest.mark.slow
async def test_a_gated_member_is_waited_for(stage: Stage) -> None:
    gates = [{"name": "example.com/quota"}]
    await stage.create("m0", gang("g", 2))
    await stage.create("m1", gang("g", 2), schedulingGates=gates)
    await stage.expect_waiting("m0", "there are 2, 1 of them held back")
    await stage.client.merge_patch(f"{PODS}/m1", {"spec": {"schedulingGates": []}})
    await stage.expect_bound(2)


@pytest.mark.slow
async def test_a_gang_of_several_priorities_goes_where_its_last_member_would(stage: Stage) -> None:
    for name, value in (("low", 1), ("middle", 5), ("high", 9)):
        # Nobody of them shall have the fillers evicted.
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"} | NEVER
        await stage.client.create(PRIORITIES, {**kind, "metadata": {"name": name}, "value": value})
    await stage.cluster.apply(job("filler", 4, gpu("1.0")))
    await stage.expect_all(lambda pods: len(bound(pods)) == 4)
    await stage.create("g0", gang("g", 2, request="2.0"), priorityClassName="high")
    await stage.create("g1", gang("g", 2, request="2.0"), priorityClassName="low")
    await stage.create("single", gpu("2.0", "2.0"), priorityClassName="middle")
    for name in ("g0", "g1", "single"):
        await stage.expect_waiting(name)
    background = {"propagationPolicy": "Background"}
    await stage.client.request("DELETE", f"{JOBS}/filler", query=background)
    await stage.expect_running("single")
    # There is room for one of them, then or soon. None starts alone.
    assert not {"g0", "g1"} & {*bound(await stage.all_pods())}
    await stage.expect_deleted("single")
    await stage.expect_all(lambda pods: set(bound(pods)) == {"g0", "g1"})


@pytest.mark.slow
async def test_members_that_are_done_are_not_waited_for(stage: Stage) -> None:
    plan = {"kubeshare.sim/run-seconds": "0.2"}
    first = job("train", 6, gang("train", 4), parallelism=4)
    first["spec"]["template"]["metadata"]["annotations"] = plan
    # The last two come when others of the four are over already.
    await stage.cluster.apply(first)
    done = await stage.expect_in(
        JOBS, "train", lambda found: found.get("status", {}).get("succeeded") == 6
    )
    assert not done["status"].get("failed")


@pytest.mark.slow
async def test_of_two_gangs_that_race_for_the_same_cards_one_starts_whole(stage: Stage) -> None:
    await stage.cluster.apply(job("a", 3, gang("a", 3)))
    await stage.cluster.apply(job("b", 3, gang("b", 3)))
    pods = await stage.expect_all(lambda pods: len(pods) == 6 and len(bound(pods)) == 3)
    assert len({name[0] for name in bound(pods)}) == 1
    [winner] = {name[0] for name in bound(pods)}
    background = {"propagationPolicy": "Background"}
    await stage.client.request("DELETE", f"{JOBS}/{winner}", query=background)
    await stage.expect_all(lambda pods: len(pods) == len(bound(pods)) == 3)
