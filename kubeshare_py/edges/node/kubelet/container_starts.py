"""What happens before a container with devices starts: its cards are found, and written down.

kubelet asks at each start of a container, with the same devices each time; that it lists them is
how the pod is found (docs/decisions/0025).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.edges.node.hami_core.hami_limits import HamiLimits
from kubeshare_py.edges.node.kubelet.channels import KubeletUnreachable
from kubeshare_py.edges.node.kubelet.device_pods import DevicePods
from kubeshare_py.edges.node.kubelet.given_files import GivenFiles
from kubeshare_py.edges.node.kubelet.plugin_server import DevicesRefused
from kubeshare_py.edges.node.kubelet.pod_resources import PodResources
from kubeshare_py.isolation.containers import VISIBLE_DEVICES
from kubeshare_py.node_agent.device_plugin.container_cards import (
    CardsUnknown,
    DevicePod,
    held_by,
    placed_cards,
)
from kubeshare_py.node_agent.device_plugin.container_edits import ContainerEdits
from kubeshare_py.node_agent.device_plugin.devices import DeviceList
from kubeshare_py.node_agent.device_plugin.given import (
    Given,
    WrittenClaim,
    free_cards,
    still_given,
)
from kubeshare_py.node_agent.device_plugin.held import device_uuids
from kubeshare_py.node_agent.device_plugin.owners import (
    ContainerDevices,
    DeviceOwner,
    NoOwner,
    claim_name,
    owner_of,
)
from kubeshare_py.node_agent.device_plugin.resources import PluginResource, Unplaced
from kubeshare_py.node_agent.tenants import AgentState

#: What of a predecessor's annotations containers are told in variables of the same names.
_TOLD = ("IDX", "POD", "DEV")


class ContainerStarts:
    """One start at a time, so that no two pods get the same free card."""

    def __init__(
        self,
        resources: PodResources,
        pods: DevicePods,
        files: GivenFiles,
        limits: HamiLimits,
    ) -> None:
        self.state = AgentState()
        #: What each resource of ours advertises.
        self.lists: Mapping[str, DeviceList] = {}
        self.given: Given = files.load()
        #: Called when `given` has changed.
        self.on_change: Callable[[], None] = lambda: None
        self._resources = resources
        self._pods = pods
        self._files = files
        self._limits = limits
        self._turn = asyncio.Lock()

    async def look(self) -> list[ContainerDevices]:
        """kubelet's list; what is no longer given is forgotten. Raises KubeletUnreachable."""
        async with self._turn:
            listed = await self._resources.listed()
            self._keep(still_given(self.given, listed))
            self._files.tidy(self.given)
            self._pods.forget({one.pod: None for one in listed})
        return listed

    async def prepare(self, resource: PluginResource, devices: Sequence[str]) -> None:
        """The container with these devices is about to start. Raises DevicesRefused."""
        async with self._turn:
            try:
                await self._prepare(resource, devices)
            except (NoOwner, CardsUnknown, KubeletUnreachable) as error:
                raise DevicesRefused(str(error)) from error
            except OSError as error:
                raise DevicesRefused(f"cannot write what the container gets: {error}") from error

    async def _prepare(self, resource: PluginResource, devices: Sequence[str]) -> None:
        listed = await self._resources.listed()
        owner = owner_of(resource.name, devices, listed)
        pod = await self._pods.pod(owner.pod)
        given = still_given(self.given, listed)
        claim = claim_name(resource.name, devices)
        more = ContainerEdits()
        if pod.allocation is None and not pod.problem and resource.unplaced is Unplaced.FREE_CARD:
            held = await self._held(pod, listed)
            given, cards = free_cards(given, pod, self.lists[resource.name], devices, held)
        else:
            charges, known = self._placed(pod, owner, resource, devices)
            cards = tuple(one.uuid for one in charges)
            more = self._limits.of(pod, owner.container, charges, known, claim)
        anchor = _anchor(resource, devices, listed)
        key = owner.pod
        self._keep(
            given.with_claim(WrittenClaim(claim, resource.name, anchor, key.namespace, key.name))
        )
        self._files.write(claim, _variables(resource, pod, cards).and_more(more))

    def _placed(
        self,
        pod: DevicePod,
        owner: DeviceOwner,
        resource: PluginResource,
        devices: Sequence[str],
    ) -> tuple[tuple[CardCharge, ...], tuple[Gpu, ...]]:
        """The container's part of the node's cards, and these."""
        known = self.state.cards
        if known is None:
            raise CardsUnknown("the cards of this node are not known yet")
        charges = placed_cards(pod, owner.container, resource.name, known)
        if resource.slices and owner.container and len(charges) != len(devices):
            raise CardsUnknown(
                f"container {owner.container!r} of {pod.key} has {len(devices)} devices of "
                f"{resource.name}, and {len(charges)} cards in its allocation"
            )
        return charges, known

    async def _held(self, pod: DevicePod, listed: Sequence[ContainerDevices]) -> set[GpuUuid]:
        """The cards that are not free for this pod."""
        if self.state.cards is None:
            raise CardsUnknown("the cards of this node are not known yet")
        others = [one for one in await self._pods.on_node() if one.uid != pod.uid]
        found = {card for one in others for card in held_by(one, self.state.cards)}
        return found | {*device_uuids(listed, self.lists)}

    def _keep(self, given: Given) -> None:
        if given != self.given:
            self._files.store(given)
            self.given = given
            self.on_change()


def _anchor(
    resource: PluginResource, devices: Sequence[str], listed: Sequence[ContainerDevices]
) -> str:
    """The first of the devices that kubelet lists."""
    known = {one for each in listed for one in each.devices.get(resource.name, ())}
    return min(known.intersection(devices))


def _variables(
    resource: PluginResource, pod: DevicePod, cards: Sequence[GpuUuid]
) -> ContainerEdits:
    found = {VISIBLE_DEVICES: ",".join(cards)}
    if resource.numbers:
        for name in (f"{resource.numbers}_{one}" for one in _TOLD):
            if name in pod.annotations:
                found[name] = pod.annotations[name]
    return ContainerEdits(found)
