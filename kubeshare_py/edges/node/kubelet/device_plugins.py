"""The device plugins as a part of the node agent."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kubeshare_py.dialects.dialect import Dialect
from kubeshare_py.dialects.dialects import IN_TREE
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.node.hami_core.hami_folder import HamiFolder
from kubeshare_py.edges.node.hami_core.hami_limits import HamiLimits
from kubeshare_py.edges.node.kubelet.card_plugin import CardPlugin
from kubeshare_py.edges.node.kubelet.channels import KubeletUnreachable
from kubeshare_py.edges.node.kubelet.container_starts import ContainerStarts
from kubeshare_py.edges.node.kubelet.device_pods import DevicePods
from kubeshare_py.edges.node.kubelet.given_files import GivenFiles
from kubeshare_py.edges.node.kubelet.pod_resources import PodResources
from kubeshare_py.edges.node.kubelet.registration import LOOK_S, RegisteredPlugin
from kubeshare_py.edges.process import decision_log
from kubeshare_py.exporters.metric import Metric
from kubeshare_py.exporters.metric_values import Values
from kubeshare_py.node_agent.agent_report import HeldCards, PartReport
from kubeshare_py.node_agent.device_plugin.devices import device_lists
from kubeshare_py.node_agent.device_plugin.held import held_cards
from kubeshare_py.node_agent.device_plugin.owners import ContainerDevices
from kubeshare_py.node_agent.device_plugin.resources import (
    NVIDIA_GPU,
    MigStrategy,
    PluginResource,
)
from kubeshare_py.node_agent.device_plugin.taken import shared_cards, without_taken
from kubeshare_py.node_agent.tenants import AgentState

#: Seconds between two looks at kubelet's list of devices, and between two after changes of pods.
LIST_S, SOON_S = 5.0, 0.5

REGISTERED = Metric(
    "kubeshare_node_agent_device_plugin_registered",
    "gauge",
    "1 for each extended resource whose device plugin kubelet knows, 0 for others.",
    ("resource",),
)
DEVICES = Metric(
    "kubeshare_node_agent_devices",
    "gauge",
    "Devices that the node advertises of each extended resource.",
    ("resource",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSettings:
    """What to serve. The node's own folders are below `root`; `look_s` (s) is for tests.

    `kubelet_root` is kubelet's --root-dir, an absolute path as seen from `root`.
    """

    node: NodeName
    resources: Sequence[PluginResource]
    strategy: MigStrategy
    root: Path
    kubelet_root: Path
    look_s: float = LOOK_S


class DevicePlugins:
    """One plugin for each resource, from when its devices are known."""

    name = "device-plugins"
    metrics = (REGISTERED, DEVICES)

    def __init__(
        self, settings: PluginSettings, client: KubeClient, hami: HamiFolder | None = None
    ) -> None:
        self.on_report: Callable[[], None] = lambda: None
        kubelet = settings.root / settings.kubelet_root.relative_to("/")
        self._settings = settings
        self._folder = kubelet / "device-plugins"
        self._starts = ContainerStarts(
            PodResources(kubelet / "pod-resources/kubelet.sock"),
            DevicePods(client, settings.node),
            GivenFiles(settings.root),
            HamiLimits(hami),
            self._folder,
        )
        self._plugins: dict[str, RegisteredPlugin] = {}
        self._held: tuple[HeldCards, ...] | None = None
        #: By resource, the devices that pods have.
        self._used: dict[str, set[str]] = {}
        #: Dialects whose pods have devices of whole cards besides their allocation.
        self._by_device = frozenset(
            one.name
            for make in IN_TREE.values()
            if isinstance(one := make(), Dialect)
            and NVIDIA_GPU in one.owns.resources | one.owns.contested
        )
        self._has_looked = False
        self._reported: PartReport | None = None
        self._news = asyncio.Event()
        self._said: dict[str, str] = {}
        self._starts.on_change = self._news.set

    def take(self, state: AgentState) -> None:
        """Advertise the cards; look soon whose they are."""
        self._starts.state = state
        if state.cards is not None:
            settings = self._settings
            self._starts.lists = device_lists(settings.resources, state.cards, settings.strategy)
            for name, listed in self._starts.lists.items():
                self._say(name, listed.refusal)
        self._news.set()

    def report(self) -> PartReport | None:
        """The resources that are served, and what others hold."""
        if not self._has_looked or self._starts.state.cards is None:
            return None
        served = [one for one in self._starts.lists.values() if not one.refusal]
        units = {
            one.resource.name: str(one.resource.unit) for one in served if one.resource.has_choice
        }
        names = tuple(one.resource.reported for one in served)
        return PartReport(plugins=names, unit=units, held=self._held)

    def values(self) -> Values:
        """Which plugins are registered, with how many devices."""
        lists = self._starts.lists
        known = {name: not one.trouble for name, one in self._plugins.items()}
        return {
            REGISTERED.name: {(name,): float(known.get(name, False)) for name in lists},
            DEVICES.name: {(name,): float(one.count) for name, one in lists.items()},
        }

    def problem(self) -> str:
        """The first plugin that does not work, and why."""
        for name, listed in self._starts.lists.items():
            if listed.refusal:
                return listed.refusal
            if listed.count and (plugin := self._plugins.get(name)) and plugin.trouble:
                return f"{name}: {plugin.trouble}"
        return ""

    async def run(self) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._news.clear()
                self._advertise(group)
                await self._look()
                await asyncio.sleep(min(SOON_S, self._settings.look_s))
                with suppress(TimeoutError):
                    async with asyncio.timeout(LIST_S):
                        await self._news.wait()

    def _advertise(self, group: asyncio.TaskGroup) -> None:
        """Show each plugin its list; a profile of instances that is gone has none."""
        lists = self._starts.lists
        shared = shared_cards((self._starts.state.tenants or {}).values(), self._by_device)
        for name, listed in lists.items():
            plugin = self._plugins.get(name)
            if plugin is None:
                answers = CardPlugin(listed.resource, self._starts)
                look_s = self._settings.look_s
                plugin = RegisteredPlugin(self._folder, name, answers, look_s)
                self._plugins[name] = plugin
                group.create_task(plugin.run())
            plugin.board.show(without_taken(listed, shared, self._used.get(name, ())))
        for name in self._plugins.keys() - lists.keys():
            board = self._plugins[name].board
            if board.listed is not None:
                board.show(type(board.listed)(board.listed.resource))

    async def _look(self) -> None:
        try:
            listed = await self._starts.look()
        except (KubeletUnreachable, OSError) as error:
            self._say("pod-resources", str(error))
            self._held = None
        else:
            self._say("pod-resources", "")
            self._see_used(listed)
            tenants = self._starts.state.tenants or {}
            uids = {one.key: uid for uid, one in tenants.items()}
            self._held = held_cards(listed, self._starts.given, self._starts.lists, uids)
        self._has_looked = self._starts.state.tenants is not None
        if self._reported != (report := self.report()):
            self._reported = report
            self.on_report()

    def _see_used(self, listed: Sequence[ContainerDevices]) -> None:
        used: dict[str, set[str]] = {}
        for container in listed:
            for name, devices in container.devices.items():
                used.setdefault(name, set()).update(devices)
        if used != self._used:
            self._used = used
            self._news.set()

    def _say(self, about: str, why: str) -> None:
        """Log each new trouble once."""
        if why and self._said.get(about) != why:
            decision_log.warn("device-plugins", about=about, message=why)
        self._said[about] = why
