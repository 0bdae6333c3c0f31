"""kube-scheduler keeps the queue and asks this scheduler for cards, as its extender.

Here the requests of kube-scheduler are sent by hand. `test_kube_scheduler` has the real one.
"""

import asyncio
import io
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from kubeshare_py.scheduling.machine import Machine
from tests.controlplane.running import free_ports
from tests.stories.conftest import (
    PODS,
    Json,
    Stage,
    annotations,
    bound,
    card,
    gpu,
    scheduled_condition,
)

#: The name that the shipped policies let this scheduler write conditions of, and another one.
THEIRS, OWN = "kubeshare-scheduler", "own-scheduler"
CLUSTER = 'nodes: [{name: "n{n}", count: 2, gpus: [{model: T4, count: 2, memory: 16GiB}]}]'


@dataclass(slots=True)
class Caller:
    """kube-scheduler, as the extender sees it."""

    stage: Stage
    machine: Machine
    url: str
    session: aiohttp.ClientSession
    names: list[str] = field(default_factory=lambda: ["n1", "n2"])

    async def post(self, verb: str, body: Json) -> Json:
        async with self.session.post(f"{self.url}/{verb}", json=body) as response:
            found: Json = await response.json(content_type=None)
            return found

    async def filter(self, pod: Json) -> Json:
        return await self.post("filter", {"Pod": pod, "Nodes": None, "NodeNames": self.names})

    async def prioritize(self, pod: Json) -> dict[str, int]:
        asked = {"Pod": pod, "Nodes": None, "NodeNames": self.names}
        found: Any = await self.post("prioritize", asked)
        return {one["Host"]: one["Score"] for one in found}

    async def bind(self, pod: Json, node: str) -> str:
        meta = pod["metadata"]
        asked = {"PodName": meta["name"], "PodNamespace": "default", "PodUID": meta["uid"]}
        answer = await self.post("bind", {**asked, "Node": node})
        error: str = answer["Error"]
        return error

    async def create(self, name: str, request: str = "0.5", **spec: object) -> Json:
        return await self.stage.create(name, gpu(request), schedulerName=THEIRS, **spec)


def document(port: int, **extender: object) -> Json:
    return {
        "profiles": [{"schedulerName": OWN}, {"schedulerName": THEIRS, "extender": True}],
        "extender": {"bindAddress": "127.0.0.1", "port": port, **extender},
    }


async def warm_up(stage: Stage) -> None:
    """Wait until the scheduler knows the cards: it places a tiny pod of its own queue."""
    await stage.create("warm-up", gpu("0.001"), schedulerName=OWN)
    await stage.expect_running("warm-up")
    await stage.expect_deleted("warm-up")


@asynccontextmanager
async def calling(stage: Stage) -> AsyncIterator[Caller]:
    """A scheduler with an extender, and one that calls it."""
    [port] = free_ports(1)
    connector = aiohttp.TCPConnector(ssl=False)
    async with (
        stage.scheduler(document(port)) as machine,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        await warm_up(stage)
        yield Caller(stage, machine, f"https://127.0.0.1:{port}", session)


@pytest.mark.slow
async def test_a_pod_is_filtered_bound_and_runs_with_its_card(empty_stage: Stage) -> None:
    async with calling(empty_stage) as caller:
        pod = await caller.create("p")
        answer = await caller.filter(pod)
        assert (answer["NodeNames"], answer["Error"]) == (["n1", "n2"], "")
        assert await caller.bind(pod, "n2") == ""
        running = await empty_stage.expect_running("p")
        assert running["spec"]["nodeName"] == "n2"
        assert card(running).startswith("GPU-")
        assert annotations(running)["sharedgpu/allocation"]


@pytest.mark.slow
async def test_filters_change_nothing_however_often_they_are_asked(empty_stage: Stage) -> None:
    async with calling(empty_stage) as caller:
        pods = [await caller.create(f"p{n}", "1.0") for n in range(9)]
        for pod in pods * 3:
            assert (await caller.filter(pod))["NodeNames"] == ["n1", "n2"]
        assert bound(await empty_stage.client.list_all(PODS)) == []
        assert caller.machine.unanswered == 0


@pytest.mark.slow
async def test_any_number_of_binds_at_once_never_give_a_card_twice(empty_stage: Stage) -> None:
    async with calling(empty_stage) as caller:
        pods = [await caller.create(f"p{n}") for n in range(12)]
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(caller.bind(pod, "n1")) for pod in pods]
        answers = Counter(one.result() for one in asked)
        assert answers == {"": 4, "Insufficient GPU": 8}
        found = await empty_stage.client.list_all(PODS)
        assert sorted(Counter(card(pod) for pod in found if card(pod)).values()) == [2, 2]


@pytest.mark.slow
async def test_full_nodes_are_refused_with_a_reason_that_says_eviction_does_not_help(
    empty_stage: Stage,
) -> None:
    async with calling(empty_stage) as caller:
        for number in range(2):
            assert await caller.bind(await caller.create(f"whole-{number}", "1.0"), "n1") == ""
        answer = await caller.filter(await caller.create("next"))
        assert answer["NodeNames"] == ["n2"]
        assert answer["FailedAndUnresolvableNodes"] == {"n1": "Insufficient GPU"}
        assert answer["FailedNodes"] == {}


async def test_nodes_that_are_not_known_are_unregistered_in_hamis_words(
    empty_stage: Stage,
) -> None:
    async with calling(empty_stage) as caller:
        caller.names.append("n9")
        answer = await caller.filter(await caller.create("p"))
        assert answer["FailedAndUnresolvableNodes"] == {"n9": "node unregistered"}


async def test_pods_that_ask_for_no_gpu_pass_unchanged(empty_stage: Stage) -> None:
    """The names of all nodes come back, also of one that is not known."""
    async with calling(empty_stage) as caller:
        caller.names.append("n9")
        pod = await empty_stage.create("plain", schedulerName=THEIRS)
        assert (await caller.filter(pod))["NodeNames"] == ["n1", "n2", "n9"]
        assert await caller.bind(pod, "n1") == ""
        await empty_stage.expect_eventually("plain", lambda one: bool(one["spec"].get("nodeName")))


async def test_the_node_with_the_fuller_card_has_the_higher_score(empty_stage: Stage) -> None:
    async with calling(empty_stage) as caller:
        assert await caller.prioritize(await caller.create("first")) == {"n1": 0, "n2": 0}
        assert await caller.bind(await caller.create("second"), "n2") == ""
        assert await caller.prioritize(await caller.create("third")) == {"n1": 0, "n2": 10}


async def test_a_pod_that_the_watch_has_not_shown_is_read_before_it_is_bound(
    empty_stage: Stage,
) -> None:
    async with calling(empty_stage) as caller:
        pods = [await caller.create(f"p{n}", "0.1") for n in range(8)]
        # At once, on a connection that is open already.
        assert [await caller.bind(pod, "n1") for pod in pods] == [""] * 8


async def test_a_lost_answer_to_a_binding_is_asked_for_again_and_kube_scheduler_waits(
    empty_stage: Stage,
) -> None:
    async with calling(empty_stage) as caller:
        pod = await caller.create("p")
        empty_stage.spoil_binds(applies_first=True)
        assert await caller.bind(pod, "n1") == ""
        assert len(empty_stage.bindings("p")) <= 2


async def test_a_pod_of_another_scheduler_is_refused_with_what_to_configure(
    empty_stage: Stage,
) -> None:
    async with calling(empty_stage) as caller:
        pod = await empty_stage.create("p", gpu("0.5"), schedulerName="default-scheduler")
        said = "no profile with extender: true is for schedulerName default-scheduler"
        assert (await caller.filter(pod))["Error"] == said
        assert "of no profile with extender: true" in await caller.bind(pod, "n1")


async def test_what_is_no_request_of_kube_scheduler_is_a_bad_request(empty_stage: Stage) -> None:
    async with calling(empty_stage) as caller:
        for verb in ("filter", "prioritize", "bind", "webhook"):
            async with caller.session.post(f"{caller.url}/{verb}", data=b"{}") as response:
                assert response.status == 400
        for verb in ("bind", "webhook"):
            large = io.BytesIO(b"x" * (4 * 2**20 + 1))
            async with caller.session.post(f"{caller.url}/{verb}", data=large) as response:
                assert response.status == 413
        async with caller.session.get(f"{caller.url}/readyz") as response:
            assert response.status == 200


async def test_without_a_profile_for_it_nothing_listens(empty_stage: Stage) -> None:
    [port] = free_ports(1)
    settings = {"extender": {"bindAddress": "127.0.0.1", "port": port}}
    async with empty_stage.scheduler(settings):
        await empty_stage.warm_up()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


@pytest.mark.slow
async def test_only_the_leader_answers_and_its_successor_goes_on(empty_stage: Stage) -> None:
    short = {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "100ms"}
    first, second = free_ports(2)
    election = {"leaderElection": {**short, "leaderElect": True}}
    connector = aiohttp.TCPConnector(ssl=False)
    async with aiohttp.ClientSession(connector=connector) as session:
        async with empty_stage.scheduler({**document(first), **election}) as machine:
            await warm_up(empty_stage)
            leader = Caller(empty_stage, machine, f"https://127.0.0.1:{first}", session)
            pod = await leader.create("a", "1.0")
            assert await leader.bind(pod, "n1") == ""
        async with empty_stage.scheduler({**document(second), **election}) as machine:
            await warm_up(empty_stage)
            heir = Caller(empty_stage, machine, f"https://127.0.0.1:{second}", session)
            pod = await heir.create("b", "1.0")
            assert (await heir.filter(pod))["NodeNames"] == ["n1", "n2"]
            assert await heir.bind(pod, "n1") == ""
    found = await empty_stage.client.list_all(PODS)
    assert len({card(pod) for pod in found}) == 2


@pytest.mark.slow
async def test_a_refused_pod_is_shown_to_kube_scheduler_again_once_it_fits(
    empty_stage: Stage,
) -> None:
    async with calling(empty_stage) as caller:
        caller.names = ["n1"]
        for number in range(2):
            assert await caller.bind(await caller.create(f"whole-{number}", "1.0"), "n1") == ""
        waiting = await caller.create("waiting", "1.0")
        for node in ("n2", "n2"):
            taken = await caller.create(f"{node}-{len(caller.machine.records)}", "1.0")
            assert await caller.bind(taken, node) == ""
        assert (await caller.filter(waiting))["NodeNames"] == []
        await empty_stage.expect_deleted("whole-0")
        pod = await empty_stage.expect_eventually(
            "waiting", lambda pod: "are free" in scheduled_condition(pod).get("message", "")
        )
        assert (await caller.filter(pod))["NodeNames"] == ["n1"]
        assert await caller.bind(pod, "n1") == ""
