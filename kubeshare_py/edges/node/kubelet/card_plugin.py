"""What the plugin of one resource answers to kubelet."""

import secrets
from collections.abc import Sequence

from kubeshare_py.edges.node.kubelet.container_starts import ContainerStarts
from kubeshare_py.edges.node.kubelet.given_files import cdi_device
from kubeshare_py.edges.node.kubelet.plugin_server import DevicesRefused
from kubeshare_py.edges.node.kubelet.wire import deviceplugin_pb2 as wire
from kubeshare_py.edges.process import decision_log
from kubeshare_py.isolation.containers import VISIBLE_DEVICES
from kubeshare_py.node_agent.device_plugin.devices import preferred
from kubeshare_py.node_agent.device_plugin.resources import PluginResource, Unplaced

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
