"""kubeshare-mps: an MPS daemon for each card of this node, in the folders that pods mount."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.node.card_sampler import CardSampler
from kubeshare_py.edges.node.mps_launcher import MpsLauncher
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.build import say_started
from kubeshare_py.edges.process.run_until_signal import until_signal
from kubeshare_py.isolation.backends import DAEMONS

#: The folder that pods mount.
FOLDER = Path(DAEMONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class MpsSettings:
    """`folder` is the one that pods mount, `program` NVIDIA's daemon.

    `interval_s` (s) per reading.
    """

    node: NodeName
    folder: Path
    program: str
    interval_s: float
    log_level: str = "info"


def run(settings: MpsSettings) -> None:
    """Keep a daemon for each card that the driver lists, until SIGINT or SIGTERM."""
    decision_log.set_up(settings.log_level)
    say_started("kubeshare-mps", node=settings.node, folder=str(settings.folder))
    asyncio.run(until_signal(launch(settings)))


async def launch(settings: MpsSettings) -> None:
    """Keep the daemons until cancelled; then all of them end."""
    sampler = CardSampler(node=settings.node, interval_s=settings.interval_s)
    launcher = MpsLauncher(settings.folder, settings.program)

    def on_reading() -> None:
        launcher.listed(card.uuid for card in sampler.figures().listed)

    sampler.on_reading = on_reading
    async with asyncio.TaskGroup() as group:
        group.create_task(launcher.run())
        group.create_task(sampler.run())
