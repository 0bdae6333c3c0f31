"""Requests that the scheduler sends, and whose turn it is."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from aiohttp import web

from kubeshare_py.dialects.dialect import PlacedNode
from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import BindOutcome, BindRefused, BindUnknown, Bound, Refusal
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.node import NodeAtDecision
from kubeshare_py.domain.values import replace
from kubeshare_py.edges.cli.screen import wall_clock
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.scheduler.writes.kube_api import HAND_OVER_S, FairSemaphore, KubeApi
from kubeshare_py.edges.scheduler.writes.report_lane import ReportLane
from kubeshare_py.embedded_cluster.serving.server import Fault
from tests.dialects.halves import CARDS, DIALECTS, SEEN, STATE, Halves
from tests.edges.bare_server import Handler, client_of, status
from tests.embedded_cluster.embedded import PODS, cluster, create_pod, scheduled_condition
from tests.making import a_gpu


def bind_of(
    uid: str, *, token: str = "t-1", name: str = "a", stale: tuple[str, ...] = (), cards: int = 1
) -> Bind:
    charges = tuple(CardCharge(GpuUuid(f"GPU-{i}"), 500, 1 << 30, "V100") for i in range(cards))
    return Bind(
        uid=PodUid(uid),
        key=PodKey("default", name),
        node=NodeName("n1"),
        allocation=Allocation(token=DecisionToken(token), dialect="sharedgpu", cards=charges),
        stale_results=stale,
    )


def api_of(client: KubeClient, fence: str = "") -> KubeApi:
    return KubeApi(client, ReportLane(client, instance="test"), fence=lambda: fence)


async def bind(client: KubeClient, effect: Bind) -> BindOutcome:
    answered = await api_of(client).bind(effect)
    assert (answered.uid, answered.token) == (effect.uid, effect.allocation.token)
    return answered.outcome


def refusal(outcome: BindOutcome) -> Refusal:
    assert isinstance(outcome, BindRefused)
    return outcome.refusal


async def test_one_request_assigns_the_node_and_writes_the_cards(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        pod = await create_pod(client, "a")
        effect = bind_of(pod["metadata"]["uid"], stale=("sharedgpu/cell_id",))
        assert (await api_of(client, "me/3").bind(effect)).outcome == Bound()
        pod = await client.get(f"{PODS}/a")
    annotations = pod["metadata"]["annotations"]
    assert pod["spec"]["nodeName"] == "n1"
    assert scheduled_condition(pod)["status"] == "True"
    assert annotations["sharedgpu/gpu_uuid"] == "GPU-0"
    assert annotations["sharedgpu/gpu_mem"] == str(1 << 30)
    assert annotations["sharedgpu/fence"] == "me/3"
    assert annotations["sharedgpu/cell_id"] == ""
    assert json.loads(annotations["sharedgpu/allocation"])["token"] == "t-1"


def loop_time() -> float:
    return asyncio.get_running_loop().time()


def halved(uid: str, stale: tuple[str, ...] = ()) -> Bind:
    effect = bind_of(uid, stale=stale)
    return replace(effect, allocation=replace(effect.allocation, dialect="halves"))


async def test_the_dialect_of_the_pod_writes_its_own_results_too(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        pod = await create_pod(client, "a")
        effect = halved(pod["metadata"]["uid"], stale=(SEEN, CARDS))
        api = KubeApi(client, ReportLane(client, instance="test"), dialects=DIALECTS)
        assert (await api.bind(effect)).outcome == Bound()
        annotations = (await client.get(f"{PODS}/a"))["metadata"]["annotations"]
    assert (annotations[CARDS], annotations[SEEN]) == ("GPU-0", "")
    assert annotations["sharedgpu/gpu_uuid"] == "GPU-0"


async def test_results_that_are_labels_too_are_in_both(tmp_path: Path) -> None:
    class Stating(Halves):
        def results(self, allocation: Allocation, *_: object) -> Mapping[str, str]:
            return {CARDS: "GPU-0", STATE: "placed"}

    async with cluster(tmp_path) as (_, client):
        pod = await create_pod(client, "a")
        dialects = Dialects({"kubeshare-scheduler": (Stating(),)})
        api = KubeApi(client, ReportLane(client, instance="test"), dialects=dialects)
        assert (await api.bind(halved(pod["metadata"]["uid"]))).outcome == Bound()
        metadata = (await client.get(f"{PODS}/a"))["metadata"]
    assert metadata["annotations"][STATE] == metadata["labels"][STATE] == "placed"
    assert CARDS not in metadata["labels"]


async def test_a_binding_that_is_sent_again_says_the_same_time(tmp_path: Path) -> None:
    class Timed(Halves):
        def results(self, allocation: Allocation, node: PlacedNode) -> Mapping[str, str]:
            moments.append(node.decided_at_ns)
            return {CARDS: " ".join(str(node.cards[card.uuid].index) for card in allocation.cards)}

    moments: list[int] = []
    async with cluster(tmp_path) as (server, client):
        pod = await create_pod(client, "a")
        decided = NodeAtDecision(cards=(a_gpu("GPU-0", index=3),), at=loop_time() - 60)
        effect = replace(halved(pod["metadata"]["uid"]), decided=decided)
        dialects = Dialects({"kubeshare-scheduler": (Timed(),)})
        api = KubeApi(client, ReportLane(client, instance="test"), dialects=dialects)
        server.faults.inject(Fault(method="POST", path="/binding$", status=503))
        assert isinstance((await api.bind(effect)).outcome, BindUnknown)
        assert (await api.bind(effect)).outcome == Bound()
        annotations = (await client.get(f"{PODS}/a"))["metadata"]["annotations"]
    assert annotations[CARDS] == "3"
    assert moments == [moments[0]] * 2
    age_s = wall_clock() - moments[0] / 1e9
    assert 60 <= age_s < 600, "Unix time of a minute ago"


async def test_a_dialect_that_fails_at_the_binding_costs_that_pod(tmp_path: Path) -> None:
    class Failing(Halves):
        def results(self, allocation: Allocation, node: PlacedNode) -> Mapping[str, str]:
            raise ValueError("no idea")

    async with cluster(tmp_path) as (_, client):
        pod = await create_pod(client, "a")
        dialects = Dialects({"kubeshare-scheduler": (Failing(),)})
        api = KubeApi(client, ReportLane(client, instance="test"), dialects=dialects)
        outcome = (await api.bind(halved(pod["metadata"]["uid"]))).outcome
    assert outcome == BindRefused(Refusal.INVALID, "dialect halves failed: ValueError: no idea")


async def test_a_lost_answer_is_unknown_and_the_same_bind_again_succeeds(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (server, client):
        pod = await create_pod(client, "a")
        effect = bind_of(pod["metadata"]["uid"])
        server.faults.inject(Fault(method="POST", path="/binding$", applies_first=True))
        assert isinstance(await bind(client, effect), BindUnknown)
        assert await bind(client, effect) == Bound()


@pytest.mark.parametrize("code", [408, 429, 500, 503, 504])
async def test_an_answer_that_may_come_after_the_write_is_unknown(
    tmp_path: Path, code: int
) -> None:
    async with cluster(tmp_path) as (server, client):
        pod = await create_pod(client, "a")
        fault = Fault(method="POST", path="/binding$", status=code, applies_first=True)
        server.faults.inject(fault)
        assert isinstance(await bind(client, bind_of(pod["metadata"]["uid"])), BindUnknown)


POLICY = "ValidatingAdmissionPolicy 'm' with binding 'm' denied request: no"


def denying(seen: list[str], node: str = "") -> Handler:
    """A server whose policy refuses all Bindings; the pod has this node, with our token."""

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.method)
        if request.method == "POST":
            return status(403, "Forbidden", POLICY, "pods")
        annotations = {"sharedgpu/allocation": json.dumps({"token": "t-1"})} if node else {}
        metadata = {"uid": "u1", "annotations": annotations}
        return web.json_response({"metadata": metadata, "spec": {"nodeName": node}})

    return handler


async def test_what_a_policy_refuses_is_definite_without_another_question() -> None:
    seen: list[str] = []
    async with client_of(denying(seen)) as client:
        outcome = await bind(client, bind_of("u1"))
    assert outcome == BindRefused(Refusal.DENIED, f"403 Forbidden: {POLICY}")
    assert seen == ["POST"]


async def test_a_refusal_says_nothing_of_earlier_tries_while_these_may_be_stored() -> None:
    seen: list[str] = []
    async with client_of(denying(seen)) as client:
        in_doubt = replace(bind_of("u1"), in_doubt_since=loop_time() - HAND_OVER_S + 5)
        outcome = await bind(client, in_doubt)
        settled = await bind(client, replace(in_doubt, in_doubt_since=loop_time() - HAND_OVER_S))
    assert outcome == BindUnknown(f"403 Forbidden: {POLICY}", HAND_OVER_S)
    assert settled == BindRefused(Refusal.DENIED, f"403 Forbidden: {POLICY}")
    assert seen == ["POST", "GET", "POST", "GET"]


@pytest.mark.parametrize("ago_s", [0, HAND_OVER_S])
async def test_a_pod_that_an_earlier_try_bound_is_bound_whatever_a_policy_says(
    ago_s: float,
) -> None:
    async with client_of(denying([], node="n1")) as client:
        effect = replace(bind_of("u1"), in_doubt_since=loop_time() - ago_s)
        assert await bind(client, effect) == Bound()


async def test_what_we_do_not_send_ourselves_says_nothing_of_earlier_tries() -> None:
    async with client_of(denying([], node="n1")) as client:
        effect = bind_of("u1", stale=("bad key!!",))
        assert refusal(await bind(client, effect)) is Refusal.INVALID
        assert await bind(client, replace(effect, in_doubt_since=loop_time())) == Bound()


async def test_refusals_are_in_the_log_once_a_minute_for_each_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with client_of(denying([])) as client:
        api = api_of(client)
        for number in range(20):
            await api.bind(bind_of("u1", name=f"p{number}"))
    (line,) = [one for one in caplog.records if one.getMessage() == "not bound"]
    assert line.levelname == "WARNING"
    assert line.__dict__["fields"] == {
        "pod": "default/p0",
        "uid": "u1",
        "node": "n1",
        "outcome": "denied",
        "code": "403",
        "message": f"403 Forbidden: {POLICY}",
    }
    assert api.failures.counts == {("binding", "403"): 20}


async def test_a_pod_that_somebody_else_bound_is_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        pod = await create_pod(client, "a")
        assert await bind(client, bind_of(pod["metadata"]["uid"], token="theirs")) == Bound()
        outcome = await bind(client, bind_of(pod["metadata"]["uid"], token="ours"))
    assert refusal(outcome) is Refusal.ASSIGNED


async def test_a_pod_without_cards_is_recognised_by_its_token_too(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        pod = await create_pod(client, "a")
        effect = bind_of(pod["metadata"]["uid"], cards=0)
        assert await bind(client, effect) == Bound()
        assert await bind(client, effect) == Bound()


async def test_a_pod_that_is_gone_or_replaced_is_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        assert refusal(await bind(client, bind_of("any", name="none"))) is Refusal.GONE
        await create_pod(client, "a")
        assert refusal(await bind(client, bind_of("of-an-earlier-pod"))) is Refusal.GONE


async def test_a_pod_with_gates_is_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        pod = await create_pod(client, "a", schedulingGates=[{"name": "quota"}])
        outcome = await bind(client, bind_of(pod["metadata"]["uid"]))
    assert refusal(outcome) is Refusal.GATED


async def test_an_unbound_pod_that_is_being_deleted_is_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        pod = await create_pod(client, "a")
        await client.merge_patch(f"{PODS}/a", {"metadata": {"finalizers": ["test/keep"]}})
        await client.delete(f"{PODS}/a")
        outcome = await bind(client, bind_of(pod["metadata"]["uid"]))
    assert refusal(outcome) is Refusal.DELETING


async def test_a_pod_that_is_being_deleted_after_our_lost_bind_is_bound(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        pod = await create_pod(client, "a")
        effect = bind_of(pod["metadata"]["uid"])
        await bind(client, effect)
        await client.delete(f"{PODS}/a")
        assert await bind(client, effect) == Bound()


async def test_what_the_server_would_store_unchecked_is_not_sent() -> None:
    async def handler(request: web.Request) -> web.Response:
        raise AssertionError(request.path)

    async with client_of(handler) as client:
        bad_key = await bind(client, bind_of("u", stale=("bad key!!",)))
        too_big = await bind(client, bind_of("u", cards=5000))
    assert refusal(bad_key) is Refusal.INVALID
    assert isinstance(too_big, BindRefused)
    assert "262144 are allowed" in too_big.message


async def test_the_request_carries_uid_target_and_the_servers_own_timeout() -> None:
    seen: list[tuple[str, object]] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append((str(request.rel_url), await request.json()))
        return web.json_response({"kind": "Status", "status": "Success"}, status=201)

    async with client_of(handler) as client:
        await bind(client, bind_of("u1"))
    [(url, body)] = seen
    assert url == "/api/v1/namespaces/default/pods/a/binding?timeout=5s"
    assert isinstance(body, dict)
    assert body["metadata"]["uid"] == "u1"
    assert body["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}


async def test_an_assigned_pod_that_cannot_be_read_is_unknown() -> None:
    async def handler(request: web.Request) -> web.Response:
        if request.method == "GET":
            return status(503, "ServiceUnavailable")
        text = 'Operation cannot be fulfilled: pod a is already assigned to node "n9"'
        return status(409, "Conflict", text, "pods/binding")

    async with client_of(handler) as client:
        outcome = await bind(client, bind_of("u1"))
    assert isinstance(outcome, BindUnknown)
    assert "already assigned" in outcome.message
    assert "503" in outcome.message


async def test_a_bound_pod_of_another_uid_is_not_ours() -> None:
    async def handler(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response({"metadata": {"uid": "u2"}, "spec": {"nodeName": "n9"}})
        return status(409, "Conflict", 'is already assigned to node "n9"', "pods/binding")

    async with client_of(handler) as client:
        assert refusal(await bind(client, bind_of("u1"))) is Refusal.GONE


# --- Namespaces that wait for the same few turns get them in turn ---------------------------------


Names = list[str]


class Waiting:
    """Tasks that each take a turn and keep it until `end`; `begun` says in which order."""

    def __init__(self, at_once: int) -> None:
        self._turns = FairSemaphore(at_once)
        self.begun: Names = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, names: Iterable[str]) -> None:
        """Ask for a turn for each name, of the namespace that its first letter is."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._take(name))
            await settled()

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            await settled()

    async def cancel(self, *names: str) -> None:
        for name in names:
            self._tasks[name].cancel()
        await asyncio.gather(*(self._tasks[name] for name in names), return_exceptions=True)
        await settled()

    def end_soon(self, name: str) -> None:
        self._ends[name].set()

    def cancel_soon(self, name: str) -> None:
        self._tasks[name].cancel()

    async def _take(self, name: str) -> None:
        async with self._turns.slot(name[0]):
            self.begun.append(name)
            await self._ends[name].wait()


async def settled() -> None:
    """Let all tasks go on until each waits for something."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_so_many_go_at_once() -> None:
    waiting = Waiting(2)
    await waiting.ask(["a1", "a2", "a3"])
    assert waiting.begun == ["a1", "a2"]
    await waiting.end("a2")
    assert waiting.begun == ["a1", "a2", "a3"]
    await waiting.end("a1", "a3")


async def test_namespaces_take_turns_and_each_keeps_its_order() -> None:
    waiting = Waiting(1)
    names = ["a1", "a2", "a3", "a4", "b1", "b2", "c1"]
    await waiting.ask(names)
    for _ in names:
        await waiting.end(waiting.begun[-1])
    assert waiting.begun == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]


async def test_one_that_is_cancelled_while_it_waits_takes_no_turn() -> None:
    waiting = Waiting(1)
    await waiting.ask(["a1", "a2", "b1"])
    await waiting.cancel("a2")
    await waiting.end("a1")
    assert waiting.begun == ["a1", "b1"]
    await waiting.end("b1")
    await waiting.ask(["c1"])
    assert waiting.begun[-1] == "c1"
    await waiting.end("c1")


async def test_a_turn_that_is_given_to_one_being_cancelled_goes_to_the_next() -> None:
    waiting = Waiting(1)
    await waiting.ask(["a1", "b1", "c1"])
    waiting.end_soon("a1")
    # The turn ends in this step of the loop, and the one that gets it is cancelled in the same.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel_soon("b1")
    await settled()
    assert waiting.begun[-1] == "c1"
    await waiting.end("c1")


async def test_a_turn_ends_where_what_it_was_for_fails() -> None:
    turns, entered = FairSemaphore(1), False
    for _ in range(2):
        try:
            async with turns.slot("a"):
                raise ValueError
        except ValueError:
            pass
    async with turns.slot("b"):
        entered = True
    assert entered
