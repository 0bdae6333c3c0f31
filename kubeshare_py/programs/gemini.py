"""kubeshare-gemini: Gemini's daemons for this node's cards and pods."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.node.card_sampler import CardSampler
from kubeshare_py.edges.node.gemini.gemini_folder import GeminiFolder
from kubeshare_py.edges.node.gemini.gemini_launcher import ALIVE, GeminiLauncher
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.build import say_started
from kubeshare_py.edges.process.run_until_signal import until_signal


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiSettings:
    """`root` is where the node's folders are, `programs` the folder of Gemini's programs, if it is
    another one than there. `interval_s` (s) per reading of the cards.
    """

    node: NodeName
    root: Path
    programs: Path | None
    interval_s: float
    log_level: str = "info"


def run(settings: GeminiSettings) -> None:
    """Keep the daemons that the port files name, until SIGINT or SIGTERM."""
    decision_log.set_up(settings.log_level)
    folder = GeminiFolder(settings.root)
    programs = settings.programs or folder.programs
    say_started("kubeshare-gemini", node=settings.node, programs=str(programs))
    asyncio.run(until_signal(launch(settings, folder, programs)))


async def launch(settings: GeminiSettings, folder: GeminiFolder, programs: Path) -> None:
    """Keep the daemons until cancelled; then all of them are killed."""
    sampler = CardSampler(node=settings.node, interval_s=settings.interval_s)
    launcher = GeminiLauncher(folder, programs, settings.root / ALIVE)

    def on_reading() -> None:
        launcher.listed(card.uuid for card in sampler.figures().listed)

    sampler.on_reading = on_reading
    async with asyncio.TaskGroup() as group:
        group.create_task(launcher.run())
        group.create_task(sampler.run())
