"""Completion, through kubectl's protocol: candidates, then a directive."""

import asyncio
from pathlib import Path

import pytest

from kubeshare_cmd.kubectl_complete import main
from kubeshare_cmd.kubectl_parser import COMMANDS
from tests.edges.kubeconfigs import write
from tests.edges.served_state import behind_api_server

Captured = pytest.CaptureFixture[str]


async def completed(capsys: Captured, *words: str) -> tuple[list[str], str]:
    """Candidates without their descriptions, and the directive."""
    assert await asyncio.to_thread(main, words) == 0
    *lines, directive = capsys.readouterr().out.splitlines()
    return [line.partition("\t")[0] for line in lines], directive


async def test_commands_and_options_come_with_what_they_are(capsys: Captured) -> None:
    assert await completed(capsys, "") == ([*COMMANDS], ":4")
    assert await completed(capsys, "-n", "x", "g") == (["gpus"], ":4")
    found, _ = await completed(capsys, "pods", "--al")
    assert found == ["--all-namespaces"]
    assert (await completed(capsys, "gpus", "--all-n"))[0] == []
    await asyncio.to_thread(main, ["why"])
    assert capsys.readouterr().out.startswith("why\twhy a pod is where it is")


async def test_values_of_options(tmp_path: Path, capsys: Captured) -> None:
    path = write(tmp_path, {"token": "t"}, context="work")
    given = ("--kubeconfig", path)
    assert await completed(capsys, "gpus", "-o", "j") == (["json", "jsonpath="], ":4")
    assert await completed(capsys, *given, "gpus", "--context", "") == (["work"], ":4")
    assert await completed(capsys, *given, "gpus", "--cluster", "") == (["c"], ":4")
    assert await completed(capsys, f"--kubeconfig={path}", "gpus", "--user", "x") == ([], ":4")
    assert await completed(capsys, "gpus", "--kubeconfig", "") == ([], ":0")
    assert await completed(capsys, "--kubeconfig", "/", "gpus", "--context", "") == ([], ":4")
    assert await completed(capsys, "gpus", "--token", "") == ([], ":4")
    assert await completed(capsys, "check", "-f", "") == ([], ":0")
    assert await completed(capsys, "check", "-o", "") == (["json", "yaml"], ":4")
    assert await completed(capsys, "usage", "-o", "") == (["json", "csv"], ":4")
    assert await completed(capsys, "usage", "--by", "n") == (["namespace", "node"], ":4")
    assert await completed(capsys, "usage", "--by", "model,no") == (["model,node"], ":4")
    assert await completed(capsys, "usage", "--log", "") == ([], ":0")
    assert await completed(capsys, "what-if", "-o", "") == (["json", "yaml"], ":4")
    for option in (("what-if", "--profile"), ("what-if", "--log"), ("capacity", "--like")):
        assert await completed(capsys, *option, "") == ([], ":0")


async def test_names_are_asked_for(tmp_path: Path, capsys: Captured) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        given = ("--kubeconfig", behind.kubeconfig)
        assert await completed(capsys, *given, "gpus", "") == (["n1", "n2"], ":4")
        assert await completed(capsys, *given, "gpus", "n1", "") == (["n2"], ":4")
        assert await completed(capsys, *given, "pods", "o") == (["one"], ":4")
        assert await completed(capsys, *given, "when", "o") == (["one"], ":4")
        assert await completed(capsys, *given, "what-if", "--without", "o") == (["one"], ":4")
        assert await completed(capsys, *given, "what-if", "--cordon", "") == (["n1", "n2"], ":4")
        assert await completed(capsys, *given, "what-if", "--like", "") == (["n1", "n2"], ":4")
        assert await completed(capsys, *given, "-n", "team", "why", "") == (["big"], ":4")
        assert await completed(capsys, "why", "big", *given, "-n", "team", "") == ([], ":4")
        assert await completed(capsys, *given, "why", "job") == (["job/"], ":6")
        spec = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
        job = {"metadata": {"name": "lstm"}, "spec": {"template": {"spec": spec}}}
        await behind.client.create("/apis/batch/v1/namespaces/default/jobs", job)
        assert await completed(capsys, *given, "why", "job/") == (["job/lstm"], ":4")
        assert await completed(capsys, *given, "why", "service/") == ([], ":4")
        assert await completed(capsys, *given, "pods", "-n", "") == (["default", "team"], ":4")


async def test_where_nothing_answers_there_are_no_names(tmp_path: Path, capsys: Captured) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        gone = behind.kubeconfig
    assert await completed(capsys, "--kubeconfig", gone, "gpus", "") == ([], ":4")
    assert await completed(capsys, "top", "") == ([], ":4")
    assert await completed(capsys) == ([*COMMANDS], ":4")
