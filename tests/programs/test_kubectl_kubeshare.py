"""`kubectl kubeshare` against the scheduler's real endpoint, directly and through an API server."""

import asyncio
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from kubeshare_cmd.kubectl_kubeshare import main
from kubeshare_py.domain.view import IslandView, LinkView, TopologyView
from kubeshare_py.edges.state_route import Access
from kubeshare_py.programs.kubectl_kubeshare import Question, answer
from kubeshare_py.terminal.gpu_details import pod_details
from kubeshare_py.terminal.gpu_tables import card_tables, shown_nodes
from kubeshare_py.terminal.why_report import why_report
from tests.edges.served_state import Served, behind_api_server, served
from tests.terminal.views import a_small_view, a_view, a_why


def direct(state: Served) -> Access:
    return Access(scheduler=state.url, ca_file=state.ca_file, token_file=state.token_file)


def console(terminal: bool = False, width: int = 200) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=terminal, width=width, _environ={"TERM": "xterm"}
    )


def printed(to: Console) -> str:
    assert isinstance(to.file, io.StringIO)
    return to.file.getvalue()


async def ask(question: Question) -> tuple[int, str, str]:
    """Exit code, stdout, stderr of a command in a pipe."""
    out, err = console(), console()
    code = await answer(question, out, err)
    return code, printed(out), printed(err)


async def command(*arguments: str) -> int:
    """The command line as it is typed, in a thread with an event loop of its own."""
    return await asyncio.to_thread(main, arguments)


async def test_gpus_through_the_api_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        assert await command("gpus", "--kubeconfig", behind.kubeconfig) == 0
    view = a_small_view()
    assert capsys.readouterr().out == card_tables(view, shown_nodes(view, ""), None).plain + "\n"


async def test_links_and_islands_are_asked_for_with_an_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    joined = TopologyView(
        cards=("GPU-n1-0", "GPU-n1-1"),
        numa_nodes=(0, None),
        links=(LinkView(uuid="GPU-n1-0", peer="GPU-n1-1", kind="NV4", bandwidth=200_000),),
        islands=(IslandView(bandwidth=200_000, cards=("GPU-n1-0", "GPU-n1-1"), intact=True),),
    )
    async with behind_api_server(tmp_path) as (behind, state):
        small = a_small_view()
        first, *others = small.nodes
        state.view = replace(small, nodes=(replace(first, topology=joined), *others))
        at = ("--kubeconfig", behind.kubeconfig)
        assert await command("gpus", "--topology", *at) == 0
        assert capsys.readouterr().out.splitlines() == [
            "n1",
            "      GPU0  GPU1  NUMA",
            "GPU0  X     NV4   0",
            "GPU1  NV4   X     -",
            "  200 GB/s: GPU0 GPU1 (intact)",
            "",
            "n2",
            "  It is not known how its cards are joined.",
        ]
        assert await command("gpus", "n1", "-t", "-o", "json", *at) == 0
        (node,) = json.loads(capsys.readouterr().out)["nodes"]
        assert node["topology"]["links"][0]["kind"] == "NV4"
        with pytest.raises(SystemExit):
            await command("gpus", "-t", "-d", *at)


async def test_options_may_stand_before_the_command_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        assert await command("--kubeconfig", behind.kubeconfig, "-o", "json", "gpus", "n1") == 0
    assert [node["name"] for node in json.loads(capsys.readouterr().out)["nodes"]] == ["n1"]


async def test_details_of_one_node_directly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with served(tmp_path) as state:
        way = ("--scheduler", state.url, "--ca-file", state.ca_file)
        assert await command("gpus", "n2", "-d", *way, "--token-file", state.token_file) == 0
    view = a_small_view()
    expected = pod_details(view, shown_nodes(view, "n2"), None).plain
    assert capsys.readouterr().out == expected + "\n"


async def test_an_unknown_node_is_not_found(tmp_path: Path) -> None:
    async with served(tmp_path) as state:
        code, out, err = await ask(Question(command="gpus", node="nope", access=direct(state)))
    assert (code, out, err) == (1, "", "Error: the scheduler knows no node 'nope'\n")


async def test_pods_of_the_contexts_namespace_of_another_and_of_all(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        path = tmp_path / "kubeconfig"
        path.write_text(path.read_text().replace("namespace: default", "namespace: team"))
        question = Question(
            command="pods", output="json", access=Access(kubeconfig=behind.kubeconfig)
        )
        for asked, names in (
            (question, ["big"]),
            (replace(question, namespace="default"), ["one", "two"]),
            (replace(question, all_namespaces=True), ["one", "two", "big"]),
        ):
            code, out, _ = await ask(asked)
            assert code == 0
            assert [pod["name"] for pod in json.loads(out)["pods"]] == names


async def test_why_of_a_waiting_pod_is_a_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        assert await command("why", "pod/train", "--kubeconfig", behind.kubeconfig) == 0
        text = capsys.readouterr().out
        assert await command("why", "train", "--kubeconfig", behind.kubeconfig, "-o", "yaml") == 0
    assert text == why_report(a_why(), None).plain + "\n"
    assert yaml.safe_load(capsys.readouterr().out)["pod"]["memory_bytes"] == 30 << 30


async def test_an_unknown_pod_is_not_found(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        access = Access(kubeconfig=behind.kubeconfig)
        code, out, err = await ask(
            Question(command="why", pod="train", namespace="x", access=access)
        )
    assert (code, out) == (1, "")
    assert err == "Error: the scheduler knows no pod x/train of its own\n"


async def test_a_scheduler_that_cannot_be_reached_is_another_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with served(tmp_path) as state:
        gone = state.url
    assert await command("pods", "--scheduler", gone, "--token-file", state.token_file) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"Error: cannot reach the scheduler at {gone}: ")


async def test_a_terminal_gets_colours_and_its_own_width(tmp_path: Path) -> None:
    out = console(terminal=True, width=76)
    async with served(tmp_path) as state:
        assert await answer(Question(command="gpus", access=direct(state)), out, console()) == 0
    assert "\x1b[1m" in printed(out)
    assert "GPU:Allocated/Total" in printed(out)


async def test_a_pipe_gets_neither(tmp_path: Path) -> None:
    async with served(tmp_path) as state:
        _, out, _ = await ask(Question(command="gpus", access=direct(state)))
    assert "\x1b" not in out
    assert "GPU0(Allocated/Total)" in out


async def test_no_color_is_honoured_on_a_terminal(tmp_path: Path) -> None:
    out = Console(
        file=io.StringIO(), force_terminal=True, _environ={"TERM": "xterm", "NO_COLOR": "1"}
    )
    async with served(tmp_path) as state:
        state.view = a_view(inventory="unread")
        await answer(Question(command="gpus", access=direct(state)), out, console())
    assert "The GPU inventory has not been read yet" in printed(out)
    assert "\x1b[33m" not in printed(out)


@pytest.mark.parametrize(
    "arguments",
    [(), ("cards",), ("why",), ("gpus", "-o", "wide")],
    ids=" ".join,
)
def test_wrong_usage_is_told_apart(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert "usage: kubectl kubeshare" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [(), ("gpus",), ("pods",), ("why",)], ids=" ".join)
def test_help_has_examples_at_each_level(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main((*arguments, "--help"))
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert f"\n  kubectl kubeshare {' '.join(arguments) or 'gpus'}" in shown
    assert "exit codes:" in shown
