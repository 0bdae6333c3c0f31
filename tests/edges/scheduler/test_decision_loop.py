"""The loop around a machine: what it does at the moment when another process may lead."""

import asyncio
from time import perf_counter

import pytest
from aiohttp import web

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import (
    BindAnswered,
    BindSlotsFree,
    BindUnknown,
    NodeGone,
    PodGone,
    PodSeen,
    TimePassed,
)
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey
from kubeshare_py.domain.pod import Pod
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.scheduler.decision_loop import DecisionLoop
from kubeshare_py.edges.scheduler.leader_lease import LeadershipLost
from kubeshare_py.edges.scheduler.process_health import ProcessHealth
from kubeshare_py.edges.scheduler.writes.kube_api import EVICTIONS_AT_ONCE, HAND_OVER_S, KubeApi
from kubeshare_py.edges.scheduler.writes.report_lane import ReportLane
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from kubeshare_py.manifests.events import BadAllocation
from kubeshare_py.manifests.watch import Problem
from kubeshare_py.scheduling.preemption.nominations import EVICT_AGAIN_S
from tests.edges.bare_server import NoSleep, client_of, plain
from tests.making import a_claim, a_cluster, a_machine, a_pod, a_shape, a_share
from tests.patience import PATIENCE_S


def loop_of(
    group: asyncio.TaskGroup, client: KubeClient | None = None, document: object = None
) -> DecisionLoop:
    """One that leads a cluster with room; without a client nothing can be sent."""
    client, machine = client or KubeClient(plain("http://127.0.0.1")), a_machine(document)
    for event in a_cluster({"n1": 1}):
        machine.handle(event, 0.0)
    api = KubeApi(client, ReportLane(client, instance="test"))
    process_health = ProcessHealth(machine, asyncio.get_running_loop().time)
    loop = DecisionLoop(machine, api, group, asyncio.Event(), process_health)
    loop.lead()
    return loop


def bound(name: str) -> Pod:
    """One that holds a tenth of the card."""
    held = CardCharge(GpuUuid("GPU-n1-0"), 100, 1 << 30, "V100")
    allocation = Allocation(token=DecisionToken(name), dialect="sharedgpu", cards=(held,))
    shape = a_shape(a_claim(100))
    return a_pod(name, shape, node_name=NodeName("n1"), allocation=allocation)


async def test_what_pods_hold_is_counted_from_when_the_process_leads() -> None:
    async with asyncio.TaskGroup() as group:
        loop = loop_of(group)
        now = asyncio.get_running_loop().time()
        await loop.deliver([PodSeen(bound("a")), PodSeen(bound("b"))])
        (held,) = loop.health.held.seconds(now + 1000.0).items()
        assert held[0] == ("default", "V100")
        assert held[1].card_s == pytest.approx(200.0, abs=1.0)
        loop.health.held.begin(now + 1000.0)
        assert loop.health.held.seconds(now + 1000.0)[held[0]].card_s == 0


async def test_events_that_take_long_leave_others_their_turns() -> None:
    events = [PodSeen(bound(f"small{number}")) for number in range(10)]
    turns = 0

    async def other() -> None:
        nonlocal turns
        while not loop.machine.records.get(events[-1].pod.uid):
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as binds:
        loop = loop_of(binds)
        loop.batch_s = 0.0  # as if each event took long
        task = binds.create_task(other())
        await loop.deliver(events)
        await task
    assert turns == len(events) - 1


async def loses_the_lease() -> None:
    """Lead until somebody else does; a pod arrives at that very moment."""

    async def lost() -> None:
        loop.machine.handle(PodSeen(a_pod()), 0.0)
        # Deciding has its turn after the group of binds knows of the loss, and before it does.
        asyncio.get_running_loop().call_soon(loop.wakeup.set)
        raise LeadershipLost("taken over")

    async with asyncio.TaskGroup() as binds:
        loop = loop_of(binds)
        async with asyncio.TaskGroup() as group:
            group.create_task(loop.decide())
            await asyncio.sleep(0)
            binds.create_task(loop.follow_election(lost()))


async def test_what_could_be_decided_at_the_moment_of_a_loss_is_left_to_others() -> None:
    with pytest.raises(ExceptionGroup) as error:
        await loses_the_lease()
    [only] = error.value.exceptions
    assert isinstance(only, LeadershipLost)


async def test_pods_stay_whose_preemptor_is_gone_before_their_eviction_is_sent() -> None:
    sent: list[str] = []
    first, answering = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        if request.method == "PATCH" and request.path.endswith("/status"):
            first.set()
            await answering.wait()
        if request.method == "DELETE":
            sent.append(request.path.rpartition("/")[2])
        return web.json_response({})

    async with (
        client_of(answer) as client,
        asyncio.TaskGroup() as group,
        asyncio.timeout(PATIENCE_S),
    ):
        loop = loop_of(group, client, {})
        await loop.deliver([PodSeen(bound(f"small{number}")) for number in range(10)])
        urgent = a_share("urgent", priority=100)
        await loop.deliver([PodSeen(urgent), BindSlotsFree(64)])
        await first.wait()
        await loop.deliver([PodGone(urgent.uid), BindSlotsFree(64)])
        later = asyncio.get_running_loop().time() + EVICT_AGAIN_S + 1
        loop.machine.handle(TimePassed(), later)
        answering.set()
    # The nomination and the first evictions had their turns before.
    assert 3 <= len(sent) <= EVICTIONS_AT_ONCE


async def test_events_are_handled_and_problems_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    gone = NodeGone(NodeName("n1"))
    problem = Problem(text="odd", namespace="ns", name="x", uid="u")
    bad = BadAllocation(PodKey("ns", "p"), "is empty")
    async with asyncio.TaskGroup() as group:
        loop = loop_of(group)
        caplog.clear()
        await loop.deliver([problem, gone, bad])
    assert not loop.machine.node_names()
    said = [(record.getMessage(), record.__dict__["fields"]) for record in caplog.records]
    assert said == [
        ("unreadable", {"object": "ns/x", "uid": "u", "message": "odd"}),
        ("allocation", {"pod": "ns/p", "message": "is empty"}),
    ]


async def test_a_slow_plugin_is_counted_in_each_turn_and_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seconds = [0.0]

    class Slow:
        name = "Slow"

        def permit(self, pod: Pod, node: NodeName) -> None:
            seconds[0] += 0.06

    document = {"profiles": [{"plugins": {"permit": {"enabled": [{"name": "Slow"}]}}}]}
    async with asyncio.TaskGroup() as group:
        loop = loop_of(group)
        assert loop.machine.boundary.stopwatch is perf_counter
        made = profiles(read(document), {**IN_TREE, "Slow": Slow})
        loop.machine.handle(ProfilesReplaced(made), 0.0)
        loop.machine.boundary.stopwatch = lambda: seconds[0]
        loop.leads = False  # nothing is to be sent
        caplog.clear()
        for name in ("a", "b", "c"):
            await loop.deliver([PodSeen(a_share(name, 100)), BindSlotsFree(9)])
    (record,) = caplog.records
    assert record.getMessage() == "plugin slow"
    fields = record.__dict__["fields"]
    assert (fields["plugin"], fields["ms"], fields["limit_ms"]) == ("Slow", 60.0, 50.0)
    assert loop.health.tallies.slow_turns == {"Slow": 3}


async def in_doubt(group: asyncio.TaskGroup, client: KubeClient, ago_s: float) -> DecisionLoop:
    """A loop with a Binding that was answered so long ago without saying whether it is stored."""
    loop = loop_of(group, client)
    now = asyncio.get_running_loop().time() - ago_s
    loop.machine.handle(PodSeen(a_share("p", 500)), now)
    (bind,) = loop.machine.handle(BindSlotsFree(1), now)
    assert isinstance(bind, Bind)
    unknown = BindAnswered(bind.uid, bind.allocation.token, BindUnknown("503"))
    loop.machine.handle(unknown, now)
    return loop


async def test_an_ending_process_waits_until_an_open_binding_is_not_stored_any_more() -> None:
    async with client_of(nothing) as client, asyncio.TaskGroup() as group:
        sleep = NoSleep()
        loop = await in_doubt(group, client, 1.0)
        loop.sleep = sleep
        assert loop.machine.unanswered == 1
        assert await loop.drain()
    assert HAND_OVER_S - 2 < max(sleep.asked) <= HAND_OVER_S - 1


async def test_a_binding_that_was_given_up_long_ago_holds_up_no_end() -> None:
    async with client_of(nothing) as client, asyncio.TaskGroup() as group:
        sleep = NoSleep()
        loop = await in_doubt(group, client, HAND_OVER_S)
        loop.sleep = sleep
        assert await loop.drain()
    assert not sleep.asked


async def nothing(request: web.Request) -> web.Response:
    raise AssertionError(request.path)
