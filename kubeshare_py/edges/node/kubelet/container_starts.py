"""What happens before a container with devices starts: its cards are found, and written down.

kubelet asks at each start of a container, with the same devices each time. Its checkpoint says
whose they are, and what was promised for them (docs/decisions/0025, 0027).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, PodKey, PodUid
from kubeshare_py.edges.node.hami_core.hami_limits import HamiLimits
from kubeshare_py.edges.node.kubelet.channels import KubeletUnreachable
from kubeshare_py.edges.node.kubelet.checkpoint import allocated_devices
from kubeshare_py.edges.node.kubelet.device_pods import DevicePods
from kubeshare_py.edges.node.kubelet.given_files import GivenFiles
from kubeshare_py.edges.node.kubelet.plugin_server import DevicesRefused
from kubeshare_py.edges.node.kubelet.pod_resources import PodResources
from kubeshare_py.isolation.containers import VISIBLE_DEVICES, VOID
from kubeshare_py.node_agent.device_plugin.container_cards import (
    CardsUnknown,
    DevicePod,
    held_by,
    placed_cards,
)
from kubeshare_py.node_agent.device_plugin.container_edits import ContainerEdits
from kubeshare_py.node_agent.device_plugin.devices import DeviceList, is_own, not_offered
from kubeshare_py.node_agent.device_plugin.given import (
    Given,
    WrittenClaim,
    free_cards,
    still_given,
)
from kubeshare_py.node_agent.device_plugin.held import device_uuids
from kubeshare_py.node_agent.device_plugin.owners import (
    AllocatedDevices,
    ContainerDevices,
    NoOwner,
    owners_of,
    with_init_containers,
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
        plugins: Path,
    ) -> None:
        """`plugins` is kubelet's folder of device plugins, where its checkpoint is."""
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
        self._plugins = plugins
        self._turn = asyncio.Lock()

    async def look(self) -> list[ContainerDevices]:
        """All containers of active pods; what is no longer given is forgotten.

        Raises KubeletUnreachable.
        """
        async with self._turn:
            listed, allocated = await self._listed()
            self._keep(still_given(self.given, listed, allocated))
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

    def check_offered(self, resource: PluginResource, devices: Sequence[str]) -> None:
        """Raises DevicesRefused unless these are devices that the node offers, each once."""
        if why := self._not_offered(resource, devices):
            raise DevicesRefused(why)

    def _not_offered(self, resource: PluginResource, devices: Sequence[str]) -> str:
        return not_offered(self.lists.get(resource.name, DeviceList(resource)), devices)

    async def _listed(self) -> tuple[list[ContainerDevices], list[AllocatedDevices]]:
        listed = await self._resources.listed()
        allocated = allocated_devices(self._plugins)
        return with_init_containers(listed, allocated, self._keys()), allocated

    def _keys(self) -> dict[PodUid, PodKey]:
        return {uid: one.key for uid, one in (self.state.tenants or {}).items()}

    async def _prepare(self, resource: PluginResource, devices: Sequence[str]) -> None:
        allocated = allocated_devices(self._plugins)
        owners = owners_of(resource.name, devices, allocated)
        if not all(is_own(device) for device in devices):
            # Another plugin gave them, and kubelet knows to which container: it stays as that one
            # answered.
            return
        # The node may offer fewer devices than when the container started first.
        written = {one.name for one in self.given.claims}
        why = self._not_offered(resource, devices)
        if why and not all(written & {*one.claims} for one in owners):
            raise NoOwner(why)
        listed, allocated = await self._listed()
        owners = owners_of(resource.name, devices, allocated)
        pod = await self._pods.pod(owners[0].uid, self._keys())
        given = still_given(self.given, listed, allocated)
        promised: dict[str, ContainerEdits] = {}
        for owner in owners:
            given, edits = await self._edits(given, pod, owner, resource, listed)
            for claim in owner.claims:
                if promised.setdefault(claim, edits) != edits:
                    raise NoOwner(
                        f"containers of {pod.key} have one promise of an older agent for different "
                        "parts of cards: create the pod anew"
                    )
        key = pod.key
        self._keep(
            given.with_claims(WrittenClaim(claim, key.namespace, key.name) for claim in promised)
        )
        for claim, edits in promised.items():
            self._files.write(claim, edits)

    async def _edits(
        self,
        given: Given,
        pod: DevicePod,
        owner: AllocatedDevices,
        resource: PluginResource,
        listed: Sequence[ContainerDevices],
    ) -> tuple[Given, ContainerEdits]:
        """What a container gets, and what is given with that."""
        more = ContainerEdits()
        if pod.allocation is None and not pod.problem and resource.unplaced is Unplaced.FREE_CARD:
            held = await self._held(pod, listed)
            offered = self.lists.get(resource.name, DeviceList(resource))
            given, cards = free_cards(given, pod, offered, owner.devices, held)
        else:
            charges, known = self._placed(pod, owner, resource)
            if not charges:
                return given, ContainerEdits({VISIBLE_DEVICES: VOID.value})
            cards = tuple(one.uuid for one in charges)
            claim = next(iter(owner.claims), "")
            more = self._limits.of(pod, owner.container, charges, known, claim)
        return given, _variables(resource, pod, cards).and_more(more)

    def _placed(
        self, pod: DevicePod, owner: AllocatedDevices, resource: PluginResource
    ) -> tuple[tuple[CardCharge, ...], tuple[Gpu, ...]]:
        """The container's part of the node's cards, and these."""
        known = self.state.cards
        if known is None:
            raise CardsUnknown("the cards of this node are not known yet")
        charges = placed_cards(pod, owner.container, resource.name, known)
        if resource.slices and len(charges) != len(owner.devices):
            raise CardsUnknown(
                f"container {owner.container!r} of {pod.key} has {len(owner.devices)} devices of "
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


def _variables(
    resource: PluginResource, pod: DevicePod, cards: Sequence[GpuUuid]
) -> ContainerEdits:
    found = {VISIBLE_DEVICES: ",".join(cards)}
    if resource.numbers:
        for name in (f"{resource.numbers}_{one}" for one in _TOLD):
            if name in pod.annotations:
                found[name] = pod.annotations[name]
    return ContainerEdits(found)
