import asyncio
import datetime
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.effects import (
    CardChange,
    Overuse,
    PodWarning,
    ReportCardChange,
    ReportOvercommit,
    ReportPodWarning,
    ReportScheduled,
    ReportWaiting,
)
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.edges.scheduler.writes.report_lane import LONG_BYTES, ReportLane
from kubeshare_py.edges.scheduler.writes.report_requests import RepeatedEvent, send_event
from kubeshare_py.manifests.reports import ReportedEvent, regarding_pod
from kubeshare_py.manifests.watch import Codec, ListResult
from tests.edges.bare_server import client_of, status
from tests.embedded_cluster.embedded import PODS, cluster, create_pod, scheduled_condition
from tests.patience import PATIENCE_S

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
FULL = Diagnosis(nodes=3, counts=(("full", 3),))
TAINTED = Diagnosis(nodes=3, counts=(("tainted", 3),))


def waiting(uid: str, name: str = "a", diagnosis: Diagnosis = FULL) -> ReportWaiting:
    return ReportWaiting(uid=PodUid(uid), key=PodKey("default", name), diagnosis=diagnosis)


def scheduled(uid: str, name: str = "a") -> ReportScheduled:
    return ReportScheduled(uid=PodUid(uid), key=PodKey("default", name), node=NodeName("n1"))


@asynccontextmanager
async def running(lane: ReportLane) -> AsyncIterator[None]:
    task = asyncio.ensure_future(lane.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


class Recorder:
    """Knows every pod (unbound, uid "u-<name>"), takes every event, and tells what is asked."""

    def __init__(self) -> None:
        self.seen: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self.refuse: list[web.Response] = []
        self.get_arrived = asyncio.Event()
        self.hold_gets = asyncio.Event()
        self.hold_gets.set()
        self.patch_arrived = asyncio.Event()
        self.hold_patches = asyncio.Event()
        self.hold_patches.set()

    async def answer(self, request: web.Request) -> web.Response:
        body = json.loads(await request.text() or "null")
        if request.method == "PATCH":
            self.patch_arrived.set()
            await self.hold_patches.wait()
        if request.method == "GET":
            self.get_arrived.set()
            await self.hold_gets.wait()
        if self.refuse:
            return self.refuse.pop(0)
        if request.method == "GET":
            name = request.path.rpartition("/")[2]
            return web.json_response({"metadata": {"uid": f"u-{name}"}, "spec": {}})
        self.seen.put_nowait((f"{request.method} {request.path}", body))
        return web.json_response({})

    async def next(self, count: int) -> dict[str, Any]:
        """The next requests that write, in no order."""
        return dict([await self.seen.get() for _ in range(count)])


@asynccontextmanager
async def recording(recorder: Recorder, **options: Any) -> AsyncIterator[ReportLane]:
    async with client_of(recorder.answer) as client:
        lane = ReportLane(client, instance="test", **options)
        async with running(lane):
            yield lane


class Metadata(msgspec.Struct):
    name: str
    resourceVersion: str


class Anything(msgspec.Struct):
    """The fields of pods and events that these tests look at."""

    metadata: Metadata
    status: dict[str, Any] = msgspec.field(default_factory=dict)
    series: dict[str, Any] | None = None
    regarding: dict[str, Any] = msgspec.field(default_factory=dict)
    reason: str = ""
    action: str = ""
    type: str = ""
    note: str = ""
    reportingController: str = ""


async def seen(
    client: KubeClient, path: str, wanted: Callable[[Anything], object] = bool
) -> Anything:
    """The first object of a collection that is as wanted, now or later."""
    async with aclosing(follow(client, path, Codec(Anything))) as stream:
        async for one in stream:
            items = (
                one.items if isinstance(one, ListResult) else [line.item for line in one.changed]
            )
            for item in items:
                if item is not None and wanted(item):
                    return item
    raise AssertionError("a watch never ends")


def _says(note: str, event: Anything) -> bool:
    return event.note == note


def _is_about(kind: str, begins: str, event: Anything) -> bool:
    return event.regarding["kind"] == kind and event.note.startswith(begins)


def condition_of(pod: Anything) -> dict[str, Any]:
    return scheduled_condition({"status": pod.status})


async def test_a_waiting_pod_gets_the_condition_and_an_event(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        pod = await create_pod(client, "a")
        lane = ReportLane(client, instance="test")
        async with running(lane):
            lane.waiting(waiting(pod["metadata"]["uid"]))
            event = await seen(client, EVENTS)
            condition = condition_of(await seen(client, PODS, condition_of))
    assert condition["reason"] == "Unschedulable"
    assert condition["message"] == "0/3 nodes are available: 3 full."
    assert condition["lastTransitionTime"]
    assert (event.reason, event.action, event.type) == (
        "FailedScheduling",
        "Scheduling",
        "Warning",
    )
    assert event.note == "0/3 nodes are available: 3 full."
    assert event.regarding["uid"] == pod["metadata"]["uid"]


async def test_a_bound_pod_gets_a_scheduled_event_like_kube_schedulers(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        lane = ReportLane(client, instance="test")
        async with running(lane):
            lane.scheduled(scheduled("u"))
            event = await seen(client, EVENTS)
    assert (event.reason, event.action, event.type) == ("Scheduled", "Binding", "Normal")
    assert event.note == "Successfully assigned default/a to n1"
    assert event.reportingController == "kubeshare-scheduler"


async def test_a_node_whose_card_is_over_committed_gets_an_event_for_kubectl_describe(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as (_, client):
        lane = ReportLane(client, instance="test")
        node, card = NodeName("n1"), GpuUuid("GPU-1")
        async with running(lane):
            lane.overcommit(ReportOvercommit(node, card, True, "too much"))
            over = await seen(client, EVENTS, lambda one: one.reason == "GPUOvercommitted")
            lane.overcommit(ReportOvercommit(node, card, False, "right again"))
            ended = await seen(client, EVENTS, lambda one: one.reason == "GPUOvercommitEnded")
            for port in (50051, 50052):
                told = ReportOvercommit(node, None, True, f"{port} twice", Overuse.PORT, port)
                lane.overcommit(told)
                text = f"{port} twice"
                shared = await seen(client, EVENTS, partial(_says, text))
                assert (shared.type, shared.reason) == ("Warning", "PodManagerPortShared")
    assert over.regarding == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1"}
    assert (over.type, over.action, over.note) == ("Warning", "Charging", "too much")
    assert (ended.type, ended.note) == ("Normal", "right again")


async def test_a_pod_to_which_others_did_something_gets_a_warning(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        pod = (await create_pod(client, "a"))["metadata"]["uid"]
        lane = ReportLane(client, instance="test")
        key = PodKey("default", "a")
        async with running(lane):
            lane.warning(ReportPodWarning(PodUid(pod), key, PodWarning.NOT_OURS, "not ours"))
            told = await seen(client, EVENTS, lambda one: one.reason == "AllocationNotOurs")
    assert (told.type, told.action, told.note) == ("Warning", "Charging", "not ours")
    assert (told.regarding["kind"], told.regarding["uid"]) == ("Pod", pod)


async def test_a_card_that_fails_is_an_event_of_its_node_and_of_its_pods(tmp_path: Path) -> None:
    node, cards = NodeName("n1"), (GpuUuid("GPU-1"), GpuUuid("GPU-2"))
    async with cluster(tmp_path) as (_, client):
        uid = PodUid((await create_pod(client, "a"))["metadata"]["uid"])
        lane = ReportLane(client, instance="test")
        async with running(lane):
            for index, card in enumerate(cards):
                name, pods = f"GPU {index} (T4, {card})", ((PodKey("default", "a"), uid),)
                lane.card_changed(ReportCardChange(node, card, CardChange.FAILED, name, pods))
            told = [
                await seen(client, EVENTS, partial(_is_about, kind, f"GPU {index} "))
                for kind in ("Node", "Pod")
                for index in range(2)
            ]
            back = ReportCardChange(node, cards[0], CardChange.RECOVERED, "GPU 0")
            lane.card_changed(back)
            well = await seen(client, EVENTS, lambda one: one.reason == "GPUHealthy")
    assert {(one.type, one.reason, one.action) for one in told} == {
        ("Warning", "GPUUnhealthy", "Watching")
    }
    assert told[0].note == (
        "GPU 0 (T4, GPU-1) is unhealthy: no more pods are placed on it. It is held by default/a"
    )
    assert told[2].note == (
        "GPU 0 (T4, GPU-1) of node n1 is unhealthy. The pod keeps it until it is deleted"
    )
    assert (well.type, well.note) == ("Normal", "GPU 0 is healthy again")


async def test_a_card_that_flaps_is_one_series(tmp_path: Path) -> None:
    node, card = NodeName("n1"), GpuUuid("GPU-1")
    async with cluster(tmp_path) as (_, client):
        lane = ReportLane(client, instance="test")
        async with running(lane):
            lane.card_changed(ReportCardChange(node, card, CardChange.FAILED, "GPU 0"))
            first = await seen(client, EVENTS)
            for change in (CardChange.RECOVERED, CardChange.FAILED):
                lane.card_changed(ReportCardChange(node, card, change, "GPU 0"))
            again = await seen(client, EVENTS, lambda event: event.series)
    assert again.metadata.name == first.metadata.name
    assert again.series is not None
    assert again.series["count"] == 2


async def test_a_second_occurrence_makes_the_event_a_series(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        pod = await create_pod(client, "a")
        lane = ReportLane(client, instance="test")
        async with running(lane):
            lane.waiting(waiting(pod["metadata"]["uid"]))
            first = await seen(client, EVENTS)
            lane.waiting(waiting(pod["metadata"]["uid"], diagnosis=TAINTED))
            again = await seen(client, EVENTS, lambda event: event.series)
    assert again.metadata.name == first.metadata.name
    assert again.series is not None
    assert again.series["count"] == 2


async def test_a_later_text_keeps_the_time_of_the_transition() -> None:
    recorder = Recorder()
    async with recording(recorder) as lane:
        lane.waiting(waiting("u-a"))
        first = (await recorder.next(2))["PATCH /api/v1/namespaces/default/pods/a/status"]
        lane.waiting(waiting("u-a", diagnosis=TAINTED))
        second = (await recorder.next(2))["PATCH /api/v1/namespaces/default/pods/a/status"]
    assert "lastTransitionTime" in first["status"]["conditions"][0]
    assert "lastTransitionTime" not in second["status"]["conditions"][0]
    assert second["metadata"]["uid"] == "u-a"


async def test_a_pod_that_says_it_already_is_not_patched() -> None:
    recorder = Recorder()
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    told["message"] = FULL.message
    recorder.refuse.append(
        web.json_response(
            {"metadata": {"uid": "u-a"}, "spec": {}, "status": {"conditions": [told]}}
        )
    )
    async with recording(recorder, workers=1) as lane:
        lane.waiting(waiting("u-a"))
        assert list(await recorder.next(1)) == [f"POST {EVENTS}"]
        assert recorder.seen.empty()


OTHER_POD = "Precondition failed: UID in precondition: u-a, UID in object meta: u-z"
OTHER_UID = 'Pod "a" is invalid: metadata.uid: Invalid value: "u-a": field is immutable'


@pytest.mark.parametrize(
    ("code", "message"), [(404, "not found"), (409, OTHER_POD), (422, OTHER_UID)]
)
async def test_a_vanished_pod_is_ignored(
    code: int, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder()
    recorder.refuse.append(status(code, message=message))
    async with recording(recorder, workers=1) as lane:
        lane.waiting(waiting("u-a"))
        lane.scheduled(scheduled("u-b", "b"))
        await recorder.next(2)
    assert lane.queued == 0
    assert not caplog.records


async def test_a_failure_is_retried_and_blocks_nobody() -> None:
    recorder = Recorder()
    busy = status(429, "TooManyRequests")
    busy.headers["Retry-After"] = "3600"
    recorder.refuse.append(busy)
    async with recording(recorder, workers=1) as lane:
        lane.waiting(waiting("u-a"))
        await recorder.next(1)
        lane.waiting(waiting("u-b", "b"))
        writes = await recorder.next(2)
        assert "PATCH /api/v1/namespaces/default/pods/b/status" in writes
        assert lane.queued == 1


@pytest.mark.parametrize(
    ("code", "message"), [(403, "cannot patch resource"), (409, "the object has been modified")]
)
async def test_a_refusal_that_may_end_is_not_the_last_word(code: int, message: str) -> None:
    recorder = Recorder()
    recorder.refuse.append(status(code, message=message))
    async with recording(recorder, workers=1) as lane:
        lane.waiting(waiting("u-a"))
        assert list(await recorder.next(1)) == [f"POST {EVENTS}"]
        assert lane.queued == 1


async def test_binds_go_first_and_the_lane_goes_on_after_them() -> None:
    recorder = Recorder()
    async with recording(recorder, patience_s=3600) as lane:
        async with lane.hold_back(PodUid("u-x")), lane.hold_back(PodUid("u-y")):
            lane.waiting(waiting("u-a"))
            for _ in range(20):
                await asyncio.sleep(0)
            assert recorder.seen.empty()
        await recorder.next(2)


async def test_binds_without_end_do_not_silence_the_lane() -> None:
    recorder = Recorder()
    async with recording(recorder, patience_s=0.001) as lane, lane.hold_back(PodUid("u-x")):
        lane.waiting(waiting("u-a"))
        assert len(await recorder.next(2)) == 2


async def test_nothing_of_a_pods_waiting_is_written_once_it_is_being_bound() -> None:
    recorder = Recorder()
    async with client_of(recorder.answer) as client:
        lane = ReportLane(client, instance="test", workers=1)
        lane.waiting(waiting("u-a"))
        async with lane.hold_back(PodUid("u-a")):
            lane.scheduled(scheduled("u-a"))
        async with running(lane):
            [(_, event)] = (await recorder.next(1)).items()
            assert event["reason"] == "Scheduled"
            assert lane.queued == 0


async def test_a_refused_bind_does_not_bring_back_what_was_queued_before_it() -> None:
    recorder = Recorder()
    async with client_of(recorder.answer) as client:
        lane = ReportLane(client, instance="test", workers=1)
        lane.waiting(waiting("u-a"))
        async with lane.hold_back(PodUid("u-a")):
            pass
        async with running(lane):
            assert list(await recorder.next(1)) == [f"POST {EVENTS}"]
            assert lane.queued == 0


async def test_a_bind_that_overtakes_a_condition_keeps_it_from_being_written() -> None:
    recorder = Recorder()
    recorder.hold_gets.clear()
    async with recording(recorder, workers=1, patience_s=0) as lane:
        lane.waiting(waiting("u-a"))
        await recorder.get_arrived.wait()
        async with lane.hold_back(PodUid("u-a")):
            recorder.hold_gets.set()
            assert list(await recorder.next(1)) == [f"POST {EVENTS}"]


async def test_a_pod_that_waits_for_something_else_keeps_the_time_of_the_transition() -> None:
    recorder = Recorder()
    told = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    recorder.refuse.append(
        web.json_response(
            {"metadata": {"uid": "u-a"}, "spec": {}, "status": {"conditions": [told]}}
        )
    )
    async with recording(recorder) as lane:
        lane.waiting(waiting("u-a"))
        patch = (await recorder.next(2))["PATCH /api/v1/namespaces/default/pods/a/status"]
    assert "lastTransitionTime" not in patch["status"]["conditions"][0]


async def test_an_event_that_exists_already_counts_as_written() -> None:
    recorder = Recorder()
    recorder.refuse.append(status(409, "AlreadyExists"))
    async with recording(recorder, workers=1) as lane:
        lane.scheduled(scheduled("u-a"))
        lane.scheduled(scheduled("u-b", "b"))
        await recorder.next(1)
    assert (lane.dropped, lane.queued) == (0, 0)


async def test_a_series_whose_event_expired_is_created_again_with_its_count() -> None:
    recorder = Recorder()
    async with client_of(recorder.answer) as client:
        key = PodKey("default", "a")
        at = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        about = regarding_pod(PodUid("u-a"), key)
        event = ReportedEvent(regarding=about, reason="FailedScheduling", note="n", at=at)
        series = RepeatedEvent(event=event, last=at, last_now=0, count=7, created=True)
        recorder.refuse.append(status(404, "NotFound"))
        await send_event(client, series, 7, "test")
        [(request, body)] = (await recorder.next(1)).items()
    assert request == f"POST {EVENTS}"
    assert body["series"] == {"count": 7, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}


async def test_a_bind_waits_for_a_condition_that_is_being_written() -> None:
    recorder = Recorder()
    recorder.hold_patches.clear()
    order: list[str] = []

    async def bind(lane: ReportLane) -> None:
        async with lane.hold_back(PodUid("u-a")):
            order.append("bind")

    async with recording(recorder, workers=1) as lane:
        lane.waiting(waiting("u-a"))
        await recorder.patch_arrived.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(bind(lane))
            await asyncio.sleep(0)
            order.append("patched")
            recorder.hold_patches.set()
    assert order == ["patched", "bind"]


async def test_long_pods_are_written_one_at_a_time_and_hold_up_no_others() -> None:
    others, long = [f"other-{one}" for one in range(8)], [f"long-{one}" for one in range(6)]
    written: asyncio.Queue[str] = asyncio.Queue()
    others_written, reads, now, most = asyncio.Event(), 0, 0, 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal reads, now, most
        name = request.path.split("/")[6]
        is_long = name in long
        if request.method == "GET":
            reads += 1
            spec = {"image": "x" * LONG_BYTES * is_long}
            return web.json_response({"metadata": {"uid": f"u-{name}"}, "spec": spec})
        if request.path.endswith("/status"):
            now, most = now + is_long, max(most, now + is_long)
            if is_long:
                await others_written.wait()
            now -= is_long
            written.put_nowait(name)
        return web.json_response({})

    async with client_of(answer) as client:
        lane = ReportLane(client, instance="test")
        for name in long + others:
            lane.waiting(waiting(f"u-{name}", name))
        async with running(lane), asyncio.timeout(PATIENCE_S):
            assert {await written.get() for _ in others} == {*others}
            others_written.set()
            assert {await written.get() for _ in long} == {*long}
            for name in long[:-1]:
                lane.waiting(waiting(f"u-{name}", name, TAINTED))
            assert {await written.get() for _ in long[:-1]} == {*long[:-1]}
    assert most == 1
    # A long pod is read once more when its turn comes.
    assert reads == len(others) + 2 * len(long) + len(long[:-1])


async def test_a_long_pod_that_is_bound_before_its_turn_is_left_alone() -> None:
    bound: set[str] = set()
    patched: list[str] = []
    first, end = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        name = request.path.split("/")[6]
        if request.method == "GET":
            spec = {"image": "x" * LONG_BYTES, "nodeName": "n1" if name in bound else ""}
            return web.json_response({"metadata": {"uid": f"u-{name}"}, "spec": spec})
        if request.path.endswith("/status"):
            patched.append(name)
            first.set()
            if name == "a":
                await end.wait()
            if name == "c":
                last.set()
        return web.json_response({})

    last = asyncio.Event()
    async with client_of(answer) as client:
        lane = ReportLane(client, instance="test")
        for name in "abc":
            lane.waiting(waiting(f"u-{name}", name))
        async with running(lane), asyncio.timeout(PATIENCE_S):
            await first.wait()
            bound.add("b")
            end.set()
            await last.wait()
    assert patched == ["a", "c"]
