"""The dashboard before a whole cluster, for a user who may view one namespace: now, and then."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import aiohttp
import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.edges.scheduler.event_logging import LogSettings
from kubeshare_py.embedded_cluster.serving.cluster import PAUSE_S
from kubeshare_py.programs.dashboard import DashboardSettings, api_server, past_of, show
from tests.controlplane.running import ControlPlane
from tests.patience import PATIENCE_S
from tests.stories.conftest import Json, Stage, gpu
from tests.stories.people import People

CLUSTER = "nodes: [{name: n1, gpus: [{model: A100, memory: 40GiB}]}]"
THEIRS = "/api/v1/namespaces/theirs/pods"

#: Its users show client certificates and tokens.
pytestmark = [pytest.mark.tls, pytest.mark.slow]


@dataclass
class Viewer:
    """A user at the page, by what the page asks for."""

    session: aiohttp.ClientSession
    url: str
    token: str

    async def get(self, path: str) -> tuple[int, Json]:
        headers = {"Kubeshare-Token": self.token}
        async with self.session.get(f"{self.url}/api/{path}", headers=headers) as answer:
            return answer.status, await answer.json()

    async def until(self, path: str, holds: Callable[[Json], bool]) -> Json:
        """The server's answer, once this holds of it; the viewer asks again as the page does."""
        last: object = None
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    code, body = await self.get(path)
                    if code == HTTPStatus.OK and holds(body):
                        return body
                    last = code, body
                    await asyncio.sleep(PAUSE_S)
        except TimeoutError as error:
            raise AssertionError(f"{path}: {str(last)[:2000]}") from error


@asynccontextmanager
async def viewing(people: People, log: Path, name: str) -> AsyncIterator[Viewer]:
    """A dashboard with the log, and a viewer with a token."""
    settings = DashboardSettings(
        address="127.0.0.1", port=0, kubeconfig=str(people.certificate("jane"))
    )
    token = await people.token(name)
    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        past = past_of(str(log), lambda: IN_TREE)
        running = group.create_task(
            show(settings, api_server(settings), ready.set_result, past=past)
        )
        yield Viewer(session, await ready, token)
        running.cancel()


def rows(body: Json) -> dict[str, str]:
    """The node of each pod that is named, by its name; "" for one that waits."""
    return {row[2]: row[4] for row in body.get("pods", [])}


async def logged(viewer: Viewer, pods: dict[str, str]) -> int:
    """A time (ms since 1970) at which it was so by the event log, once that is written."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            code, log = await viewer.get("past")
            if code == HTTPStatus.OK:
                at_ms: int = log["spans"][-1][1]
                _, body = await viewer.get(f"past/state?at={at_ms}")
                if rows(body) == pods:
                    return at_ms
            await asyncio.sleep(PAUSE_S)


async def test_a_viewer_of_one_namespace_sees_a_pod_wait_and_run_and_both_again(
    empty_stage: Stage, plane: ControlPlane | None
) -> None:
    stage, log = empty_stage, empty_stage.folder / "events"
    people = People(stage, plane)
    async with stage.scheduler(event_log=LogSettings(log)):
        await stage.warm_up()
        await stage.cluster.state_served()
        await people.namespace("theirs")
        viewer_name = people.account("viewer")
        await people.may_view(viewer_name, "default")
        await people.may_list_cards(viewer_name)
        async with viewing(people, log, "viewer") as viewer:
            await stage.create("blocker", gpu("0.6"))
            await stage.expect_running("blocker")
            await _create_theirs(stage)
            await stage.create("train", gpu("0.5"))
            await stage.expect_waiting("train")
            waits = {"blocker": "n1", "train": ""}
            body = await viewer.until("state", lambda body: rows(body) == waits)
            # The other pod on the card is an amount without a name.
            tenants = [tenant for row in body["nodes"] for card in row[3] for tenant in card[12]]
            assert sorted((one[1], one[2]) for one in tenants) == [("", 300), ("blocker", 600)]
            _, why = await viewer.get("pods/default/train")
            assert "when default/blocker ends" in why["report"]
            assert (await viewer.get("pods/theirs/secret"))[0] in (403, 404)
            waited_ms = await logged(viewer, waits)
            await stage.expect_deleted("blocker")
            await stage.expect_running("train")
            await viewer.until("state", lambda body: rows(body) == {"train": "n1"})
            await logged(viewer, {"train": "n1"})
            then = await viewer.until(f"past/state?at={waited_ms}", lambda body: "past" in body)
            assert rows(then) == waits
            assert "secret" not in str(then)
            _, why = await viewer.get(f"past/pods/default/train?at={waited_ms}")
            assert "when default/blocker ends" in why["report"]
            assert (await viewer.get(f"past/pods/theirs/secret?at={waited_ms}"))[0] == 404
            times = f"from={waited_ms - 3_600_000}&to={waited_ms}"
            _, usage = await viewer.get(f"past/usage?{times}&by=pod")
            assert {row["key"] for row in usage["rows"]} >= {"", "default/blocker"}
            assert "secret" not in str(usage)


async def _create_theirs(stage: Stage) -> None:
    containers = [{"name": "main", "image": "busybox"}]
    spec = {"schedulerName": "kubeshare-scheduler", "containers": containers}
    metadata = {"name": "secret", "labels": gpu("0.3")}
    await stage.client.create(THEIRS, {"metadata": metadata, "spec": spec})
    await stage.expect_in(THEIRS, "secret", lambda pod: pod["status"].get("phase") == "Running")
