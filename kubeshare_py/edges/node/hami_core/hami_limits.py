"""Holds containers to their shares by HAMi-core, at each of their starts."""

from collections.abc import Sequence

from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.edges.node.hami_core.hami_folder import INIT, HamiFolder, NoLibrary
from kubeshare_py.edges.node.kubelet.plugin_server import DevicesRefused
from kubeshare_py.node_agent.device_plugin.container_cards import ContainerSpec, DevicePod
from kubeshare_py.node_agent.device_plugin.container_edits import ContainerEdits
from kubeshare_py.node_agent.hami_core.container_limits import (
    HamiContainer,
    edits,
    is_held,
    limit_of,
)


class HamiLimits:
    """What containers get of the library in `folder`; None on a node without it."""

    def __init__(self, folder: HamiFolder | None = None) -> None:
        self._folder = folder

    def of(
        self,
        pod: DevicePod,
        container: str,
        charges: Sequence[CardCharge],
        cards: Sequence[Gpu],
        claim: str,
    ) -> ContainerEdits:
        """What a container that starts with these cards gets; nothing with another back-end.

        `claim` names what it gets, the same at each start. Raises DevicesRefused, so that no
        container starts without its limits, and OSError.
        """
        if pod.allocation is None or not is_held(pod.allocation):
            return ContainerEdits()
        if self._folder is None:
            raise DevicesRefused(f"{pod.key} needs HAMi-core, which this node's agent does not use")
        spec = pod.specs.get(container, ContainerSpec())
        found = HamiContainer(
            charges=tuple(charges),
            limit_milli=limit_of(pod.allocation, pod.containers.get(container)),
            variables=spec.variables,
            amounts=spec.amounts,
        )
        try:
            folder = f"{INIT}{container}" if spec.runs_first else container
            files = self._folder.of_container(pod.uid, folder, claim)
        except NoLibrary as error:
            raise DevicesRefused(f"{pod.key} needs HAMi-core: {error}") from error
        return edits(found, self._folder.settings, files, cards)
