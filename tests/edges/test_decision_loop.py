"""The loop around a machine: what it does at the moment when another process may lead."""

import asyncio

import pytest

from kubeshare_py.domain.events import PodSeen
from kubeshare_py.edges.decision_loop import DecisionLoop
from kubeshare_py.edges.kube_api import KubeApi
from kubeshare_py.edges.kube_client import KubeClient
from kubeshare_py.edges.leader_lease import LeadershipLost
from kubeshare_py.edges.report_lane import ReportLane
from kubeshare_py.edges.vital_signs import VitalSigns
from tests.builders import a_cluster, a_machine, a_pod
from tests.edges.bare_server import plain


def loop_of(group: asyncio.TaskGroup) -> DecisionLoop:
    """One that leads a cluster with room; nothing can be sent."""
    client, machine = KubeClient(plain("http://127.0.0.1")), a_machine()
    for event in a_cluster({"n1": 1}):
        machine.handle(event, 0.0)
    api = KubeApi(client, ReportLane(client, instance="test"))
    signs = VitalSigns(machine, asyncio.get_running_loop().time)
    loop = DecisionLoop(machine, api, group, asyncio.Event(), signs)
    loop.lead()
    return loop


async def loses_the_lease() -> None:
    """Lead until somebody else does; a pod arrives at that very moment."""

    async def lost() -> None:
        loop.machine.handle(PodSeen(a_pod()), 0.0)
        # Deciding has its turn after the group of binds knows of the loss, and before it does.
        asyncio.get_running_loop().call_soon(loop.news.set)
        raise LeadershipLost("taken over")

    async with asyncio.TaskGroup() as binds:
        loop = loop_of(binds)
        async with asyncio.TaskGroup() as group:
            group.create_task(loop.decide())
            await asyncio.sleep(0)
            binds.create_task(loop.heed(lost()))


async def test_what_could_be_decided_at_the_moment_of_a_loss_is_left_to_others() -> None:
    with pytest.raises(ExceptionGroup) as error:
        await loses_the_lease()
    [only] = error.value.exceptions
    assert isinstance(only, LeadershipLost)
