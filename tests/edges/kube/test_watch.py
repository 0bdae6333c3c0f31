import asyncio
import json
import weakref
from collections.abc import Collection, Sequence
from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from kubeshare_py.edges.kube.watch import LONGEST_WATCH_S, SHORTEST_WATCH_S, Patience, follow
from kubeshare_py.edges.process.backoff import Backoff
from kubeshare_py.manifests.watch import Changes, Codec, ListResult
from tests.edges.bare_server import NoSleep, client_of, send_lines, status
from tests.embedded_cluster.embedded import PODS, cluster, create_pod

PATH = "/api/v1/things"


PATIENT = Patience()


class Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""


class Thing(msgspec.Struct):
    metadata: Meta
    size: int = 0


Seen = ListResult[Thing] | Changes[Thing]


def thing(name: str, version: int, **fields: object) -> dict[str, object]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}, **fields}


def change(kind: str, name: str, version: int, **fields: object) -> dict[str, object]:
    return {"type": kind, "object": thing(name, version, **fields)}


def bookmark(version: int) -> dict[str, object]:
    return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}


def error(code: int) -> dict[str, object]:
    return {"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "code": code}}


class Server:
    """Answers LISTs with one object named after the list, and watches by a script.

    Each watch takes the next entry: a list of events to send before it ends, or a response. When
    the script is over, watches stay open and silent.
    """

    def __init__(self, *script: Sequence[object] | web.Response | bytes) -> None:
        self.script = list(script)
        self.lists = 0
        self.watched_from: list[str] = []
        self.refuse_lists: list[web.Response] = []
        self.closing = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            # With a version it could be answered from a cache that is behind.
            assert "resourceVersion" not in request.query
            return self._list()
        if "sendInitialEvents" in request.query:
            return status(422, "Invalid")
        assert request.query["allowWatchBookmarks"] == "true"
        assert 300 <= int(request.query["timeoutSeconds"]) <= 600
        self.watched_from.append(request.query["resourceVersion"])
        step = self.script.pop(0) if self.script else None
        if isinstance(step, web.Response):
            return step
        response = web.StreamResponse()
        await response.prepare(request)
        if step is None:
            await self.closing.wait()
        elif isinstance(step, bytes):
            await response.write(step)
        else:
            await send_lines(response, *step)
        return response

    def _list(self) -> web.Response:
        if self.refuse_lists:
            return self.refuse_lists.pop(0)
        self.lists += 1
        version = 100 * self.lists
        items = [thing(f"list{self.lists}", version)]
        return web.json_response({"metadata": {"resourceVersion": str(version)}, "items": items})


async def see(server: Server, count: int, sleep: NoSleep | None = None) -> list[str]:
    """The first `count` things seen: "[names]" for a list, "TYPE name" for a change."""
    seen: list[str] = []
    backoff = Backoff(sleep=sleep or NoSleep())
    async with (
        client_of(server.answer) as client,
        aclosing(follow(client, PATH, Codec(Thing), backoff=backoff)) as stream,
    ):
        async for one in stream:
            seen += said(one)
            if len(seen) >= count:
                break
        server.closing.set()
    return seen


def said(one: Seen) -> list[str]:
    if isinstance(one, ListResult):
        return [str([item.metadata.name for item in one.items])]
    return [
        f"{line.type} {line.item.metadata.name if line.item else line.problem}"
        for line in one.changed
    ]


async def test_lists_and_then_tells_what_changes() -> None:
    server = Server([change("ADDED", "a", 101), change("DELETED", "a", 102)])
    assert await see(server, 3) == ["['list1']", "ADDED a", "DELETED a"]
    assert server.watched_from == ["100"]


async def test_asks_a_list_before_it_says_when() -> None:
    server = Server()
    async with (
        client_of(server.answer) as client,
        aclosing(follow(client, PATH, Codec(Thing))) as stream,
    ):
        before = asyncio.get_running_loop().time()
        listed = await anext(stream)
        assert isinstance(listed, ListResult)
        assert before <= listed.asked_at <= asyncio.get_running_loop().time()
        server.closing.set()


async def test_goes_on_where_a_cut_watch_ended_without_a_new_list() -> None:
    server = Server([change("ADDED", "a", 101), bookmark(150)], [change("MODIFIED", "a", 151)])
    assert await see(server, 3) == ["['list1']", "ADDED a", "MODIFIED a"]
    assert server.watched_from == ["100", "150"]


async def test_a_busy_server_that_ends_watches_soon_is_watched_again_at_once() -> None:
    """It ends those whose reader is slower than the news; client-go makes no pause either."""
    sleep = NoSleep()
    server = Server(*([change("ADDED", "a", version)] for version in range(101, 106)))
    assert await see(server, 6, sleep) == ["['list1']", *["ADDED a"] * 5]
    assert server.watched_from == ["100", "101", "102", "103", "104"]
    assert not sleep.asked


async def test_watches_that_end_soon_and_bring_nothing_are_not_begun_in_a_tight_loop() -> None:
    sleep = NoSleep()
    server = Server([], [], [change("ADDED", "a", 101)])
    assert await see(server, 2, sleep) == ["['list1']", "ADDED a"]
    assert len(sleep.asked) == 2


async def test_an_unfinished_line_of_a_cut_watch_is_sent_again_by_the_next() -> None:
    whole = json.dumps(change("ADDED", "a", 101)).encode() + b"\n"
    half = json.dumps(change("ADDED", "b", 102)).encode()[:30]
    server = Server(whole + half, [change("ADDED", "b", 102)])
    assert await see(server, 3) == ["['list1']", "ADDED a", "ADDED b"]
    assert server.watched_from == ["100", "101"]


async def test_lists_again_when_the_history_is_gone() -> None:
    event_410 = [change("ADDED", "a", 101), error(410)]
    server = Server(event_410, status(410, "Expired"), [change("ADDED", "b", 301)])
    expected = ["['list1']", "ADDED a", "['list2']", "['list3']", "ADDED b"]
    assert await see(server, 5) == expected
    assert server.watched_from == ["100", "200", "300"]


async def test_a_server_whose_history_is_always_gone_is_not_asked_in_a_tight_loop() -> None:
    sleep = NoSleep()
    server = Server(*([error(410)] for _ in range(6)), [change("ADDED", "a", 1)])
    await see(server, 8, sleep)
    assert len(sleep.asked) == 6
    assert all(
        earlier <= later for earlier, later in zip(sleep.asked[:4], sleep.asked[1:5], strict=True)
    )
    assert 8 <= sleep.asked[-1] <= 9


async def test_an_error_that_may_pass_is_waited_out_without_a_new_list() -> None:
    busy = status(429, "TooManyRequests")
    busy.headers["Retry-After"] = "9"
    sleep = NoSleep()
    server = Server(busy, [error(500)], status(503), [change("ADDED", "a", 101)])
    assert await see(server, 2, sleep) == ["['list1']", "ADDED a"]
    assert server.lists == 1
    assert server.watched_from == ["100"] * 4
    assert sleep.asked[0] == 9


async def test_a_watch_that_is_refused_lists_again() -> None:
    server = Server(status(400, "BadRequest"), [change("ADDED", "a", 201)])
    assert await see(server, 3) == ["['list1']", "['list2']", "ADDED a"]


async def test_bytes_that_are_no_event_lead_to_a_new_list() -> None:
    server = Server(b"<html>what?</html>\n", [change("ADDED", "a", 201)])
    assert await see(server, 3) == ["['list1']", "['list2']", "ADDED a"]


async def test_a_malformed_object_is_told_and_the_rest_goes_on() -> None:
    server = Server([change("ADDED", "bad", 101, size="huge"), change("ADDED", "a", 102)])
    seen = await see(server, 3)
    assert seen[1].startswith("ADDED Problem(text='Expected `int`")
    assert seen[2] == "ADDED a"


async def test_a_failing_list_is_tried_until_it_works() -> None:
    server = Server()
    server.refuse_lists = [status(403, "Forbidden"), web.Response(text="<html>"), status(500)]
    sleep = NoSleep()
    assert await see(server, 1, sleep) == ["['list1']"]
    assert len(sleep.asked) == 3


async def test_an_object_much_longer_than_any_buffer_arrives() -> None:
    long = thing("a", 101) | {"note": "x" * 3_000_000}
    server = Server([{"type": "ADDED", "object": long}, change("ADDED", "b", 102)])
    assert await see(server, 3) == ["['list1']", "ADDED a", "ADDED b"]


async def test_a_list_is_read_by_pages_and_started_over_when_its_token_expires() -> None:
    asked: list[str] = []
    refusals = [status(500), status(410, "Expired")]
    closing = asyncio.Event()
    backoff = Backoff(sleep=NoSleep())

    async def handler(request: web.Request) -> web.StreamResponse:
        if "sendInitialEvents" in request.query:
            return status(400, "BadRequest")
        if "watch" in request.query:
            await closing.wait()
            return web.Response()
        assert request.query["limit"] == "25"
        assert "resourceVersion" not in request.query
        token = request.query.get("continue", "")
        asked.append(token)
        if token and refusals:
            return refusals.pop(0)
        items = [thing("c", 1)] if token else [thing("a", 1), thing("b", 1)]
        metadata = {"resourceVersion": "5"} | ({} if token else {"continue": "more"})
        return web.json_response({"metadata": metadata, "items": items})

    async with (
        client_of(handler) as client,
        aclosing(follow(client, PATH, Codec(Thing), backoff=backoff, page_size=25)) as stream,
    ):
        listed = await anext(stream)
        assert isinstance(listed, ListResult)
        closing.set()
    assert [item.metadata.name for item in listed.items] == ["a", "b", "c"]
    assert asked == ["", "more", "more", "", "more"]


async def test_lines_of_one_chunk_are_one_batch() -> None:
    server = Server(
        b"".join(json.dumps(change("ADDED", str(i), i)).encode() + b"\n" for i in range(1, 9))
    )
    async with (
        client_of(server.answer) as client,
        aclosing(follow(client, PATH, Codec(Thing))) as stream,
    ):
        await anext(stream)
        changes = await anext(stream)
        assert isinstance(changes, Changes)
        assert len(changes.changed) == 8
        server.closing.set()


async def test_follows_the_embedded_server_over_cuts_and_compactions(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path) as (server, client),
        aclosing(follow(client, PODS, Codec(Thing), backoff=Backoff(sleep=NoSleep()))) as stream,
    ):
        await create_pod(client, "a")
        assert said(await anext(stream)) == ["['a']"]
        await create_pod(client, "b")
        assert said(await anext(stream)) == ["ADDED b"]
        await create_pod(client, "c")
        assert server.cut_watches() == 1
        missed = said(await anext(stream))
        assert missed == ["ADDED c"]
        server.compact()
        server.cut_watches()
        await client.delete(f"{PODS}/c")
        assert said(await anext(stream)) in (["['a', 'b']"], ["DELETED c"])


def end_of_list(version: int) -> dict[str, object]:
    annotations = {"k8s.io/initial-events-end": "true"}
    metadata = {"resourceVersion": str(version), "annotations": annotations}
    return {"type": "BOOKMARK", "object": {"metadata": metadata}}


class Streaming:
    """Begins watches with lists. Each watch sends the next entry and ends.

    The last one stays open and silent, and so do those whose numbers are in `silent`. Lists by
    pages are of `version`.
    """

    def __init__(
        self, *script: Sequence[object], silent: Collection[int] = (), version: str = "120"
    ) -> None:
        self.script = list(script)
        self.version = version
        self.silent = {*silent, len(script) - 1}
        self.watched_from: list[str] = []
        self.lists = 0
        self.closing = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            self.lists += 1
            metadata = {"resourceVersion": self.version}
            return web.json_response({"metadata": metadata, "items": [thing("paged", 1)]})
        if "sendInitialEvents" in request.query:
            assert request.query["resourceVersionMatch"] == "NotOlderThan"
            assert request.query["allowWatchBookmarks"] == "true"
        number = len(self.watched_from)
        self.watched_from.append(request.query.get("resourceVersion", "list"))
        response = web.StreamResponse()
        await response.prepare(request)
        if number < len(self.script):
            await send_lines(response, *self.script[number])
        if number >= len(self.script) or number in self.silent:
            await self.closing.wait()
        return response

    async def see(
        self, count: int, patience: Patience = PATIENT, sleep: NoSleep | None = None
    ) -> list[str]:
        seen: list[str] = []
        backoff = Backoff(sleep=sleep or NoSleep())
        async with (
            client_of(self.answer) as client,
            aclosing(
                follow(client, PATH, Codec(Thing), backoff=backoff, patience=patience)
            ) as stream,
        ):
            async for one in stream:
                seen += said(one)
                if len(seen) >= count:
                    break
            self.closing.set()
        return seen


async def test_a_watch_that_begins_with_the_list_is_enough() -> None:
    server = Streaming(
        [
            change("ADDED", "a", 3),
            change("ADDED", "b", 100),
            end_of_list(110),
            change("ADDED", "c", 111),
        ]
    )
    assert await server.see(2) == ["['a', 'b']", "ADDED c"]
    assert (server.lists, server.watched_from) == (0, ["list"])


async def test_changes_before_the_end_of_the_list_are_part_of_it() -> None:
    server = Streaming(
        [
            change("ADDED", "a", 3), change("ADDED", "b", 4), change("ADDED", "c", 5),
            change("DELETED", "b", 105), change("MODIFIED", "a", 106, size="bad"),
            bookmark(107), change("ADDED", "d", 108), end_of_list(110),
        ],
        [change("ADDED", "e", 112)],
    )  # fmt: skip
    assert await server.see(2) == ["['c', 'd']", "ADDED e"]
    assert server.watched_from == ["list", "110"]


async def test_a_watch_that_ends_before_the_list_leads_to_a_list_by_pages() -> None:
    server = Streaming([change("ADDED", "a", 3)], [change("ADDED", "b", 110)])
    assert await server.see(2) == ["['paged']", "ADDED b"]
    assert server.watched_from == ["list", "120"]


async def test_a_server_that_never_tells_the_end_of_the_list_is_asked_for_pages() -> None:
    server = Streaming([change("ADDED", "a", 3)], [change("ADDED", "b", 110)], silent=[0])
    assert await server.see(2, Patience(look_s=0.05)) == ["['paged']", "ADDED b"]


class Refusing(Streaming):
    """Answers each list in a watch with the next refusal, while there are any."""

    def __init__(self, *refusals: web.Response | list[object], lists_fail: int = 0) -> None:
        #: Of watches from a version: the history is gone twice, then they stay open.
        super().__init__([error(410)], [error(410)], [change("ADDED", "b", 110)])
        self.refusals = list(refusals)
        self.lists_fail = lists_fail
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if "sendInitialEvents" in request.query:
            self.asked.append("streamed")
            refusal = self.refusals.pop(0)
            if isinstance(refusal, web.Response):
                return refusal
            response = web.StreamResponse()
            await response.prepare(request)
            await send_lines(response, *refusal)
            return response
        if "watch" not in request.query:
            self.asked.append("paged")
            if self.lists_fail:
                self.lists_fail -= 1
                return status(503)
        return await super().answer(request)


DISABLED = error(500) | {"object": {"code": 500, "message": "RequestWatchProgress is disabled"}}


@pytest.mark.parametrize("code", [401, 403, 404, 405, 410, 500, 501, 503, 504])
async def test_any_refusal_of_a_list_in_a_watch_leads_to_a_list_by_pages(code: int) -> None:
    server = Refusing(*(status(code) for _ in range(3)))
    assert await server.see(4) == ["['paged']"] * 3 + ["ADDED b"]
    assert server.asked == ["streamed", "paged"] * 3


async def test_so_does_a_refusal_that_is_the_first_event() -> None:
    """kube-apiserver 1.36 on an etcd that cannot be asked for progress (before 3.4.31, 3.5.13)."""
    server = Refusing([DISABLED], [change("ADDED", "a", 3), DISABLED], [DISABLED])
    assert await server.see(4) == ["['paged']"] * 3 + ["ADDED b"]
    assert server.asked == ["streamed", "paged"] * 3


@pytest.mark.parametrize("code", [400, 422])
async def test_a_server_that_does_not_know_lists_in_watches_is_asked_once(code: int) -> None:
    server = Refusing(status(code))
    assert await server.see(4) == ["['paged']"] * 3 + ["ADDED b"]
    assert server.asked == ["streamed", "paged", "paged", "paged"]


async def test_a_busy_server_is_asked_for_a_list_in_a_watch_again_after_a_while() -> None:
    server, sleep = Refusing(status(429), status(500), status(500), status(500)), NoSleep()
    await server.see(4, sleep=sleep)
    assert server.asked == ["streamed", *["streamed", "paged"] * 3]
    assert len(sleep.asked) == 3  # the busy server, and two histories that were gone at once


async def test_while_lists_by_pages_fail_too_nothing_else_is_asked_for() -> None:
    server, sleep = Refusing(*(status(503) for _ in range(3)), lists_fail=3), NoSleep()
    await server.see(2, sleep=sleep)
    assert server.asked[:5] == ["streamed", "paged", "paged", "paged", "paged"]
    assert len(sleep.asked) >= 3


async def test_a_list_that_names_no_version_is_not_asked_for_in_a_tight_loop() -> None:
    sleep = NoSleep()

    async def answer(request: web.Request) -> web.Response:
        if "watch" in request.query:
            return status(500)
        return web.json_response({"metadata": {}, "items": []})

    async with (
        client_of(answer) as client,
        aclosing(follow(client, PATH, Codec(Thing), backoff=Backoff(sleep=sleep))) as stream,
    ):
        for _ in range(3):
            await anext(stream)
    assert len(sleep.asked) == 2


async def test_a_server_that_went_back_in_time_is_noticed_although_it_is_silent() -> None:
    restored = [change("ADDED", "old", 2), end_of_list(110)]
    first = [change("ADDED", "a", 3), end_of_list(110)]
    server = Streaming(first, restored, silent=[0], version="109")
    assert await server.see(2, Patience(look_s=0.05)) == ["['a']", "['old']"]
    assert server.watched_from == ["list", "list"]


async def test_a_half_open_watch_is_left_and_goes_on_from_where_it_was() -> None:
    server = Streaming(
        [change("ADDED", "a", 3), end_of_list(7)],
        [change("ADDED", "b", 8)],
        silent=[0],
    )  # fmt: skip
    assert await server.see(2, Patience(look_s=0.02, silence_s=0.06)) == ["['a']", "ADDED b"]
    assert server.watched_from == ["list", "7"]


async def test_it_says_whether_it_hears_the_server() -> None:
    server = Server([change("ADDED", "a", 102)])
    server.refuse_lists = [status(500)]
    said: list[bool] = []
    backoff = Backoff(sleep=NoSleep())
    async with (
        client_of(server.answer) as client,
        aclosing(
            follow(client, PATH, Codec(Thing), backoff=backoff, connected=said.append)
        ) as stream,
    ):
        assert isinstance(await anext(stream), ListResult)
        assert isinstance(await anext(stream), Changes)
        server.closing.set()
    assert said == [False, True]


async def test_watches_end_after_different_times_so_that_clients_spread() -> None:
    server = Server(*([change("MODIFIED", "a", version)] for version in range(101, 113)))
    asked: list[int] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        if "timeoutSeconds" in request.query:
            asked.append(int(request.query["timeoutSeconds"]))
        return await server.answer(request)

    async with (
        client_of(answer) as client,
        aclosing(follow(client, PATH, Codec(Thing), backoff=Backoff(sleep=NoSleep()))) as stream,
    ):
        async for one in stream:
            if "MODIFIED a" in said(one) and len(asked) > 12:
                break
        server.closing.set()
    assert all(SHORTEST_WATCH_S <= seconds <= LONGEST_WATCH_S for seconds in asked)
    assert len(set(asked)) > 3


class Weighed(msgspec.Struct, weakref=True):
    metadata: Meta


async def test_nothing_of_a_batch_is_kept_while_the_watch_is_silent() -> None:
    server = Server()
    two = b"".join(json.dumps(change("ADDED", name, 105)).encode() + b"\n" for name in "ab")

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query or "sendInitialEvents" in request.query:
            return await server.answer(request)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(two)
        await server.closing.wait()
        return response

    async with (
        client_of(answer) as client,
        aclosing(follow(client, PATH, Codec(Weighed), backoff=Backoff(sleep=NoSleep()))) as stream,
    ):
        await anext(stream)
        batch = await anext(stream)
        assert isinstance(batch, Changes)
        seen = [weakref.ref(line.item) for line in batch.changed if line.item is not None]
        assert seen
        del batch
        silent = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        assert [one() for one in seen] == [None] * len(seen)
        silent.cancel()
        await asyncio.wait([silent])
        server.closing.set()


async def test_a_server_that_went_back_in_time_is_noticed_after_a_watch_that_ended_soon() -> None:
    """Nothing was refused meanwhile: it was stopped and restored between two watches."""
    restored = [change("ADDED", "old", 2), end_of_list(110)]
    first = [change("ADDED", "a", 3), end_of_list(110), change("ADDED", "b", 111)]
    server = Streaming(first, restored, version="109")
    assert await server.see(3) == ["['a']", "ADDED b", "['old']"]
