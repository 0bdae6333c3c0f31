"""kubeshare-scheduler as a process of its own, beside the cluster of a stage."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from tests.programs.commands import running
from tests.stories.conftest import Json, Stage

SETTINGS: Json = {
    "server": {"bindAddress": "127.0.0.1", "port": 0},
    "inventory": {"intervalSeconds": 0.1},
}


def configure(folder: Path, **more: object) -> None:
    """Write the configuration of a process in this folder."""
    (folder / "settings.yaml").write_text(yaml.safe_dump(SETTINGS | more))


@asynccontextmanager
async def scheduler_process(
    stage: Stage, folder: Path, **more: object
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The process with these settings, killed at the end if it still runs."""
    configure(folder, **more)
    kubeconfig = stage.cluster.server.write_kubeconfig(folder / "of-process", SCHEDULER)
    options = (
        "--config", "settings.yaml", "--kubeconfig", str(kubeconfig),
        "--prometheus-url", stage.cluster.collectors.url,
    )  # fmt: skip
    async with running(folder, "scheduler", *options) as process:
        yield process
