"""kubeshare-node-agent: does on its node what the scheduler's placements need there."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.kube.errors import KubeConfigError
from kubeshare_py.edges.node.agent import AgentPart, NodeAgent, serve
from kubeshare_py.edges.node.card_sampler import ROOT, CardSampler
from kubeshare_py.edges.node.collector_server import CannotListen
from kubeshare_py.edges.node.gemini.gemini_folder import GeminiFolder
from kubeshare_py.edges.node.gemini.gemini_launcher import ALIVE
from kubeshare_py.edges.node.gemini.gemini_part import GeminiPart
from kubeshare_py.edges.node.hami_core.hami_folder import HamiFolder
from kubeshare_py.edges.node.hami_core.hami_part import HamiPart, hami_metrics
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.run_until_signal import until_signal
from kubeshare_py.node_agent.devices import MigStrategy, PluginResource
from kubeshare_py.node_agent.hami_core import HamiCoreSettings

OK, NOT_STARTED = 0, 3

#: kubelet's own --root-dir.
KUBELET_ROOT = Path("/var/lib/kubelet")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """`address` "" is all. `interval_s` (s) per reading of the cards.

    The node's own folders are below `root`. `devices` are served to kubelet as device plugins;
    `pod_resources`: kubelet is asked which pods have which cards, also without them. `kubelet_root`
    is kubelet's --root-dir, an absolute path as seen from `root`.
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
    devices: tuple[PluginResource, ...] = ()
    pod_resources: bool = False
    kubelet_root: Path = KUBELET_ROOT
    mig_strategy: MigStrategy = MigStrategy.NONE
    #: How HAMi-core is used, None for not at all.
    hami: HamiCoreSettings | None = None


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
        agent = NodeAgent(client, sampler, parts(settings, client))
        address, hami = settings.address, hami_metrics(agent, settings.hami, settings.address)
        async with serve(agent, address, settings.port) as url, hami:
            on_ready(url, agent)
            await agent.run()


def parts(settings: AgentSettings, client: KubeClient) -> tuple[AgentPart, ...]:
    """The parts that these settings ask for."""
    found: list[AgentPart] = []
    if settings.gemini:
        gemini, alive = GeminiFolder(settings.root), settings.root / ALIVE
        found.append(GeminiPart(settings.node, gemini, alive, settings.host_ip))
    hami = HamiFolder(settings.root, settings.hami) if settings.hami else None
    if hami is not None:
        found.append(HamiPart(settings.node, hami))
    if settings.devices or settings.pod_resources:
        # Imported late: gRPC costs memory on every node.
        from kubeshare_py.edges.node.kubelet import device_plugins  # noqa: PLC0415

        wanted = device_plugins.PluginSettings(
            node=settings.node,
            resources=settings.devices,
            strategy=settings.mig_strategy,
            root=settings.root,
            kubelet_root=settings.kubelet_root,
        )
        found.append(device_plugins.DevicePlugins(wanted, client, hami))
    return tuple(found)
