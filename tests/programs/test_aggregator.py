"""The aggregator as a command, with its own options and with KubeShare's."""

import json
from pathlib import Path

import aiohttp
import pytest

from tests.embedded_cluster.embedded import cluster
from tests.programs.commands import expect_said, run, running


@pytest.mark.parametrize(
    "options",
    [
        ("--port", "0", "--path", "/metrics", "--log-level", "debug"),
        ("-web.listen-port", "0", "-web.telemetry-path=/metrics", "-level", "3"),
    ],
)
async def test_it_serves_where_it_is_told(options: tuple[str, ...], tmp_path: Path) -> None:
    """The flags are those of KubeShare's aggregator."""
    async with cluster(tmp_path):
        address = ("--address", "127.0.0.1", "-kubeconfig", str(tmp_path / "kubeconfig"))
        async with running(tmp_path, "aggregator", *address, *options) as process:
            line = json.loads(await expect_said(process.stderr, '"started"'))
            assert (line["program"], line["path"]) == ("kubeshare-aggregator", "/metrics")
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{line['addresses'][0]}/livez") as answer,
            ):
                assert answer.status == 200


async def test_wrong_usage_is_told(tmp_path: Path) -> None:
    code, _, errors = await run(tmp_path, "aggregator", "--path", "metrics")
    assert (code, "--path must begin with /" in errors) == (2, True)
    code, _, errors = await run(tmp_path, "aggregator", "--kubeconfig", str(tmp_path / "none"))
    assert (code, "no such file" in errors) == (3, True)


@pytest.mark.parametrize(
    "command", ["aggregator", "node_agent", "gemini", "controller", "dashboard"]
)
async def test_help_shows_examples(command: str, tmp_path: Path) -> None:
    code, said, _ = await run(tmp_path, command, "--help")
    assert code == 0
    assert "examples:\n  kubeshare-" in said
