"""gpushare as a dialect: its keys, its unit, and the parts that read and write them."""

from collections.abc import Mapping

from kubeshare_py.dialects.card_visibility import CONTAINER, CardVisibility, ContainerRule
from kubeshare_py.dialects.dialect import (
    Dialect,
    NodeKeys,
    OwnedKeys,
    PlacedNode,
    PodAsk,
    ResultKeys,
    Words,
)
from kubeshare_py.dialects.gpushare import keys as names
from kubeshare_py.dialects.gpushare.keys import UNITS, GpushareKeys
from kubeshare_py.dialects.gpushare.read_back import read_back
from kubeshare_py.dialects.gpushare.request import read
from kubeshare_py.dialects.gpushare.results import results
from kubeshare_py.dialects.gpushare.unit import unit_of
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.needs.node_rules import NodeRule
from kubeshare_py.domain.request import GpuRequest, InvalidRequest

#: The account that tells containers what they got, and writes that it did.
NODE_AGENT = "kubeshare-node-agent"


class Gpushare(Dialect):
    """Containers ask for units of one card's memory: `resources.limits: {aliyun.com/gpu-mem: 3}`.

    `unit` is GiB or MiB, `resource` the memory's name, and `annotations` the beginning of the
    annotations' names, "" for that of the resource.
    """

    name = "gpushare"
    words = Words(
        title="gpushare",
        documentation="https://github.com/AliyunContainerService/gpushare-scheduler-extender",
    )

    # The device plugin of gpushare runs on nodes with this label.
    node_rules = (NodeRule("gpushare", ("true",)),)

    def __init__(
        self, unit: str = "GiB", resource: str = names.RESOURCE, annotations: str = ""
    ) -> None:
        """Raises ValueError for a unit that is not known, and for names that cannot be such."""
        if unit not in UNITS:
            raise ValueError(f"unit: {unit!r} is none of {', '.join(UNITS)}")
        own = GpushareKeys(resource, annotations)
        self._keys, self._unit = own, unit
        self.owns = OwnedKeys(
            labels=frozenset({own.count, names.PLACEMENT_LABEL}),
            resources=frozenset({own.memory, own.count, own.percentage, own.tflops}),
        )
        self.result_keys = ResultKeys(
            scheduler=frozenset(
                {
                    *(own.index, own.pod, own.device),
                    *(names.ALLOCATION, names.CORE_PERCENTAGE, names.DEVICE_RESOURCE),
                }
            ),
            device_plugin=dict.fromkeys(
                (own.assigned, own.assume_time, own.assign_time, names.ASSIGNED, names.ASSUME_TIME),
                NODE_AGENT,
            ),
            prefixes=(names.CONTAINER_PREFIX,),
        )
        self.marks = (f"{own.memory} in {unit}",)
        self.container_rules = (_rule(own),)

    def read(self, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
        """See `request.read`."""
        return read(pod, self._keys, self._unit, self.name)

    def results(self, allocation: Allocation, node: PlacedNode) -> Mapping[str, str]:
        """See `results.results`."""
        return results(allocation, node, self._keys, UNITS[self._unit])

    def read_back(self, pod: PodAsk) -> Allocation | str | None:
        """See `read_back.read_back`."""
        return read_back(pod.annotations, self._keys, self._unit)

    def has_mark(self, mark: str, node: NodeKeys) -> bool:
        """Whether the node counts the memory in the dialect's unit, as far as that is known."""
        return unit_of(node, self._keys) in (self._unit, "")


def _rule(keys: GpushareKeys) -> ContainerRule:
    """Containers that ask for memory see a share, and know by variables how much it is.

    Init containers are not counted, and see nothing.
    """
    return ContainerRule(
        keys.memory,
        CardVisibility.SHARE,
        variables=(
            (keys.index, keys.index),
            (keys.pod, keys.pod),
            (keys.device, keys.device),
            (keys.container, f"{names.CONTAINER_PREFIX}{CONTAINER}"),
        ),
        init_containers=False,
    )
