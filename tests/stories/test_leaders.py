"""Two schedulers: one leads, the other follows and takes over when it must."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from kubeshare_py.domain.identity import PodUid
from kubeshare_py.edges.scheduler.leader_lease import LeadershipLost
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from kubeshare_py.scheduling.machine import Machine
from tests.module_forks import Fork
from tests.patience import PATIENCE_S
from tests.stories.conftest import Json, Stage, annotations, gpu
from tests.stories.own_process import scheduler_process

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kubeshare-scheduler"
SHORT = {"leaseDuration": "1500ms", "renewDeadline": "1s", "retryPeriod": "50ms"}
SETTINGS = {"inventory": {"intervalSeconds": 0.1}, "leaderElection": SHORT}
HAND_OVER_S = 0.3


@asynccontextmanager
async def candidate(stage: Stage, hand_over_s: float = HAND_OVER_S) -> AsyncIterator[Machine]:
    """A scheduler that takes part in the election."""
    document = {**SETTINGS, "leaderElection": {**SHORT, "leaderElect": True}}
    async with stage.scheduler(document, hand_over_s) as machine:
        yield machine


def process(stage: Stage, folder: Path) -> AbstractAsyncContextManager[Fork]:
    """The same as a process of its own."""
    return scheduler_process(stage, folder, **SETTINGS)


async def lease(stage: Stage) -> Json:
    """What the Lease says."""
    found: Json = (await stage.client.get(LEASE))["spec"]
    return found


async def until_led(stage: Stage, machine: Machine) -> None:
    """Wait until this scheduler has written the Lease."""
    wanted = f'"holderIdentity":"{machine.name}"'.encode()
    await stage.expect_sent(lambda: any(wanted in request.body for request in stage.requests))


async def charged(machine: Machine, uid: str) -> None:
    """Wait until this scheduler counts the pod's cards as taken."""
    while True:
        if machine.ledger.charge_of(PodUid(uid)) is not None:
            return
        await asyncio.sleep(0)


def senders(stage: Stage) -> list[str]:
    """Who sent Bindings, in order, each once for a row of them."""
    holders: list[str] = []
    for body in stage.bindings():
        holder = body["metadata"]["annotations"]["sharedgpu/fence"].partition("/")[0]
        if holders[-1:] != [holder]:
            holders.append(holder)
    return holders


@pytest.mark.slow
async def test_one_leads_and_says_so_on_every_binding(empty_stage: Stage) -> None:
    stage = empty_stage
    async with candidate(stage) as first:
        await until_led(stage, first)
        async with candidate(stage):
            for number in range(6):
                await stage.create(f"pod-{number}", gpu("0.3"))
            pods = [await stage.expect_running(f"pod-{number}") for number in range(6)]
            found = await lease(stage)
            term = f"{first.name}/{found['leaseTransitions']}"
            assert found["holderIdentity"] == first.name
            assert {annotations(pod)["sharedgpu/fence"] for pod in pods} == {term}


@pytest.mark.slow
async def test_who_stands_by_follows_and_writes_nothing(empty_stage: Stage) -> None:
    stage = empty_stage
    async with candidate(stage) as first:
        await until_led(stage, first)
        async with candidate(stage) as second:
            await stage.create("good", gpu("0.3"))
            await stage.create("bad", gpu("nonsense"))
            await stage.expect_running("good")
            await stage.expect_waiting("bad", "nonsense")
            uid = (await stage.pod("good"))["metadata"]["uid"]
            async with asyncio.timeout(PATIENCE_S):
                await charged(second, uid)
        told = stage.sent("PATCH", "/bad/status")
        assert len(told) == 1
    assert senders(stage) == [first.name]


@pytest.mark.slow
async def test_after_an_orderly_end_the_next_binds_at_once(empty_stage: Stage) -> None:
    stage = empty_stage
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(candidate(stage))
        await until_led(stage, first)
        await stage.create("old", gpu("0.7"))
        await stage.expect_running("old")
        before = (await lease(stage))["leaseTransitions"]
        # With an unreleased Lease it would wait so long that the story fails.
        async with candidate(stage, hand_over_s=3600) as second:
            await stack.aclose()
            await stage.create("new", gpu("0.7"))
            await stage.expect_running("new")
            assert senders(stage) == [first.name, second.name]
            assert (await lease(stage))["leaseTransitions"] == before + 1


@pytest.mark.slow
async def test_what_nobody_was_told_while_there_was_no_leader_is_told_then(
    empty_stage: Stage,
) -> None:
    stage = empty_stage
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(candidate(stage))
        await until_led(stage, first)
        async with candidate(stage):
            stage.spoil(method="PATCH", path="/bad/status$", status=404, times=100)
            await stage.create("bad", gpu("nonsense"))
            await stage.expect_sent(lambda: bool(stage.sent("PATCH", "/bad/status")))
            stage.faults.clear()
            await stack.aclose()
            await stage.expect_waiting("bad", "nonsense")


@pytest.mark.slow
async def test_a_killed_leader_is_followed_when_its_lease_is_over(
    empty_stage: Stage, tmp_path: Path
) -> None:
    stage = empty_stage
    async with process(stage, tmp_path) as first:
        await stage.create("old", gpu("0.7"))
        await stage.expect_running("old")
        async with candidate(stage) as second:
            await stage.inventory_asked()
            loop = asyncio.get_running_loop()
            first.kill()
            killed_at = loop.time()
            for number in range(4):
                await stage.create(f"new-{number}", gpu("0.7"))
            await stage.expect_bound(4)
            assert loop.time() - killed_at >= 1.0  # of its lease duration since the last renewal
            assert senders(stage)[-1] == second.name


@pytest.mark.slow
async def test_binds_under_way_when_the_leader_is_killed_take_nothing_twice(
    empty_stage: Stage, tmp_path: Path
) -> None:
    stage = empty_stage
    async with process(stage, tmp_path) as first:
        await stage.create("old", gpu("0.1"))
        await stage.expect_running("old")
        async with candidate(stage):
            await stage.inventory_asked()
            stage.spoil_binds(only_slow=True, delay_s=1.0, times=4)
            before = len(stage.bindings())
            for number in range(9):
                await stage.create(f"half-{number}", gpu("0.5"))
            await stage.expect_sent(lambda: len(stage.bindings()) >= before + 4)
            first.kill()
            await stage.expect_bound(1 + 7)


@pytest.mark.slow
async def test_a_paused_leader_sends_nothing_when_it_wakes_up_and_ends_with_1(
    empty_stage: Stage, tmp_path: Path
) -> None:
    stage = empty_stage
    async with process(stage, tmp_path) as first:
        await stage.create("old", gpu("0.1"))
        await stage.expect_running("old")
        async with candidate(stage) as second:
            await stage.inventory_asked()
            first.send_signal(signal.SIGSTOP)
            for number in range(9):
                await stage.create(f"half-{number}", gpu("0.5"))
            await stage.expect_bound(1 + 7)
            requests = len(stage.requests)
            first.send_signal(signal.SIGCONT)
            async with asyncio.timeout(PATIENCE_S):
                assert await first.wait() == 1
            late = [
                one
                for one in stage.requests[requests:]
                if one.method != "GET" and one.user.name == SCHEDULER
            ]
            paused, successor = senders(stage)
            assert successor == second.name
            assert not [one for one in late if one.path.endswith(("/binding", "/status"))]
            assert not [one for one in late if paused.encode() in one.body]


@pytest.mark.slow
async def test_a_leader_that_cannot_renew_ends(empty_stage: Stage) -> None:
    stage = empty_stage

    async def lead_without_renewals() -> None:
        async with candidate(stage):
            # Only who leads binds: the Lease may be written, and the answer lost.
            await stage.create("bound", gpu("0.3"))
            await stage.expect_running("bound")
            stage.spoil(method="PUT", path="/leases/", status=500, times=1000)
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as error:
        await lead_without_renewals()
    assert error.group_contains(LeadershipLost)
    stage.faults.clear()
    assert (await lease(stage))["holderIdentity"]


@pytest.mark.slow
async def test_who_knows_that_its_binds_are_open_hands_the_lease_over_once_they_are_given_up(
    empty_stage: Stage,
) -> None:
    stage = empty_stage
    async with candidate(stage) as first:
        await until_led(stage, first)
        await stage.inventory_asked()
        stage.spoil_binds(status=500, times=100)
        await stage.create("doubtful", gpu("0.7"))
        await stage.expect_sent(lambda: bool(stage.bindings("doubtful")))
    assert not (await lease(stage)).get("holderIdentity")
    stage.faults.clear()
    async with candidate(stage) as second:
        await stage.expect_running("doubtful")
        assert senders(stage) == [first.name, second.name]


@pytest.mark.slow
async def test_hand_overs_in_any_order_over_commit_nothing(empty_stage: Stage) -> None:
    stage = empty_stage
    async with AsyncExitStack() as stack:
        old = await stack.enter_async_context(AsyncExitStack())
        await old.enter_async_context(candidate(stage))
        for number in range(4):
            new = await stack.enter_async_context(AsyncExitStack())
            await new.enter_async_context(candidate(stage))
            for part in range(3):
                await stage.create(f"pod-{number}-{part}", gpu("0.35"))
            await old.aclose()
            old = new
        await stage.expect_bound(8)
