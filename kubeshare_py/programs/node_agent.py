"""kubeshare-node-agent: does on its node what the scheduler's placements need there."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.config import load
from kubeshare_py.edges.kube.credential_reading import KubeConfigError
from kubeshare_py.edges.node.agent import NodeAgent
from kubeshare_py.edges.node.agent_part import AgentPart
from kubeshare_py.edges.node.agent_server import serve
from kubeshare_py.edges.node.card_sampler import ROOT, CardSampler
from kubeshare_py.edges.node.collector_server import CannotListen
from kubeshare_py.edges.node.gemini.gemini_folder import GeminiFolder
from kubeshare_py.edges.node.gemini.gemini_launcher import ALIVE
from kubeshare_py.edges.node.gemini.gemini_part import GeminiPart
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.run_until_signal import until_signal

OK, NOT_STARTED = 0, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """`address` "" is all. `interval_s` (s) per reading of the cards.

    The node's own folders are below `root`.
    """

    node: NodeName
    address: str
    port: int
    interval_s: float
    kubeconfig: str | None = None
    log_level: str = "info"
    root: Path = ROOT
    #: Whether Gemini's files are written, and the node's address for them, "" if it is not known.
    gemini: bool = False
    host_ip: str = ""


def run(settings: AgentSettings) -> int:
    """Work until SIGINT or SIGTERM; the exit code."""
    decision_log.set_up(settings.log_level)
    try:
        asyncio.run(until_signal(work(settings)))
    except (CannotListen, KubeConfigError) as error:
        decision_log.warn("server", message=str(error))
        return NOT_STARTED
    return OK


async def work(
    settings: AgentSettings, on_ready: Callable[[str, NodeAgent], None] = lambda url, agent: None
) -> None:
    """Work for ever; `on_ready` gets the server's URL. Raises CannotListen and KubeConfigError."""
    sampler = CardSampler(node=settings.node, interval_s=settings.interval_s, root=settings.root)
    async with KubeClient(load(settings.kubeconfig)) as client:
        agent = NodeAgent(client, sampler, parts(settings))
        async with serve(agent, settings.address, settings.port) as url:
            on_ready(url, agent)
            await agent.run()


def parts(settings: AgentSettings) -> tuple[AgentPart, ...]:
    """The parts that these settings ask for."""
    if not settings.gemini:
        return ()
    folder = GeminiFolder(settings.root)
    return (GeminiPart(settings.node, folder, settings.root / ALIVE, settings.host_ip),)
