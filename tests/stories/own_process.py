"""kubeshare-scheduler as a process of its own, beside the cluster of a stage."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from tests.module_forks import Fork
from tests.programs.commands import running
from tests.stories.conftest import Json, Stage

SETTINGS: Json = {
    "server": {"bindAddress": "127.0.0.1", "port": 0},
    "inventory": {"intervalSeconds": 0.1},
}


def configure(folder: Path, **more: object) -> None:
    """Write the configuration of a process in this folder."""
    (folder / "settings.yaml").write_text(yaml.safe_dump(SETTINGS | more))


def scheduler_options(stage: Stage, folder: Path, **more: object) -> tuple[str, ...]:
    """The arguments of a process with these settings, which are written into the folder."""
    configure(folder, **more)
    kubeconfig = stage.cluster.server.write_kubeconfig(folder / "of-process", SCHEDULER)
    return (
        "--config", str(folder / "settings.yaml"), "--kubeconfig", str(kubeconfig),
        "--prometheus-url", stage.cluster.collectors.url,
    )  # fmt: skip


@asynccontextmanager
async def scheduler_process(stage: Stage, folder: Path, **more: object) -> AsyncIterator[Fork]:
    """The process with these settings, killed at the end if it still runs."""
    async with running(folder, "scheduler", *scheduler_options(stage, folder, **more)) as process:
        yield process
