"""One `gpu_capacity` series as a card of a node, or what is wrong with it."""

from collections.abc import Mapping
from dataclasses import dataclass

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName

NAME = "gpu_capacity"

#: 2**63 bytes are far above any card; longer digit strings would only cost time.
_MOST_DIGITS = 19


@dataclass(frozen=True, slots=True)
class CardOfNode:
    """A card, and the node that it is in."""

    node: NodeName
    card: Gpu


@dataclass(frozen=True, slots=True)
class SampleProblem:
    """A series that names no card. `node` and `uuid` are empty where it does not say them."""

    node: NodeName
    uuid: GpuUuid
    label: str
    rule: str

    def __str__(self) -> str:
        return f"{self.uuid or '?'} of node {self.node or '?'}: label {self.label} {self.rule}"


def read_series(labels: Mapping[str, str]) -> CardOfNode | SampleProblem:
    """The card that one series describes."""
    # Without honor_labels, Prometheus keeps a target's own label `node` and renames the exporter's.
    node = NodeName(labels.get("exported_node") or labels.get("node", ""))
    uuid = GpuUuid(labels.get("uuid", ""))
    for label, text in (("node", node), ("uuid", uuid), ("model", labels.get("model", ""))):
        if not text:
            return SampleProblem(node, uuid, label, "is missing")
    memory, index = labels.get("memory", ""), labels.get("index", "")
    if not _is_amount(memory) or int(memory) == 0:
        return SampleProblem(node, uuid, "memory", f"{memory!r} is not a number of bytes above 0")
    if not _is_amount(index):
        return SampleProblem(node, uuid, "index", f"{index!r} is not a number")
    model = labels["model"].replace(" ", "-")
    return CardOfNode(node, Gpu(uuid=uuid, index=int(index), model=model, memory_bytes=int(memory)))


def _is_amount(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
