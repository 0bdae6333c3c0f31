"""An API server that refuses to begin watches with the list: all is listed by pages."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec
import pytest
from aiohttp import web

from kubeshare_py.embedded_cluster.protocol.messages import ApiRequest
from kubeshare_py.embedded_cluster.protocol.status import failure
from kubeshare_py.embedded_cluster.serving.server import Fault
from tests.stories.conftest import PODS, Stage, gpu

#: As kube-apiserver 1.36 on an etcd before 3.4.31 and 3.5.13.
DISABLED = (
    "a watch stream was requested by the client but the required storage feature "
    "RequestWatchProgress is disabled"
)
CLUSTER = "nodes: [{name: n1, gpus: [{model: T4, count: 1, memory: 16GiB}]}]"


@dataclass(slots=True, kw_only=True)
class NoLists(Fault):
    """Refuses every list in a watch, for ever; `as_event`: with the first event of a 200."""

    method: str = "GET"
    path: str = ""
    message: str = DISABLED
    times: int = 1 << 30
    as_event: bool = False

    def matches(self, request: ApiRequest) -> bool:
        return "sendInitialEvents" in request.query

    async def answer(self, request: web.Request) -> web.Response:
        if not self.as_event:
            return await Fault.answer(self, request)
        status = failure(self.status, self.reason, self.message)
        body = msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n"
        return web.Response(body=body, content_type="application/json")


REFUSALS = {
    "an event": NoLists(status=500, as_event=True),
    "an error": NoLists(status=500),
    "no verb": NoLists(status=403, reason="Forbidden"),
    "no server": NoLists(status=504, reason="Timeout"),
}


#: One refusal of each form: the first event of a watch, and the status of an answer.
ONE_OF_EACH_FORM = {"an event", "no verb"}


@pytest.fixture(
    params=[
        name if name in ONE_OF_EACH_FORM else pytest.param(name, marks=pytest.mark.long)
        for name in REFUSALS
    ]
)
async def stage(empty_stage: Stage, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """A scheduler that never saw a list in a watch."""
    empty_stage.faults.inject(REFUSALS[request.param])
    async with empty_stage.scheduler():
        await empty_stage.warm_up()
        yield empty_stage


@pytest.mark.slow
async def test_pods_start_and_what_went_away_unseen_is_missed_from_the_next_list(
    stage: Stage,
) -> None:
    await stage.create("a", gpu("1"))
    await stage.expect_running("a")
    await stage.create("b", gpu("1"))
    await stage.expect_waiting("b")
    stage.cluster.server.cut_watches()
    await stage.client.delete(f"{PODS}/a", grace_period_s=0)
    stage.cluster.server.compact()
    await stage.expect_running("b")
