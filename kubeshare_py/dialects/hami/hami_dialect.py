"""HAMi as a dialect, and 4paradigm's vGPU scheduler as a profile of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from kubeshare_py.dialects.admitted import Admitted, NewContainer
from kubeshare_py.dialects.agent_annotation import serves
from kubeshare_py.dialects.card_visibility import CardVisibility, ContainerRule
from kubeshare_py.dialects.dialect import (
    Dialect,
    NodeKeys,
    OwnedKeys,
    PlacedNode,
    PodAsk,
    ResultKeys,
    UnreadableHolding,
    Words,
)
from kubeshare_py.dialects.hami.admission import admitted
from kubeshare_py.dialects.hami.keys import (
    ASKS,
    GPU_NODE,
    GPU_NODE_ON,
    HAMI,
    MIG_ALLOCATIONS,
    NVIDIA_KEYS,
    SETTINGS,
    SYSTEMS,
    HamiSettings,
)
from kubeshare_py.dialects.hami.read_back import read_back
from kubeshare_py.dialects.hami.request import quota_names, read
from kubeshare_py.dialects.hami.results import results
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.needs.node_rules import NodeRule
from kubeshare_py.domain.node import slices_of
from kubeshare_py.domain.request import GpuRequest, InvalidRequest


class Hami(Dialect):
    """Containers ask for parts of cards: how many cards, and memory and cores of each.

    Its arguments are those of `HamiSettings`. Annotations of both systems are read, those of the
    profile's are written.
    """

    name = "hami"
    words = Words(title="HAMi", documentation="https://project-hami.io/docs")
    #: HAMi's device plugin runs on nodes with this label.
    node_rules = (NodeRule(GPU_NODE, (GPU_NODE_ON,)),)

    def __init__(self, **settings: Any) -> None:
        """Raises ValueError for settings that are not known, or have no such value."""
        unknown = sorted(settings.keys() - {*SETTINGS})
        if unknown:
            raise ValueError(f"{unknown[0]}: there are {', '.join(SETTINGS)}")
        own = self.settings = HamiSettings(**settings)
        self.quota_names = quota_names(own)
        self.owns = OwnedKeys(
            annotations=ASKS | own.resources,
            resources=own.resources - {own.count},
            contested=frozenset({own.count}),
        )
        systems, vendors = SYSTEMS.values(), NVIDIA_KEYS.values()
        self.result_keys = ResultKeys(
            scheduler=frozenset({MIG_ALLOCATIONS}).union(
                *(one.of_pods for one in systems), (one.allocated for one in vendors)
            ),
            device_plugin=dict.fromkeys(
                (
                    *(one.bind_phase for one in systems),
                    *(one.to_allocate for one in vendors),
                ),
                own.device_plugin,
            ),
            labels=frozenset({own.system.node}),
            common=SYSTEMS[HAMI].on_pods,
        )
        self.container_rules = tuple(
            ContainerRule(resource, CardVisibility.SHARE)
            for resource in (own.count, own.memory, own.memory_percentage, own.cores)
        )

    def read(self, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
        """See `request.read`."""
        return read(pod, self.settings, self.name)

    def admitted(self, containers: Sequence[NewContainer], *, has_node: bool) -> Admitted | str:
        """See `admission.admitted`."""
        return admitted(containers, self.settings, has_node=has_node)

    def results(self, allocation: Allocation, node: PlacedNode) -> Mapping[str, str]:
        """See `results.results`."""
        return results(allocation, node, self.settings)

    def read_back(self, pod: PodAsk) -> Allocation | UnreadableHolding | None:
        """See `read_back.read_back`."""
        return read_back(pod, self.settings)

    def owns_on(self, resource: str, node: NodeKeys) -> bool:
        """Whether the node's devices of this name are slices of its cards.

        They are HAMi's if its device plugin registered cards, and ours if the node's agent says so.
        """
        if any(one.register in node.annotations for one in NVIDIA_KEYS.values()):
            return True
        return serves(node.annotations, slices_of(resource))
