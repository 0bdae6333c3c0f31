"""nano-gpu and elastic-gpu, as a dialect."""

from collections.abc import Mapping

from kubeshare_py.dialects.card_visibility import CardVisibility, ContainerRule
from kubeshare_py.dialects.dialect import (
    Dialect,
    OwnedKeys,
    PlacedNode,
    PodAsk,
    ResultKeys,
    Words,
)
from kubeshare_py.dialects.nano_gpu.bound_pods import held_before
from kubeshare_py.dialects.nano_gpu.generations import CARD_CORE, Generation, generations
from kubeshare_py.dialects.nano_gpu.request import claims_of, generation_of
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.needs.node_rules import NodeRule
from kubeshare_py.domain.request import GpuRequest, InvalidRequest

#: The value of a placed pod's flag.
_YES = "true"
#: What stands for "no card" where containers without one have an annotation too.
_NO_CARD = "-1"


class NanoGpu(Dialect):
    """Containers ask for percents of a card and for memory by extended resources.

    Each container has its own cards, which other containers of the pod may share. The pod's notes
    are the annotations of its placement: its flag first, then those of containers.
    """

    name = "nano-gpu"
    words = Words(
        title="nano-gpu",
        documentation="https://github.com/nano-gpu/nano-gpu-scheduler",
    )
    #: Its agents' DaemonSet ran on nodes with this label.
    node_rules = (NodeRule("nvidia-device-enable", ("enable",)),)

    def __init__(self, memory_unit: str = "GiB") -> None:
        """`memory_unit` is that of `nano-gpu.io/gpu-memory`: GiB or MiB, else ValueError."""
        self._generations = generations(memory_unit)
        flags = frozenset(one.assumed for one in self._generations)
        self.owns = OwnedKeys(
            resources=frozenset().union(*(one.resources for one in self._generations))
        )
        self.container_rules = (
            *(_rule(one.core, whole_from=CARD_CORE) for one in self._generations),
            *(_rule(one.memory) for one in self._generations if one.memory),
        )
        self.result_keys = ResultKeys(
            scheduler=flags,
            prefixes=tuple(one.container for one in self._generations),
            labels=flags,
        )

    def read(self, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
        """See `request`."""
        generation = generation_of(pod.containers, self._generations)
        if generation is None or isinstance(generation, InvalidRequest):
            return generation
        claims = claims_of(pod.containers, generation)
        if isinstance(claims, InvalidRequest):
            return claims
        return GpuRequest(
            claims=claims,
            dialect=self.name,
            guarantee=pod.guarantee,
            needs_port=not all(one.claim.exclusive for one in claims),
            notes=_notes(pod, generation, {str(one.container) for one in claims}),
        )

    def results(self, allocation: Allocation, node: PlacedNode) -> Mapping[str, str]:
        """Each container's cards by index, as `0` or `0,1`, and the flag of a placed pod."""
        held = {
            str(one.container): ",".join(str(node.cards[card.uuid].index) for card in one.cards)
            for one in allocation.containers
        }
        flag, *of_containers = node.notes
        return {flag[1]: _YES} | {
            key: held.get(container, _NO_CARD) for container, key in of_containers
        }

    def read_back(self, pod: PodAsk) -> Allocation | str | None:
        """See `bound_pods`."""
        generation = generation_of(pod.containers, self._generations)
        if not isinstance(generation, Generation):
            return None
        claims = claims_of(pod.containers, generation)
        return None if isinstance(claims, InvalidRequest) else held_before(pod, generation, claims)


def _rule(resource: str, whole_from: int = 0) -> ContainerRule:
    return ContainerRule(resource, CardVisibility.SHARE, whole_from=whole_from)


def _notes(pod: PodAsk, generation: Generation, asking: set[str]) -> tuple[tuple[str, str], ...]:
    """The flag, and the annotations of containers by `container-0` and the like."""
    told = [
        (str(one.container), generation.container + one.name)
        for one in pod.containers
        if str(one.container) in asking
        or (generation.tells_all and len(one.name) <= generation.longest)
    ]
    return (("", generation.assumed), *told)
