"""From a daemon's death to the words about its pods: nobody is silently held to nothing.

A fake driver and a stand-in for NVIDIA's MPS daemon; kubeshare-mps, collectors, Prometheus,
scheduler and API server are real, and installed by the chart.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
import yaml

from kubeshare_py.edges.cli.state_client import ApiAccess, StateClient
from kubeshare_py.embedded_cluster.serving.server import ADMIN
from kubeshare_py.isolation.backends import DAEMONS
from kubeshare_py.terminal.gpu_tables import pod_details, shown_nodes
from kubeshare_py.terminal.why_report import why_report
from tests.collector.test_mps import CONTROL
from tests.deploy import whole as everything
from tests.deploy.conftest import Release
from tests.deploy.container import can_mount
from tests.deploy.whole import CONFIG, Whole, assembled, made
from tests.patience import PATIENCE_S
from tests.programs.commands import PIPE, expect_said
from tests.stories.conftest import Stage, annotations, gpu

pytestmark = [
    pytest.mark.real_only("it needs controllers, kube-scheduler, Helm and a Prometheus"),
    pytest.mark.skipif(not can_mount(), reason="it needs the right to make mounts"),
]

A100 = "NVIDIA-A100-SXM4-40GB"
SETTINGS = (
    'config.profiles=[{"isolation": ["mps", "none"]}]',
    "mps.external=true",
    "policies.fence=false",
)
UNHELD = 'kubeshare_unheld_pods{isolation="mps", part="memory"}'
UNCONFIRMED = 'kubeshare_unconfirmed_pods{isolation="mps"}'


@pytest.fixture
def described() -> str:
    return everything.described()


@pytest.fixture
async def whole(stage: Stage, release: Release, tmp_path: Path) -> AsyncIterator[Whole]:
    """Everything runs, and the scheduler knows all cards."""
    async with assembled(stage, release, made(tmp_path), tmp_path, *SETTINGS) as found:
        yield found


@dataclass(slots=True)
class Daemons:
    """kubeshare-mps on a node, and the pids of its daemons, by card."""

    process: asyncio.subprocess.Process
    program: Path
    pids: dict[str, int] = field(default_factory=dict)

    async def expect_started(self, cards: int) -> None:
        """So many more of them were started."""
        for _ in range(cards):
            line = json.loads(await expect_said(self.process.stderr, '"mps-started"'))
            self.pids[line["card"]] = line["pid"]


def write(program: Path, text: str) -> None:
    """A program is this from now on; those that run go on as they are."""
    fresh = program.with_suffix(".new")
    fresh.write_text(text)
    fresh.chmod(0o755)
    fresh.replace(program)


@asynccontextmanager
async def daemons(whole: Whole, root: Path) -> AsyncIterator[Daemons]:
    """kubeshare-mps runs on the node dgx while entered."""
    program = root / "nvidia-cuda-mps-control"
    write(program, CONTROL.read_text())
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kubeshare_cmd.mps", "--interval", "0.2", "--node-name", "dgx"),
        *("--folder", f"{root}{DAEMONS}", "--program", str(program)),
        env=whole.boards["dgx"].environment,
        stderr=PIPE,
    )
    try:
        yield Daemons(process=process, program=program)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


class Asked:
    """What `kubectl kubeshare` shows, asked of the scheduler itself: no Service leads there."""

    def __init__(self, stage: Stage, port: int) -> None:
        # Its certificate is its own; whom to trust is not what this is about.
        access = ApiAccess(scheduler=f"https://127.0.0.1:{port}", insecure_skip_tls_verify=True)
        token = stage.cluster.server.tokens[ADMIN]
        self._client = StateClient(access, {"KUBESHARE_TOKEN": token})

    def close(self) -> None:
        """Close its connection."""
        self._client.close()

    async def details(self) -> str:
        """`gpus dgx --details`."""
        view = await asyncio.to_thread(self._client.cards)
        return pod_details(view, shown_nodes(view, ("dgx",)), None).plain

    async def why(self, pod: str) -> str:
        """`why POD`."""
        return why_report(await asyncio.to_thread(self._client.why, "default", pod), None).plain


async def expect_eventually(asked: Callable[[], Awaitable[str]], wanted: str) -> None:
    """Ask until this is shown."""
    shown = ""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while wanted not in shown:
                shown = await asked()
                await asyncio.sleep(0.1)
    except TimeoutError as error:
        raise AssertionError(f"{wanted!r} is not in {shown}") from error


async def expect_counts(whole: Whole, pods: int) -> None:
    """So many are told to be held to nothing, and of none it is not known."""
    await whole.prometheus.expect_eventually(UNHELD, lambda values: values == {"": pods})
    await whole.prometheus.expect_eventually(UNCONFIRMED, lambda values: values == {"": 0})


async def test_a_daemon_that_dies_is_told_of_until_it_is_back(whole: Whole, tmp_path: Path) -> None:
    stage, root = whole.stage, tmp_path / "nodes/dgx"
    settings = yaml.safe_load((await stage.client.get(CONFIG))["data"]["scheduler.yaml"])
    with closing(Asked(stage, settings["server"]["port"])) as asked:
        await expect_daemon_reported(whole, root, asked)


async def expect_daemon_reported(whole: Whole, root: Path, asked: Asked) -> None:
    """From no daemon to one that answers, is killed, comes back, and goes with its program."""
    stage = whole.stage
    # Nobody has started daemons yet; a pod is placed all the same, and it is said.
    await expect_eventually(asked.details, "Isolation:  mps no running MPS daemon\n")
    await stage.create("early", gpu("0.5", gpu_model=A100))
    card = annotations(await stage.expect_running("early"))["sharedgpu/gpu_uuid"]
    early = partial(asked.why, "early")
    dead = f"half of its card's time ({card} has no running MPS daemon)."
    await expect_eventually(early, dead)
    await expect_eventually(asked.details, "Not held:   memory of 1 pod, time of 1 pod\n")
    await expect_counts(whole, 1)
    async with daemons(whole, root) as mps:
        await mps.expect_started(8)
        await expect_eventually(asked.details, "Isolation:  mps ready\n")
        await expect_counts(whole, 0)
        # That of its card is killed, and does not start again.
        write(mps.program, "#!/bin/sh\nexit 1\n")
        os.kill(mps.pids[card], signal.SIGKILL)
        await expect_eventually(asked.details, ", ready on ")
        await expect_eventually(early, dead)
        await expect_counts(whole, 1)
        # The fullest card is not the best one now.
        await stage.create("late", gpu("0.3", gpu_model=A100))
        other = annotations(await stage.expect_running("late"))["sharedgpu/gpu_uuid"]
        assert other in whole.cards("dgx") - {card}
        write(mps.program, CONTROL.read_text())
        await expect_eventually(asked.details, "Isolation:  mps ready\n")
        await expect_counts(whole, 0)
        mps.process.kill()
        await expect_eventually(early, dead)
        await expect_counts(whole, 2)
