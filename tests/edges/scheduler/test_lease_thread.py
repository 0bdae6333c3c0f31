"""The Lease on a thread: what the loop that decides hears of it, and how the thread ends."""

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubeshare_py.configuration.scheduler import read
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import Credentials, load
from kubeshare_py.edges.kube.kubeconfig import KubeReading
from kubeshare_py.edges.process.liveness import Heartbeat
from kubeshare_py.edges.scheduler.leader_lease import LeaderLease, LeadershipLost, on_a_thread
from kubeshare_py.edges.scheduler.leadership import connected
from kubeshare_py.leader_election.leadership import Election, Terms
from tests.edges.served_state import api_server
from tests.patience import PATIENCE_S

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kubeshare-scheduler"
QUICK = {"leaseDuration": "30s", "renewDeadline": "20s", "retryPeriod": "20ms"}


def threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name.startswith("lease")]


async def test_the_loop_learns_at_once_that_another_took_the_lease(tmp_path: Path) -> None:
    settings = read({"leaderElection": QUICK})
    async with api_server(tmp_path) as behind:

        async def lead_until_it_is_gone() -> None:
            async with (
                connected(settings, load(behind.kubeconfig), "me") as (_, leadership),
                asyncio.TaskGroup() as group,
            ):
                group.create_task(leadership.campaign())
                await leadership.led()
                assert leadership.may_send()
                assert leadership.fence() == "me/0"
                assert len(threads()) == 1
                held = {"spec": {"holderIdentity": "other"}}
                await behind.client.merge_patch(LEASE, held)
                await asyncio.Event().wait()

        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(ExceptionGroup) as error:
                await lead_until_it_is_gone()
        assert error.group_contains(LeadershipLost, match="taken over by other$")
    assert threads() == []


async def test_it_renews_after_its_campaign_was_cancelled_no_more_and_releases(
    tmp_path: Path,
) -> None:
    settings = read({"leaderElection": QUICK})
    async with (
        api_server(tmp_path) as behind,
        connected(settings, load(behind.kubeconfig), "me") as (_, leadership),
    ):
        async with asyncio.TaskGroup() as group:
            campaign = group.create_task(leadership.campaign())
            await leadership.led()
            campaign.cancel()
        await leadership.release()
        assert not leadership.may_send()
        released = await behind.client.get(LEASE)
        assert not released["spec"].get("holderIdentity")
        await asyncio.sleep(0.1)
        assert await behind.client.get(LEASE) == released


@asynccontextmanager
async def broken() -> AsyncIterator[LeaderLease]:
    raise OSError("no file descriptors left")
    yield


async def test_what_keeps_the_lease_from_being_opened_is_raised() -> None:
    with pytest.raises(OSError, match="no file descriptors left"):
        async with on_a_thread(broken, Heartbeat(1.0)):
            pass
    assert threads() == []


async def test_told_to_end_while_the_lease_is_being_opened_it_ends(tmp_path: Path) -> None:
    opening: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    @asynccontextmanager
    async def opens() -> AsyncIterator[LeaderLease]:
        may_open = asyncio.Event()
        opening.set_result((asyncio.get_running_loop(), may_open))
        await may_open.wait()
        async with KubeClient(load(behind.kubeconfig)) as client:
            place = ("kube-system", "kubeshare-scheduler")
            yield LeaderLease(client, Election("me", Terms()), place)

    async def enter() -> None:
        async with on_a_thread(opens, Heartbeat(1.0)):
            pass

    async with api_server(tmp_path) as behind:
        entering = asyncio.create_task(enter())
        loop, may_open = await asyncio.wrap_future(opening)
        entering.cancel()
        loop.call_soon_threadsafe(may_open.set)
        with pytest.raises(asyncio.CancelledError):
            await entering
    assert threads() == []


async def test_a_thread_that_ends_ends_the_leadership(tmp_path: Path) -> None:
    async with api_server(tmp_path) as behind:
        loops: list[asyncio.AbstractEventLoop] = []

        @asynccontextmanager
        async def opens() -> AsyncIterator[LeaderLease]:
            loops.append(asyncio.get_running_loop())
            async with KubeClient(load(behind.kubeconfig)) as client:
                place = ("kube-system", "kubeshare-scheduler")
                yield LeaderLease(client, Election("me", Terms()), place)

        async def lead_on_a_thread_that_breaks() -> None:
            async with on_a_thread(opens, Heartbeat(1.0)) as thread, asyncio.TaskGroup() as group:
                group.create_task(thread.campaign())
                await thread.led()
                loops[0].call_soon_threadsafe(loops[0].stop)

        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(RuntimeError, match="Event loop stopped") as error:
                await lead_on_a_thread_that_breaks()
        lost = error.value.__context__
        assert isinstance(lost, ExceptionGroup)
        assert lost.subgroup(LeadershipLost) is not None


def test_credentials_for_another_loop_are_read_once_for_both() -> None:
    read: list[KubeReading] = []

    def reading() -> KubeReading:
        read.append(KubeReading(server="https://here", authorization=f"Bearer {len(read)}"))
        return read[-1]

    first = Credentials("test", reading)
    second = first.another()
    assert asyncio.run(second.headers()) == asyncio.run(first.headers())
    assert second.ssl_context is not first.ssl_context
    assert len(read) == 1
    # A token that is refused is read anew, by each.
    assert asyncio.run(second.renew({"Authorization": "Bearer 0"}))
    assert asyncio.run(second.headers()) == {"Authorization": "Bearer 1"}
    assert asyncio.run(first.headers()) == {"Authorization": "Bearer 0"}
