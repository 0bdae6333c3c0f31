"""What the dashboard tells of the past: by an event log, and as far as a viewer's rights go."""

import asyncio
import json
from collections.abc import AsyncIterator
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from kubeshare_py.dashboard.past import PastSpan
from kubeshare_py.dashboard.viewers import KEPT_S
from kubeshare_py.edges.dashboard import past as past_edge
from kubeshare_py.edges.event_log.past import LogOfPast, RunAgain
from kubeshare_py.programs.kubectl_usage import UsageQuestion, answer
from kubeshare_py.scheduling.explain.explanation import cluster_view
from tests.edges.served_state import behind_api_server
from tests.edges.test_dashboard import GPUS, PODS, Stage, serving
from tests.event_log.histories import a_file, a_header, records_of
from tests.making.busy_world import FACTORIES, run

SEED = 7


class SlowLog(LogOfPast):
    """Reads on only if it is let, an event at a time."""

    slow = False

    def moment(self, at_ms: int, within_s: float) -> RunAgain | int:
        return super().moment(at_ms, 0.0 if self.slow else within_s)


class Logged:
    """A busy world's log in a folder."""

    def __init__(self, folder: Path) -> None:
        world = run(SEED)
        file = folder / "20231114T221320Z-s" / "000000.events"
        file.parent.mkdir(parents=True)
        file.write_bytes(a_file(records_of(a_header(world), world.log)))
        self.folder = folder
        self.log = SlowLog(folder, FACTORIES)
        (self.span,) = self.log.spans()
        shown = cluster_view(world.machine).pods
        self.pods = {one.name for one in shown}
        self.of_default = {one.name for one in shown if one.namespace == "default"}


@pytest.fixture
def logged(tmp_path: Path) -> Logged:
    return Logged(tmp_path / "events")


@pytest.fixture
async def stage(tmp_path: Path, logged: Logged) -> AsyncIterator[Stage]:
    async with (
        behind_api_server(tmp_path) as (behind, state),
        serving(behind, state, logged.log) as made,
    ):
        yield made


async def test_without_an_event_log_the_page_is_told_so(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, state), serving(behind, state) as stage:
        assert (await stage.get("me", stage.admin))[1]["has_past"] is False
        for path in ("past", "past/state?at=1", "past/pods/default/a?at=1"):
            code, body = await stage.get(path, stage.admin)
            assert (code, "--event-log" in body["message"]) == (404, True)


async def test_the_state_of_a_moment_has_the_rows_of_the_present_one(
    stage: Stage, logged: Logged
) -> None:
    assert (await stage.get("me", stage.admin))[1]["has_past"] is True
    code, body = await stage.get("past", stage.admin)
    span: PastSpan = logged.span
    assert (code, body["spans"]) == (200, [[span.begin_ms, span.end_ms]])
    code, body = await stage.get(f"past/state?at={span.end_ms}", stage.admin)
    assert (code, body["whole"], body["past"]["at"]) == (200, True, span.end_ms)
    assert {row[2] for row in body["pods"]} == logged.pods
    time, what, pod, node = body["past"]["marks"][0]
    assert (time <= span.end_ms, what, node[:1]) == (True, "placed", "n")
    assert pod.partition("/")[2] in logged.pods
    pod = body["pods"][0]
    code, why = await stage.get(f"past/pods/{pod[1]}/{pod[2]}?at={span.end_ms}", stage.admin)
    assert (code, why["why"]["pod"]["uid"]) == (200, pod[0])
    code, _ = await stage.get(f"past/pods/{pod[1]}/none?at={span.end_ms}", stage.admin)
    assert code == 404


async def test_who_may_not_see_a_namespace_now_is_told_no_names_of_then(
    stage: Stage, logged: Logged
) -> None:
    rights = (GPUS, "")
    stranger = stage.user("joe", rights, (PODS, "elsewhere"))
    at = f"at={logged.span.end_ms}"
    code, body = await stage.get(f"past/state?{at}", stranger)
    assert (code, body["pods"], body["past"]["marks"]) == (200, [], [])
    tenants = [tenant for row in body["nodes"] for card in row[3] for tenant in card[12]]
    assert {(one[0], one[1]) for one in tenants} == {("", "")}
    name = next(iter(logged.of_default))
    assert (await stage.get(f"past/pods/default/{name}?{at}", stranger))[0] == 404
    jane = stage.user("jane", rights, (PODS, "default"))
    code, body = await stage.get(f"past/state?{at}", jane)
    assert {row[2] for row in body["pods"]} == logged.of_default < logged.pods
    # What it may see is believed for a while, and no longer.
    stage.user("jane", rights)
    stage.now += KEPT_S
    code, body = await stage.get(f"past/state?{at}", jane)
    assert (code, body["pods"]) == (200, [])


async def test_a_long_log_is_read_on_with_each_question(stage: Stage, logged: Logged) -> None:
    logged.log.slow = True
    reached = []
    while True:
        code, body = await stage.get(f"past/state?at={logged.span.end_ms}", stage.admin)
        if code == 200:
            break
        assert code == 202
        reached.append(body["read_to"])
    assert reached == sorted(reached)
    assert len(reached) > 3
    assert {row[2] for row in body["pods"]} == logged.pods


async def test_questions_of_many_viewers_are_answered_or_refused(
    stage: Stage, logged: Logged
) -> None:
    at = f"past/state?at={logged.span.end_ms}"
    asked = 2 * past_edge.MAX_LOOKING
    codes = [
        code
        for code, _ in await asyncio.gather(*(stage.get(at, stage.admin) for _ in range(asked)))
    ]
    assert {*codes} <= {200, 503}
    assert codes.count(200) >= past_edge.MAX_LOOKING


@pytest.mark.parametrize(
    "query",
    ["state", "state?at=", "state?at=noon", "state?at=1.5", "usage?by=team&from=1", "usage?by=x"],
)
async def test_a_time_that_is_none_is_a_bad_request(stage: Stage, query: str) -> None:
    headers = {"Kubeshare-Token": stage.admin}
    url = f"{stage.url}/api/past/{query}"
    async with stage.session.get(url, headers=headers) as answer:
        assert answer.status == 400
        assert "needed" in (await answer.json())["message"]


async def test_usage_over_a_time_is_that_of_the_command(stage: Stage, logged: Logged) -> None:
    times = f"from={logged.span.begin_ms}&to={logged.span.end_ms}"
    code, by_team = await stage.get(f"past/usage?{times}&by=team", stage.admin)
    assert (code, by_team["notes"]) == (200, [])
    question = UsageQuestion(log=str(logged.folder), output="json")
    out = Console(file=StringIO())
    assert answer(question, out, Console(file=StringIO())) == 0
    assert isinstance(out.file, StringIO)
    told = json.loads(out.file.getvalue())["usage"]
    hours = {one["namespace"]: one["card_seconds"] / 3600 for one in told}
    assert len(hours) > 1
    assert {row["key"]: row["card_hours"] for row in by_team["rows"]} == pytest.approx(hours)
    # A viewer that may not see the namespaces is told their sum, and no more.
    stranger = stage.user("joe", (GPUS, ""))
    for by in ("team", "pod"):
        code, hidden = await stage.get(f"past/usage?{times}&by={by}", stranger)
        assert [(row["key"], row["namespace"]) for row in hidden["rows"]] == [("", "")]
        assert hidden["rows"][0]["card_hours"] == pytest.approx(sum(hours.values()))
    _, by_node = await stage.get(f"past/usage?{times}&by=node", stranger)
    assert sum(row["card_hours"] for row in by_node["rows"]) == pytest.approx(sum(hours.values()))
