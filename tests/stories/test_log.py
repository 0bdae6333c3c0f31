"""What a running scheduler logs when it begins, and while the API server is away."""

import logging
from typing import Any

import pytest

from kubeshare_py.edges.kube.client import AWAY, BACK
from kubeshare_py.embedded_cluster.protocol.messages import ApiRequest
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER, Fault
from tests.stories.conftest import Stage, gpu

#: Of requests without an answer, in the story: several of each watch.
UNANSWERED = 10


class Gone(Fault):
    """Towards the scheduler the server cuts every connection."""

    seen = 0

    def matches(self, request: ApiRequest) -> bool:
        found = request.user.name == SCHEDULER
        Gone.seen += found
        return found


def logged(caplog: pytest.LogCaptureFixture, level: int) -> list[dict[str, Any]]:
    return [
        {"event": record.getMessage(), **getattr(record, "fields", {})}
        for record in caplog.records
        if record.levelno >= level and record.name != "aiohttp.access"
    ]


async def test_it_says_where_it_listens_and_what_it_found(
    empty_stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with empty_stage.scheduler():
        await empty_stage.warm_up()
        found = logged(caplog, logging.INFO)
    [listening] = [line["addresses"] for line in found if line["event"] == "started"]
    assert [address.rpartition(":")[0] for address in listening] == ["https://127.0.0.1"]
    [there] = [line for line in found if line["event"] == "found"]
    assert (there["nodes"], there["cards"]) == (2, 4)


@pytest.mark.slow
async def test_a_server_that_is_away_is_one_line_however_many_ask_it(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING")
    await stage.create("before", gpu("0.5"))
    await stage.expect_running("before")
    caplog.clear()
    stage.faults.inject(Gone(method="", path="", times=1 << 30))
    stage.cluster.server.cut_watches()
    await stage.expect_sent(lambda: Gone.seen >= UNANSWERED)
    [line] = [one for one in logged(caplog, logging.WARNING) if one["event"] != BACK]
    assert line["event"] == AWAY
    assert "https" not in line["message"]
    stage.faults.clear()
    await stage.create("after", gpu("0.5"))
    await stage.expect_running("after")
    assert [one["event"] for one in logged(caplog, logging.WARNING)] == [AWAY]
