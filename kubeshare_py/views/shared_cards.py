"""Cards and what pods hold of them, one by one: for monitoring that names each pod."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCard:
    """One card. Amounts are in bytes and thousandths of a GPU, scaled as pods are charged.

    `index` is the driver's, None if the inventory does not show the card; its capacities are then
    0. `tenants` are pods. A MIG instance has the `parent` that it is a part of.
    """

    node: str
    uuid: str
    index: int | None
    model: str
    capacity_bytes: int
    capacity_milli: int
    allocated_bytes: int
    allocated_milli: int
    tenants: int
    parent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPart:
    """What one pod holds of one card; `of` is the card."""

    namespace: str
    pod: str
    of: SharedCard
    memory_bytes: int
    milli: int
