"""A physical GPU (or MIG instance) of the inventory, and arithmetic of shares.

Shares are integers in thousandths of a GPU (`milli`), memory is in bytes; there are no floats.
"""

from dataclasses import dataclass

from kubeshare_py.domain.bounds import (
    CARD_BYTES,
    CARD_INDEX,
    CARD_NAME,
    CARD_TENANTS,
    CELL_PRIORITY,
    LINK_SPEED,
    NUMA_NODE,
    SCALING,
)
from kubeshare_py.domain.card_reading import BusPath
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.readiness import ReadinessReport

WHOLE_MILLI = 1000


@dataclass(frozen=True, slots=True)
class PeerLink:
    """How a card reaches another one of its node; `peer` is the other card's index.

    It has no uuid, so that cards of equal boards have equal links. `kind` is a word of `nvidia-smi
    topo -m`; `speed` is in MB/s, both directions summed, 0 if unknown. Invariant: peer and speed
    are within their bounds (`bounds`), else ValueError.
    """

    peer: int
    kind: str
    speed: int

    def __post_init__(self) -> None:
        problem = CARD_INDEX.problem(self.peer)
        if problem:
            raise ValueError(f"a link to card {problem}")
        problem = LINK_SPEED.problem(self.speed)
        if problem:
            raise ValueError(f"a link's speed {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One card.

    `links` are those to whole cards, by their index. A MIG instance has the `parent` that it is a
    part of, and no links. None is unknown. `rdma` is what lies between the card and the nearest
    RDMA device of its node; None also if there is no device. `fabric` names the NVLink network
    beyond its node that the card belongs to, "" for none. `cell_id` and `cell_priority` are
    KubeShare's, from a cells file; "" and 0 for a card in no cell. `readiness` says which isolation
    back-ends have what they need of it, as far as known. `max_tenants` (HAMi's split count) 0 means
    no limit. `vendor` is "" for a GPU; a card of another vendor takes only claims that name one,
    and its model begins with its vendor.

    `memory_scaling` and `cores_scaling` are thousandths: the capacities that pods are charged
    against are the card's own memory and share times these. Above 1000 the card is over-committed.

    Invariants, else ValueError: uuid is not empty; it, the model and all amounts are within their
    bounds (`bounds`), and so is the scaled memory.
    """

    uuid: GpuUuid
    index: int
    model: str
    memory_bytes: int
    healthy: bool = True
    max_tenants: int = 0
    memory_scaling: int = WHOLE_MILLI
    cores_scaling: int = WHOLE_MILLI
    links: tuple[PeerLink, ...] = ()
    numa_node: int | None = None
    parent: GpuUuid | None = None
    fabric: str = ""
    cell_id: str = ""
    cell_priority: int = 0
    readiness: ReadinessReport = ()
    rdma: BusPath | None = None
    vendor: str = ""

    def __post_init__(self) -> None:
        # In one expression, because a reading creates tens of thousands of cards.
        if not (
            0 < len(self.uuid) <= CARD_NAME.most >= len(self.model)
            and 0 <= self.index <= CARD_INDEX.most
            and 0 < self.memory_bytes <= CARD_BYTES.most
            and (
                self.memory_scaling == self.cores_scaling == WHOLE_MILLI
                or (
                    SCALING.allows(self.cores_scaling)
                    and SCALING.allows(self.memory_scaling)
                    and CARD_BYTES.allows(self.capacity_bytes)
                )
            )
            and 0 <= self.max_tenants <= CARD_TENANTS.most
            and (self.numa_node is None or 0 <= self.numa_node <= NUMA_NODE.most)
            and 0 <= self.cell_priority <= CELL_PRIORITY.most
        ):
            raise ValueError(self._problem())

    @property
    def is_instance(self) -> bool:
        """Whether it is a MIG instance: sources without `parent` have NVIDIA's uuid, MIG-…"""
        return self.parent is not None or self.uuid.startswith("MIG-")

    @property
    def capacity_milli(self) -> int:
        """What pods may hold of the card in all, in thousandths of a GPU."""
        return self.cores_scaling

    @property
    def capacity_bytes(self) -> int:
        """The memory that pods may hold of the card in all, in bytes, rounded down."""
        return self.memory_bytes * self.memory_scaling // WHOLE_MILLI

    @property
    def share_bytes(self) -> int:
        """The memory that goes with a whole share: its own, or what pods may hold if that is less.

        Scaling gives room for more shares, not more memory to each.
        """
        return min(self.memory_bytes, self.capacity_bytes)

    def _problem(self) -> str:
        if not self.uuid:
            return "a GPU needs a UUID"
        shown = self.uuid[: CARD_NAME.most]
        amounts = (
            ("length of its uuid", CARD_NAME, len(self.uuid)),
            ("length of its model", CARD_NAME, len(self.model) or 1),
            ("index", CARD_INDEX, self.index),
            ("memory", CARD_BYTES, self.memory_bytes),
            ("max_tenants", CARD_TENANTS, self.max_tenants),
            ("memory scaling", SCALING, self.memory_scaling),
            ("cores scaling", SCALING, self.cores_scaling),
            ("scaled memory", CARD_BYTES, self.capacity_bytes),
            ("NUMA node", NUMA_NODE, self.numa_node or 0),
            ("cell priority", CELL_PRIORITY, self.cell_priority),
        )
        found = (
            f"{name} {bound.problem(amount)}"
            for name, bound, amount in amounts
            if not bound.allows(amount)
        )
        return f"GPU {shown}: {next(found)}"


def part_of_bytes(whole_bytes: int, milli: int) -> int:
    """So many thousandths of an amount of memory, in bytes: the exact part, rounded down."""
    return whole_bytes * milli // WHOLE_MILLI
