"""The dashboard's server beside an API server: who sees what, and how often it reads the state."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from kubeshare_py.dashboard.fan_out import PRESENT_S, Audience, ViewerId
from kubeshare_py.dashboard.past import PastLog
from kubeshare_py.dashboard.viewers import BAD_TOKEN, EVERYTHING, KEPT_S, Viewer, ViewerRefusal
from kubeshare_py.domain.values import replace
from kubeshare_py.edges.dashboard.as_viewer import MAX_ASKED, ApiAsViewer, NoAnswer
from kubeshare_py.edges.dashboard.server import (
    MAX_AUDIENCES,
    MAX_MADE,
    MAX_STRANGERS,
    WAIT_S,
    Feed,
    Feeds,
    Viewers,
)
from kubeshare_py.embedded_cluster.protocol.messages import ApiRequest
from kubeshare_py.embedded_cluster.serving.server import ADMIN
from kubeshare_py.programs.dashboard import DashboardSettings, api_server, show
from kubeshare_py.scheduling.explain.question import completed
from kubeshare_py.views.view import ClusterView, PodView
from tests.edges import bare_server
from tests.edges.bare_server import plain
from tests.edges.served_state import Behind, Served, behind_api_server
from tests.terminal.views import a_card, a_small_view, a_tenant

GPUS, PODS = "gpus.state.kubeshare.io", "pods.state.kubeshare.io"
MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: new}
spec: {schedulerName: kubeshare-scheduler, containers: [{name: a, image: b}]}
"""

Json = dict[str, Any]


@dataclass
class Stage:
    """A dashboard, and what is behind it. `now` is its clock (s), for rights and presence."""

    behind: Behind
    state: Served
    session: aiohttp.ClientSession
    url: str = ""
    now: float = 1000.0
    asked: list[ApiRequest] = field(default_factory=list)

    @property
    def admin(self) -> str:
        return self.behind.server.tokens[ADMIN]

    def user(self, name: str, *rights: tuple[str, str]) -> str:
        """The token of a user with these rights of the state, each in a namespace or in all."""
        self.behind.server.service.access.objects[name] = {*rights}
        return self.behind.server.add_user(name)

    def reads(self) -> int:
        """How often the state of all cards was read."""
        return sum(1 for one in self.asked if one.path.endswith("/gpus"))

    async def get(self, path: str, token: str = "", **headers: str) -> tuple[int, Json]:
        shown = {**headers, **({"Kubeshare-Token": token} if token else {})}
        async with self.session.get(f"{self.url}/api/{path}", headers=shown) as answer:
            return answer.status, await answer.json()

    async def post(self, path: str, token: str, text: str) -> tuple[int, Json]:
        shown = {"Kubeshare-Token": token}
        where = f"{self.url}/api/{path}"
        async with self.session.post(where, headers=shown, data=text) as answer:
            return answer.status, await answer.json()


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with behind_api_server(tmp_path) as (behind, state), serving(behind, state) as made:
        yield made


@asynccontextmanager
async def serving(
    behind: Behind, state: Served, past: PastLog | None = None
) -> AsyncIterator[Stage]:
    settings = DashboardSettings(address="127.0.0.1", port=0, kubeconfig=behind.kubeconfig)
    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
        stage = Stage(behind, state, session)
        behind.server.audit = stage.asked.append
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        running = group.create_task(
            show(settings, api_server(settings), ready.set_result, lambda: stage.now, past)
        )
        stage.url = await ready
        yield stage
        running.cancel()


async def test_the_page_is_served_with_a_policy_and_asked_for_again_only_if_it_changed(
    stage: Stage,
) -> None:
    async with stage.session.get(stage.url) as answer:
        assert (answer.status, answer.content_type) == (200, "text/html")
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        etag = answer.headers["ETag"]
    async with stage.session.get(stage.url, headers={"If-None-Match": etag}) as answer:
        assert (answer.status, await answer.read()) == (304, b"")
    for path in ("main.js", "style.css", "icon.svg"):
        async with stage.session.get(f"{stage.url}/{path}") as answer:
            assert answer.status == 200
    for path in ("none.js", "..%2F__init__.py", "api/none"):
        async with stage.session.get(f"{stage.url}/{path}") as answer:
            assert answer.status == 404
            assert "Content-Security-Policy" in answer.headers


async def test_without_a_token_of_the_cluster_nothing_is_told(stage: Stage) -> None:
    for path in ("me", "state", "pods/default/train"):
        code, body = await stage.get(path)
        assert (code, "sign in" in body["message"]) == (401, True)
        code, body = await stage.get(path, "nobody's")
        assert (code, "does not accept" in body["message"]) == (401, True)
    assert stage.reads() == 0
    # The kubeconfig has an administrator's token, which is for no request.
    assert stage.admin not in str(stage.behind.server.headers)


async def test_another_sites_page_gets_nothing_whatever_a_proxy_adds(stage: Stage) -> None:
    headers = {"Authorization": f"Bearer {stage.admin}", "Sec-Fetch-Site": "cross-site"}
    code, _ = await stage.get("state", **headers)
    assert code == 403
    code, _ = await stage.get("state", **{**headers, "Sec-Fetch-Site": "same-origin"})
    assert code == 200


async def test_those_who_may_see_everything_share_one_read(stage: Stage) -> None:
    bob = stage.user("bob", (GPUS, ""), (PODS, ""))
    code, first = await stage.get("state", stage.admin)
    assert (code, first["whole"], len(first["nodes"])) == (200, True, 3)
    code, second = await stage.get("state", bob)
    assert (code, second["version"]) == (200, first["version"])
    assert stage.reads() == 1


async def test_others_get_an_answer_of_their_own_read_with_their_own_token(stage: Stage) -> None:
    jane, joe = (stage.user(name, (GPUS, ""), (PODS, "default")) for name in ("jane", "joe"))
    _, hers = await stage.get("state", jane)
    _, his = await stage.get("state", joe)
    _, all_of_it = await stage.get("state", stage.admin)
    assert len({one["version"] for one in (hers, his, all_of_it)}) == 3
    readers = [one.user.name for one in stage.asked if one.path.endswith("/gpus")]
    assert readers == ["jane", "joe", ADMIN]


async def test_a_user_who_may_list_no_cards_is_told_why(stage: Stage) -> None:
    code, body = await stage.get("state", stage.user("mallory", (PODS, "default")))
    assert (code, "kubeshare-gpu-reader" in body["message"]) == (403, True)
    assert stage.reads() == 0


async def test_a_page_that_waits_gets_the_rows_that_changed(stage: Stage) -> None:
    _, first = await stage.get("state", stage.admin)
    waiting = asyncio.ensure_future(stage.get(f"state?since={first['version']}", stage.admin))
    stage.state.view = changed()
    stage.now += 100.0
    code, body = await waiting
    assert (code, body["whole"]) == (200, False)
    assert [row[0] for row in body["nodes"]] == ["n1"]
    # A page of another server's or another time's version begins anew.
    for since in ("", "x", f"{first['version'].partition('-')[0]}-99-1", "a-b-c", "-1-1"):
        code, body = await stage.get(f"state?since={since}", stage.admin)
        assert (code, body["whole"], len(body["nodes"])) == (200, True, 3)


def changed() -> ClusterView:
    """The small view with one more pod on a card of n1."""
    view = a_small_view()
    first, *rest = view.nodes
    card = a_card(1, a_tenant("late"))
    return replace(view, nodes=(replace(first, cards=(first.cards[0], card)), *rest))


async def test_a_viewer_who_loses_its_rights_gets_nothing_more(stage: Stage) -> None:
    bob = stage.user("bob", (GPUS, ""), (PODS, ""))
    _, first = await stage.get("state", bob)
    waiting = asyncio.ensure_future(stage.get(f"state?since={first['version']}", bob))
    await asyncio.sleep(0)
    stage.user("bob")
    stage.state.view = changed()
    stage.now += KEPT_S
    code, body = await waiting
    assert (code, "nodes" in body) == (403, False)
    stage.now += KEPT_S
    del stage.behind.server.tokens["bob"]
    assert (await stage.get("me", bob))[0] == 401


async def test_a_viewer_who_loses_its_rights_is_told_so_while_nothing_else_happens(
    stage: Stage,
) -> None:
    bob = stage.user("bob", (GPUS, ""), (PODS, ""))
    _, first = await stage.get("state", bob)
    stage.now += KEPT_S - 0.05
    arrived = asyncio.Event()
    stage.behind.server.audit = lambda _: arrived.set()
    waiting = asyncio.ensure_future(stage.get(f"state?since={first['version']}", bob))
    await arrived.wait()  # It makes the state be read once more, and waits.
    stage.user("bob")
    stage.now += 0.05
    async with asyncio.timeout(WAIT_S - 1.0):  # Not only when it has waited for news in vain.
        assert (await waiting)[0] == 403


async def test_a_viewer_who_sees_less_than_before_gets_the_state_anew(stage: Stage) -> None:
    bob = stage.user("bob", (GPUS, ""), (PODS, ""))
    _, first = await stage.get("state", bob)
    stage.user("bob", (GPUS, ""), (PODS, "default"))
    stage.now += KEPT_S
    code, body = await stage.get(f"state?since={first['version']}", bob)
    assert (code, body["whole"]) == (200, True)
    assert body["version"].partition("-")[0] != first["version"].partition("-")[0]


async def test_a_scheduler_that_is_away_is_told_and_what_was_read_stays(stage: Stage) -> None:
    _, first = await stage.get("state", stage.admin)
    stage.behind.server.target = None
    stage.now += 100.0
    code, body = await stage.get(f"state?since={first['version']}", stage.admin)
    assert (code, body["whole"], body["nodes"]) == (200, False, [])
    assert "does not serve state.kubeshare.io" in body["problem"]
    stage.behind.server.target = stage.state
    stage.now += 100.0
    code, body = await stage.get(f"state?since={body['version']}", stage.admin)
    assert (code, body["problem"]) == (200, "")


async def test_before_the_first_answer_the_reason_is_told(stage: Stage) -> None:
    stage.behind.server.target = None
    code, body = await stage.get("state", stage.admin)
    assert (code, "is kubeshare-scheduler installed" in body["message"]) == (503, True)


async def test_without_viewers_nothing_is_read_and_nothing_is_kept(stage: Stage) -> None:
    _, first = await stage.get("state", stage.admin)
    stage.now += 2 * PRESENT_S
    _, other = await stage.get("state", stage.user("jane", (GPUS, "")))
    assert stage.reads() == 2
    _, again = await stage.get("state", stage.admin)
    epochs = {one["version"].partition("-")[0] for one in (first, other, again)}
    assert (len(epochs), stage.reads()) == (3, 3)


async def test_answers_are_compressed_once_for_all_who_want_that(stage: Stage) -> None:
    headers = {"Kubeshare-Token": stage.admin, "Accept-Encoding": "gzip"}
    async with stage.session.get(f"{stage.url}/api/state", headers=headers) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert (await answer.json())["whole"] is True
        assert answer.headers["Cache-Control"] == "no-store"


async def test_only_the_answers_used_last_are_kept_made() -> None:
    feed, pods = Feed(), list[PodView]()
    for number in range(MAX_MADE + 2):
        pods.append(PodView(namespace="team", name=f"p{number}", uid=f"u{number}", state="bound"))
        view = ClusterView(scheduler="s", ready=True, inventory="read", pods=tuple(pods))
        completed(feed.state.take(msgspec.json.encode(view)))
        feed.publish("", changed=True)
    versions = [f"{feed.epoch}-{number}-1" for number in range(1, MAX_MADE + 2)]
    whole = await feed.answer("", compressed=False)
    first = await feed.answer(versions[0], compressed=False)
    for version in versions[1:MAX_MADE]:
        await feed.answer(version, compressed=False)
        assert await feed.answer("", compressed=False) is whole
    assert await feed.answer("", compressed=False) is whole
    again = await feed.answer(versions[0], compressed=False)
    assert (again == first, again is first) == (True, False)


async def test_a_state_is_kept_for_so_many_viewers_with_rights_of_their_own() -> None:
    def viewer(name: str, audience: str) -> Viewer:
        return Viewer(id=ViewerId(name), name=name, audience=Audience(audience), sees_all=False)

    async with ApiAsViewer(plain("http://127.0.0.1:1")) as api, Feeds(api, lambda: 0.0) as feeds:
        known = [feeds.of(viewer(str(one), str(one)), "") for one in range(MAX_AUDIENCES)]
        with pytest.raises(NoAnswer, match="no more are shown"):
            feeds.of(viewer("late", "late"), "")
        assert feeds.of(viewer("again", "0"), "") is known[0]
        assert feeds.of(viewer("admin", EVERYTHING), "") not in known


async def test_made_up_tokens_keep_no_viewer_waiting() -> None:
    full, checked, looked_at = asyncio.Event(), asyncio.Event(), set[str]()

    async def review(request: web.Request) -> web.Response:
        token = request.headers["Authorization"]
        if "made-up" in token:
            looked_at.add(token)
            if len(looked_at) == MAX_STRANGERS:
                full.set()
            await checked.wait()
            return bare_server.status(401)
        return answered_review()

    async with viewers_before(review) as (viewers, clock):
        assert isinstance(await viewers.of("ann's"), Viewer)
        made_up = [f"made-up-{number}" for number in range(4 * MAX_ASKED)]
        asked = [asyncio.ensure_future(viewers.of(token)) for token in made_up]
        await full.wait()
        clock.now += KEPT_S
        assert isinstance(await viewers.of("ann's"), Viewer)
        assert len(looked_at) == MAX_STRANGERS
        checked.set()
        found = await asyncio.gather(*asked)
        too_many = ViewerRefusal(503, "too many questions at once; try again")
        assert {*found} == {BAD_TOKEN, too_many}
        # The API server is asked again only about those who were sent away.
        looked_at.clear()
        assert await viewers.of(made_up[0]) == BAD_TOKEN
        assert looked_at == set()


async def test_one_token_is_looked_at_once_at_a_time_also_after_a_failure() -> None:
    second, checked, asked = asyncio.Event(), asyncio.Event(), list[str]()

    async def review(request: web.Request) -> web.Response:
        if request.path.endswith("/selfsubjectreviews"):
            asked.append(request.path)
            if len(asked) == 1:
                return bare_server.status(500)
            second.set()
            await checked.wait()
        return answered_review()

    async with viewers_before(review) as (viewers, _):
        waiting = [asyncio.ensure_future(viewers.of("ann's")) for _ in range(2)]
        await second.wait()
        late = asyncio.ensure_future(viewers.of("ann's"))
        await asyncio.sleep(0)
        checked.set()
        first, *others = await asyncio.gather(*waiting, late)
        assert isinstance(first, ViewerRefusal)
        assert [type(one) for one in others] == [Viewer, Viewer]
        assert len(asked) == 2


def answered_review() -> web.Response:
    status = {"userInfo": {"username": "ann"}, "allowed": True}
    return web.json_response({"status": status}, status=201)


@dataclass
class Clock:
    """A clock (s) that a test sets."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def viewers_before(handler: bare_server.Handler) -> AsyncIterator[tuple[Viewers, Clock]]:
    """Viewers of whom an API server with this handler is asked."""
    clock = Clock()
    async with bare_server.serving(handler) as url, ApiAsViewer(plain(url)) as api:
        yield Viewers(api, clock), clock


async def test_a_pod_is_explained_as_kubectl_does(stage: Stage) -> None:
    code, body = await stage.get("pods/default/train", stage.admin)
    assert (code, body["why"]["pod"]["name"]) == (200, "train")
    assert "train" in body["report"]
    code, body = await stage.get("pods/default/none", stage.admin)
    assert (code, "knows no pod" in body["message"]) == (404, True)


async def test_pasted_pods_are_asked_about_as_the_viewer(stage: Stage) -> None:
    code, body = await stage.post("what-if?namespace=default", stage.admin, MANIFEST)
    assert code == 200
    [pod] = body["pods"]
    assert (pod["object"], pod["refused"], pod["prospect"] is None) == ("pod/new", "", False)
    broken = MANIFEST.replace("{name: a, image: b}", "{name: A_B, image: b}")
    code, body = await stage.post("what-if?namespace=default", stage.admin, broken)
    [pod] = body["pods"]
    assert (code, "the API server refuses it" in pod["refused"]) == (200, True), pod
    code, body = await stage.post("what-if", stage.admin, "a: [")
    assert (code, "the pasted text" in body["message"]) == (422, True)
    code, body = await stage.post("what-if", stage.admin, "x" * 300_000)
    assert code == 413
    pods = await stage.behind.client.get("/api/v1/namespaces/default/pods")
    assert pods["items"] == []
