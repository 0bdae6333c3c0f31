"""The Lease by which one scheduler leads."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.lease import LeaderFigures
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.kube.errors import KubeWithheld
from kubeshare_py.edges.process.liveness import Stall
from kubeshare_py.edges.scheduler.leader_lease import LeaderLease, LeadershipLost
from kubeshare_py.edges.scheduler.leadership import connected
from kubeshare_py.embedded_cluster.protocol.messages import ApiRequest
from kubeshare_py.embedded_cluster.serving.server import Fault
from kubeshare_py.leader_election.leadership import Election, Terms
from tests.edges.served_state import Behind, api_server

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


async def a_lease(behind: Behind, **metadata: object) -> str:
    """A Lease that is there before any scheduler; its path."""
    kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    lease = {**kind, "metadata": {"name": "kubeshare-scheduler", **metadata}}
    await behind.client.create(LEASES, lease)
    return f"{LEASES}/kubeshare-scheduler"


@dataclass
class Hand:
    """A clock that stands still; sleeping moves it on."""

    now: float = 100.0
    slept: list[float] = field(default_factory=list)

    def read(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@dataclass
class Loop:
    """The event loop that decides, as it is seen by who renews the Lease."""

    stall: Stall | None = None

    def stalled(self) -> Stall | None:
        return self.stall


def lease_of(behind: Behind, name: str, hand: Hand, loop: Loop | None = None) -> LeaderLease:
    return LeaderLease(
        behind.client, Election(name, Terms()), ("kube-system", "kubeshare-scheduler"),
        clock=hand.read, sleep=hand.sleep, rng=random.Random(1), stalled=(loop or Loop()).stalled,
    )  # fmt: skip


@asynccontextmanager
async def leading(
    behind: Behind, name: str, hand: Hand, loop: Loop | None = None
) -> AsyncIterator[LeaderLease]:
    """Campaigns while entered; entered when it leads."""
    lease = lease_of(behind, name, hand, loop)
    async with asyncio.TaskGroup() as group:
        campaign = group.create_task(lease.campaign())
        await lease.led()
        yield lease
        campaign.cancel()


async def test_a_leader_writes_the_lease_at_once_and_nothing_beside_its_claim(
    tmp_path: Path,
) -> None:
    async with api_server(tmp_path) as behind, leading(behind, "me", Hand()) as lease:
        found = await behind.client.get(f"{LEASES}/kubeshare-scheduler")
        spec = found["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("me", 0)
        assert spec["leaseDurationSeconds"] == 15
        assert {"acquireTime", "renewTime"} <= spec.keys()
        assert not {"annotations", "labels"} & found["metadata"].keys()
        assert lease.fence() == "me/0"
        assert lease.may_send()


async def test_who_leads_and_how_renewals_went_is_told(tmp_path: Path) -> None:
    async with api_server(tmp_path) as behind:
        lease = lease_of(behind, "me", Hand())
        assert lease.figures() == LeaderFigures(
            name="kubeshare-scheduler", leads=False, slow_renewals=0
        )
        refusal = Fault(method="PUT", path="/leases/", status=500)
        async with asyncio.TaskGroup() as group:
            campaign = group.create_task(lease.campaign())
            await lease.led()
            assert lease.figures().leads
            behind.server.faults.inject(refusal)
            renewals: asyncio.Queue[str] = asyncio.Queue()
            behind.server.audit = lambda request: renewals.put_nowait(request.method)
            # Refused, looked at, written.
            assert [await renewals.get() for _ in range(3)] == ["PUT", "GET", "PUT"]
            campaign.cancel()
        assert lease.figures().slow_renewals == 1


async def test_what_others_wrote_on_the_lease_stays(tmp_path: Path) -> None:
    async with api_server(tmp_path) as behind:
        path = await a_lease(behind, labels={"a": "b"}, annotations={"c": "d"})
        async with leading(behind, "me", Hand()):
            found = await behind.client.get(path)
    assert found["metadata"]["labels"] == {"a": "b"}
    assert found["metadata"]["annotations"] == {"c": "d"}
    assert found["spec"]["holderIdentity"] == "me"


async def test_the_next_takes_a_released_lease_without_waiting(tmp_path: Path) -> None:
    async with api_server(tmp_path) as behind:
        async with leading(behind, "first", Hand()) as first:
            pass
        await first.release()
        assert not first.may_send()
        spec = (await behind.client.get(f"{LEASES}/kubeshare-scheduler"))["spec"]
        assert (spec.get("holderIdentity", ""), spec["leaseDurationSeconds"]) == ("", 1)
        hand = Hand()
        async with leading(behind, "second", hand) as second:
            assert second.fence() == "second/1"
        assert [pause for pause in hand.slept if pause > 2] == []


async def test_the_next_lets_an_unreleased_lease_expire_and_then_waits_for_late_binds(
    tmp_path: Path,
) -> None:
    async with api_server(tmp_path) as behind:
        async with leading(behind, "first", Hand()):
            pass
        hand = Hand(now=500.0)
        async with leading(behind, "second", hand) as second:
            assert second.fence() == "second/1"
            assert hand.now >= 500 + 15 + 6


async def test_a_release_that_somebody_edited_before_is_written_all_the_same(
    tmp_path: Path,
) -> None:
    async with api_server(tmp_path) as behind:
        path = f"{LEASES}/kubeshare-scheduler"
        async with leading(behind, "me", Hand()) as lease:
            pass
        await behind.client.merge_patch(path, {"metadata": {"labels": {"a": "b"}}})
        await lease.release()
        found = await behind.client.get(path)
    assert not found["spec"].get("holderIdentity")
    assert found["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize("status", [403, 409, 500])
async def test_renewals_that_fail_until_the_deadline_end_the_leadership(
    tmp_path: Path, status: int
) -> None:
    async with api_server(tmp_path) as behind:
        hand = Hand()
        fault = Fault(method="PUT", path="/leases/", status=status, times=100)

        async def lead_without_renewals() -> None:
            async with leading(behind, "me", hand):
                behind.server.faults.inject(fault)
                hand.slept.clear()
                await asyncio.Event().wait()

        with pytest.raises(ExceptionGroup) as error:
            await lead_without_renewals()
        late = "kube-system/kubeshare-scheduler is lost: not renewed within 10 s: "
        assert error.group_contains(LeadershipLost, match=late)
        assert 8 <= sum(hand.slept) <= 12  # one renewal may be under way


@pytest.mark.parametrize(
    ("holder", "why"), [("other", "taken over by other"), ("", "released by another")]
)
async def test_only_another_that_has_the_lease_took_it_over(
    tmp_path: Path, holder: str, why: str
) -> None:
    async with api_server(tmp_path) as behind:

        async def lead_until_it_is_gone() -> None:
            async with leading(behind, "me", Hand()):
                held = {"spec": {"holderIdentity": holder}}
                await behind.client.merge_patch(f"{LEASES}/kubeshare-scheduler", held)
                await asyncio.Event().wait()

        with pytest.raises(ExceptionGroup) as error:
            await lead_until_it_is_gone()
        assert error.group_contains(LeadershipLost, match=f"is lost: {why}$")


async def test_a_process_that_was_held_up_does_not_say_that_another_took_over(
    tmp_path: Path,
) -> None:
    async with api_server(tmp_path) as behind:
        hand = Hand()

        async def lead_and_stand_still() -> None:
            async with leading(behind, "me", hand):
                hand.now += 60
                await asyncio.Event().wait()

        with pytest.raises(ExceptionGroup) as error:
            await lead_and_stand_still()
        late = "is lost: not renewed within 10 s$"
        assert error.group_contains(LeadershipLost, match=late)


@dataclass(slots=True, kw_only=True)
class NotByUs(Fault):
    """As RBAC, towards schedulers: they write at once who holds it."""

    def matches(self, request: ApiRequest) -> bool:
        return Fault.matches(self, request) and b"holderIdentity" in request.body


async def test_a_lease_that_it_may_not_create_is_asked_for_and_led_by_once_it_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with api_server(tmp_path) as behind:
        behind.server.faults.inject(NotByUs(method="POST", path="/leases$", status=403, times=100))
        hand = Hand()
        async with asyncio.TaskGroup() as group:
            lease = lease_of(behind, "me", hand)
            campaign = group.create_task(lease.campaign())
            await turning(lambda: len(hand.slept) >= 4)
            assert not lease.figures().leads
            [told] = [record.__dict__["fields"]["message"] for record in caplog.records]
            said, command = told.split("make it with ")
            assert said.startswith("Lease kube-system/kubeshare-scheduler is missing")
            echo, made, pipe = command.split("'")
            assert (echo, pipe) == ("echo ", " | kubectl create -f -")
            await behind.client.create(LEASES, json.loads(made))
            await lease.led()
            assert lease.fence() == "me/1"
            campaign.cancel()


async def test_a_leader_whose_lease_is_gone_says_so_and_ends(tmp_path: Path) -> None:
    async with api_server(tmp_path) as behind:
        path = f"{LEASES}/kubeshare-scheduler"

        async def lead_until_it_is_gone() -> None:
            async with leading(behind, "me", Hand()):
                refusal = Fault(method="POST", path="/leases$", status=403, times=100)
                behind.server.faults.inject(refusal)
                await behind.client.delete(path)
                await asyncio.Event().wait()

        with pytest.raises(ExceptionGroup) as error:
            await lead_until_it_is_gone()
        why = "not renewed within 10 s: Lease kube-system/kubeshare-scheduler is missing"
        assert error.group_contains(LeadershipLost, match=why)


async def expect_eventually(behind: Behind, transitions: int) -> None:
    """Wait until this is on the Lease."""
    while True:
        found = await behind.client.get(f"{LEASES}/kubeshare-scheduler")
        if found["spec"]["leaseTransitions"] == transitions:
            return


async def turning(wanted: Callable[[], bool]) -> None:
    """Let others run until it is so."""
    while True:
        if wanted():
            return
        await asyncio.sleep(0)


async def test_a_forged_lease_is_named_with_what_to_do_and_led_by_in_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with api_server(tmp_path) as behind:
        path = f"{LEASES}/kubeshare-scheduler"
        forged = {
            "holderIdentity": "n" * 3000,
            "leaseDurationSeconds": 2**31 - 1,
            "leaseTransitions": 2**31 - 1,
            "renewTime": "9999-12-31T23:59:59.999999Z",
        }
        kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        named = {"metadata": {"name": "kubeshare-scheduler"}, "spec": forged}
        await behind.client.create(LEASES, kind | named)
        hand = Hand(now=500.0)
        async with leading(behind, "me", hand) as lease:
            assert lease.fence() == "me/0"
            assert 600 + 6 <= hand.now - 500 <= 600 + 6 + 5
            spec = (await behind.client.get(path))["spec"]
            assert (spec["leaseTransitions"], spec["leaseDurationSeconds"]) == (0, 15)
            edited = {"spec": {"leaseTransitions": 77}}
            await behind.client.merge_patch(path, edited)
            await expect_eventually(behind, transitions=0)
            assert lease.fence() == "me/0"
    messages = [record.__dict__.get("fields", {}).get("message", "") for record in caplog.records]
    [told] = [text for text in messages if "leaseDurationSeconds" in text]
    assert "Lease kube-system/kubeshare-scheduler: spec.leaseDurationSeconds: must be" in told
    assert "kubectl -n kube-system patch lease kubeshare-scheduler --type merge -p" in told
    assert max(len(str(record.__dict__.get("fields"))) for record in caplog.records) < 1000


HANGS = Stall(for_s=10.0, where="handle (machine.py:1)")


async def test_while_the_loop_hangs_the_lease_is_not_renewed_and_then_lost(tmp_path: Path) -> None:
    async with api_server(tmp_path) as behind:
        hand, loop, requests = Hand(), Loop(), list[str]()

        async def lead_and_hang() -> None:
            async with leading(behind, "me", hand, loop):
                loop.stall = HANGS
                hand.slept.clear()
                behind.server.audit = lambda request: requests.append(request.method)
                await asyncio.Event().wait()

        with pytest.raises(ExceptionGroup) as error:
            await lead_and_hang()
        why = r"not renewed within 10 s: the event loop hangs, in handle \(machine.py:1\)$"
        assert error.group_contains(LeadershipLost, match=why)
        assert requests.count("PUT") <= 1  # one renewal may be under way
        assert sum(hand.slept) <= 12


async def test_a_loop_that_turns_again_in_time_goes_on_leading(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with api_server(tmp_path) as behind:
        hand, loop = Hand(), Loop()
        renewals: asyncio.Queue[str] = asyncio.Queue()
        async with leading(behind, "me", hand, loop) as lease:
            loop.stall = HANGS
            await turning(lambda: hand.now >= 106)
            loop.stall = None
            behind.server.audit = lambda request: renewals.put_nowait(request.method)
            assert await renewals.get() == "PUT"
            assert await renewals.get() == "PUT"
            assert lease.may_send()
    said = [record.getMessage() for record in caplog.records]
    assert [line for line in said if line in ("hangs", "runs again")] == ["hangs"]


async def test_who_hangs_while_it_stands_by_does_not_take_the_lease(tmp_path: Path) -> None:
    async with api_server(tmp_path) as behind:
        hand, loop = Hand(), Loop(HANGS)
        async with asyncio.TaskGroup() as group:
            campaign = group.create_task(lease_of(behind, "me", hand, loop).campaign())
            await turning(lambda: len(hand.slept) >= 10)
            assert await behind.client.list_all(LEASES) == []
            requests: asyncio.Queue[str] = asyncio.Queue()
            behind.server.audit = lambda request: requests.put_nowait(request.method)
            loop.stall = None
            assert [await requests.get() for _ in range(2)] == ["GET", "POST"]
            campaign.cancel()


async def test_without_election_it_leads_at_once_without_a_lease(tmp_path: Path) -> None:
    settings = read({"leaderElection": {"leaderElect": False}})
    async with (
        api_server(tmp_path) as behind,
        connected(settings, load(behind.kubeconfig), "me") as (client, leadership),
    ):
        asked: list[str] = []
        behind.server.audit = lambda request: asked.append(request.path)
        await leadership.led()
        await leadership.campaign()
        assert leadership.may_send()
        assert leadership.fence() == ""
        assert asked == []
        assert await client.list_all(LEASES) == []


async def test_who_does_not_lead_may_read_and_nothing_else(tmp_path: Path) -> None:
    async with api_server(tmp_path) as behind:
        path = await a_lease(behind)
        credentials = load(behind.kubeconfig)
        async with KubeClient(credentials, may_write=lambda: False) as client:
            await client.get(path)
            for asked in (
                client.merge_patch(path, {"metadata": {"labels": {"a": "b"}}}),
                client.create(LEASES, {}),
                client.delete(path),
            ):
                with pytest.raises(KubeWithheld, match="this process does not lead"):
                    await asked
        assert "labels" not in (await behind.client.get(path))["metadata"]
