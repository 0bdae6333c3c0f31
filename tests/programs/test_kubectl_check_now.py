"""`kubectl kubeshare check --now`: would the pods of a file fit at once, where, or why not."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kubeshare_cmd.kubectl_kubeshare import main
from kubeshare_py.edges.cli.state_client import ApiAccess
from kubeshare_py.programs.kubectl_check import CheckQuestion, answer
from tests.edges.served_state import api_server, behind_api_server
from tests.programs.test_kubectl_check import HALF, an_object, pod, template, written

LARGE = {**HALF, "sharedgpu/gpu_request": "0.8"}
OURS, ASKS = "kubeshare-scheduler", "0.5 GPU, 8.0 GiB, at most 1.0"


@dataclass(frozen=True)
class Desk:
    """Asks the command about documents."""

    folder: Path
    access: ApiAccess

    async def check(self, *documents: object, **asked: Any) -> tuple[int, str, str]:
        out, err = Console(file=StringIO(), width=200), Console(file=StringIO(), width=200)
        files = (written(self.folder, *documents),)
        given = {"files": files, "access": self.access, "now": True, **asked}
        code = await asyncio.to_thread(answer, CheckQuestion(**given), out, err)
        assert isinstance(out.file, StringIO)
        assert isinstance(err.file, StringIO)
        return code, out.file.getvalue(), err.file.getvalue()


@asynccontextmanager
async def desk(folder: Path) -> AsyncIterator[Desk]:
    async with behind_api_server(folder) as (behind, _):
        yield Desk(folder, ApiAccess(kubeconfig=behind.kubeconfig))


async def test_a_pod_that_fits_has_its_node_and_cards(tmp_path: Path) -> None:
    async with desk(tmp_path) as user:
        code, shown, said = await user.check(pod("a", HALF, schedulerName=OURS))
    assert (code, said) == (0, "")
    assert [line.split("  ") for line in re.sub(" {3,}", "  ", shown).splitlines()] == [
        ["POD", "ASKS FOR", "FITS NOW", "WHERE, OR WHY NOT"],
        ["pod/a", ASKS, "yes", "n1, GPU 0 (GPU-n1-0), GPU 1 (GPU-n1-1)"],
    ]


async def test_a_pod_that_would_wait_says_why_and_what_would_help(tmp_path: Path) -> None:
    job = an_object("Job", "b", {"template": template(LARGE, schedulerName=OURS)})
    async with desk(tmp_path) as user:
        code, shown, said = await user.check(pod("a", HALF, schedulerName=OURS), job)
    assert code == 4
    _, first, second, *more = shown.splitlines()
    assert first.startswith("pod/a ")
    assert second.startswith("job/b ")
    assert "  no        0/2 nodes are available: 1 Insufficient GPU memory" in second
    assert more == [
        "    - It fits on n1 if it asks for at most 20.0 GiB.",
        "    this is about one of its pods, as if there were no other",
    ]
    assert said == "Each pod is asked about alone, as if the others were not created.\n"


async def test_pods_that_are_refused_or_not_its_own_are_not_asked_about(tmp_path: Path) -> None:
    wrong = pod("wrong", {**HALF, "sharedgpu/gpu_request": "many"}, schedulerName=OURS)
    async with desk(tmp_path) as user:
        code, shown, _ = await user.check(wrong, pod("plain", {}))
    assert code == 1
    _, first, *documentation, second = shown.splitlines()
    assert "refused   sharedgpu/gpu_request=" in first
    assert documentation
    assert second.endswith("-         default-scheduler decides, and is not asked")


async def test_the_schedulers_own_names_count(tmp_path: Path) -> None:
    batch, other = (pod("a", HALF, schedulerName=name) for name in ("batch", "bath"))
    async with desk(tmp_path) as user:
        code, shown, _ = await user.check(batch, output="json")
        assert code == 0
        [found] = json.loads(shown)["pods"]
        assert (found["scheduler"], found["refused"], found["now"]["fits"]) == ("batch", [], True)
        code, shown, _ = await user.check(other, now=False)
        assert code == 1
        names = "there is kubeshare-scheduler, batch; did you mean batch?"
        assert f"no scheduler here is called bath: {names}" in shown


async def test_the_answer_as_json_has_the_reasons_of_why(tmp_path: Path) -> None:
    async with desk(tmp_path) as user:
        given = pod("a", LARGE, schedulerName=OURS), pod("b", HALF, schedulerName=OURS)
        code, shown, _ = await user.check(*given, output="json")
    assert code == 4
    waits, fits = (one["now"] for one in json.loads(shown)["pods"])
    assert (waits["fits"], waits["node"], waits["cards"]) == (False, "", [])
    assert waits["message"] == waits["why"]["message"]
    assert waits["why"]["nodes"][1]["name"] == "n1"
    assert (fits["fits"], fits["node"], fits["cards"]) == (True, "n1", ["GPU-n1-0", "GPU-n1-1"])


async def test_a_scheduler_that_is_not_there_cannot_be_asked(tmp_path: Path) -> None:
    async with api_server(tmp_path) as behind:
        user = Desk(tmp_path, ApiAccess(kubeconfig=behind.kubeconfig))
        given = pod("a", HALF, schedulerName=OURS), pod("b", LARGE, schedulerName=OURS)
        code, shown, said = await user.check(*given)
        assert code == 3
        assert shown.count("the scheduler is not asked") == 2
        assert said.count("Error: ") == 1
        assert "the scheduler cannot be asked: " in said
        assert "does not serve state.kubeshare.io" in said
        assert "the scheduler's profiles are not known, so default ones count: " in said
        code, _, _ = await user.check(*given, now=False)
        assert code == 0


async def test_a_refusal_about_one_pod_is_said_beside_it(tmp_path: Path) -> None:
    async with desk(tmp_path) as user:
        config = tmp_path / "scheduler.yaml"
        config.write_text("profiles: [{schedulerName: gone}, {}]")
        given = pod("a", HALF, schedulerName="gone"), pod("b", HALF, schedulerName=OURS)
        code, shown, _ = await user.check(*given, config=str(config))
    assert code == 3
    _, first, second = shown.splitlines()
    assert "no profile of this scheduler is called 'gone': it has kubeshare-scheduler" in first
    assert "yes       n1" in second


async def test_the_scheduler_can_be_asked_past_the_api_server(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (_, state):
        access = ApiAccess(scheduler=state.url, ca_file=state.ca_file, token_file=state.token_file)
        user = Desk(tmp_path, access)
        code, shown, _ = await user.check(pod("a", HALF, schedulerName=OURS))
    assert (code, "yes       n1" in shown) == (0, True)


def test_without_a_cluster_there_is_nothing_to_ask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, pod("a", HALF))
    assert main(["check", "-f", path, "--now"]) == 3
    said = capsys.readouterr().err
    assert said == (
        "Error: the scheduler cannot be asked: there is no kubeconfig: name one with --kubeconfig\n"
    )
    with pytest.raises(SystemExit) as ended:
        main(["check", "-f", path, "--now", "--offline"])
    assert ended.value.code == 2
    assert "--now asks the scheduler" in capsys.readouterr().err
