"""The device plugins as a part of the node agent."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeshare_py.dialects.dialect import Dialect
from kubeshare_py.dialects.dialects import IN_TREE
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.node.hami_core.hami_folder import HamiFolder
from kubeshare_py.edges.node.kubelet.container_starts import (
    ContainerStarts,
    GivenFiles,
    HamiLimits,
    cdi_device,
)
from kubeshare_py.edges.node.kubelet.device_pods import DevicePods, PodResources
from kubeshare_py.edges.node.kubelet.plugin_server import (
    DeviceBoard,
    DevicesRefused,
    KubeletUnreachable,
    PluginAnswers,
    PluginServer,
    calling,
)
from kubeshare_py.edges.node.kubelet.wire import deviceplugin_pb2 as wire
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.backoff import Backoff
from kubeshare_py.exporters.metric import Metric, Values
from kubeshare_py.isolation.containers import VISIBLE_DEVICES
from kubeshare_py.node_agent.agent_report import HeldCards, PartReport
from kubeshare_py.node_agent.allocation import ContainerDevices
from kubeshare_py.node_agent.devices import (
    NVIDIA_GPU,
    MigStrategy,
    PluginResource,
    Unplaced,
    device_lists,
    preferred,
)
from kubeshare_py.node_agent.tenants import AgentState
from kubeshare_py.node_agent.withheld import held_cards, shared_cards, without_taken

# What the plugin of one resource answers to kubelet.


#: No card: what a container sees whose runtime does not know CDI, unless its pod says more.
_VOID = "void"
#: Of a claim's name: no two claims of a node have the same by chance.
_CLAIM_BYTES = 16


class CardPlugin:
    """The plugin of `resource`."""

    def __init__(self, resource: PluginResource, starts: ContainerStarts) -> None:
        self.resource = resource
        self.asks_before_start = resource.unplaced is not Unplaced.UNTOUCHED
        self._starts = starts

    def preferred(self, free: Sequence[str], chosen: Sequence[str], size: int) -> list[str]:
        """A hint for kubelet: it asks if it has a choice, and may do otherwise."""
        return preferred(self.resource, free, chosen, size)

    def allocate(self, devices: Sequence[str]) -> wire.ContainerAllocateResponse:
        """A new claim, whose content is written before the container starts.

        kubelet keeps the answer for all starts of the container. It also gives the devices of an
        init container to the next ones: only the claim's name tells them apart then. Raises
        DevicesRefused.
        """
        self._starts.check_offered(self.resource, devices)
        if not self.asks_before_start:
            return wire.ContainerAllocateResponse()
        claim = secrets.token_hex(_CLAIM_BYTES)
        variables = {VISIBLE_DEVICES: _VOID}
        if self.resource.numbers:
            variables[f"{self.resource.numbers}_CONTAINER"] = str(len(devices))
        return wire.ContainerAllocateResponse(
            envs=variables, cdi_devices=[wire.CDIDevice(name=cdi_device(claim))]
        )

    async def before_start(self, devices: Sequence[str]) -> None:
        """Write the claim. Raises DevicesRefused."""
        try:
            await self._starts.prepare(self.resource, devices)
        except DevicesRefused as error:
            decision_log.warn("container-refused", resource=self.resource.name, message=str(error))
            raise


# Keeps one device plugin registered with kubelet, through restarts of either.
#
# When kubelet starts it deletes all sockets of the folder, then makes its own. So the folder is
# looked at: another kubelet.sock, or a socket of ours that is gone, means that kubelet restarted. A
# stream that ended means that kubelet gave the plugin up.


VERSION = "v1beta1"
KUBELET_SOCKET = "kubelet.sock"
#: Seconds between two looks at the folder, and until a registered plugin must have its stream.
LOOK_S, STREAM_S = 1.0, 10.0
#: kubelet calls the plugin back before it answers, and gives it ten seconds.
_REGISTER_S = 15.0
_METHOD = "/v1beta1.Registration/Register"

#: What tells one file of a name from the next one.
_FileMark = tuple[int, int, int] | None


class RegisteredPlugin:
    """The plugin of one resource in kubelet's `folder` of sockets."""

    def __init__(
        self, folder: Path, resource: str, answers: PluginAnswers, look_s: float = LOOK_S
    ) -> None:
        self.resource = resource
        self.board = DeviceBoard()
        #: Why kubelet does not know the plugin, "" if it does.
        self.trouble = "not registered yet"
        self.registrations = 0
        self._kubelet = folder / KUBELET_SOCKET
        self._socket = folder / f"kubeshare-{resource.replace('/', '-')}.sock"
        self._answers = answers
        self._look_s = look_s

    async def run(self) -> None:
        """Serve and register until cancelled, from when there are devices."""
        await self.board.first()
        backoff = Backoff()
        while True:
            try:
                await self._serve()
            except (OSError, KubeletUnreachable) as error:
                self._failed(str(error))
                await backoff.pause()

    async def _serve(self) -> None:
        """Serve the plugin until kubelet has restarted. Raises OSError, KubeletUnreachable."""
        async with PluginServer(self._socket, self.board, self._answers) as server:
            kubelet, own = _mark(self._kubelet), _mark(self._socket)
            await self._register(server)
            self.trouble = ""
            self.registrations += 1
            decision_log.inform("plugin-registered", resource=self.resource)
            waited_s = 0.0
            while kubelet == _mark(self._kubelet) and own == _mark(self._socket):
                await asyncio.sleep(self._look_s)
                waited_s = 0.0 if self.board.followers else waited_s + self._look_s
                if waited_s >= STREAM_S:
                    raise KubeletUnreachable("kubelet does not follow the list of devices")
        self.trouble = "kubelet restarted"

    async def _register(self, server: PluginServer) -> None:
        request = wire.RegisterRequest(
            version=VERSION,
            endpoint=self._socket.name,
            resource_name=self.resource,
            options=server.options(),
        )
        async with calling(self._kubelet) as channel:
            register: Any = channel.unary_unary(
                _METHOD, wire.RegisterRequest.SerializeToString, wire.Empty.FromString
            )
            await register(request, timeout=_REGISTER_S)

    def _failed(self, why: str) -> None:
        if why != self.trouble:
            decision_log.warn("plugin-unregistered", resource=self.resource, message=why)
        self.trouble = why


def _mark(path: Path) -> _FileMark:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


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
