"""Why the ledger refuses a placement of this scheduler: it takes more than there is."""

from kubeshare_py.cluster.card_tags import admits, misnames
from kubeshare_py.cluster.columns import (
    CORDONED,
    CROWDED,
    EXCLUDING,
    EXCLUSIVE,
    FIXED_RESOURCES,
    FOREIGN,
    HELD_BACK,
    PODS,
    PORTS,
    UNHEALTHY,
    Columns,
)
from kubeshare_py.cluster.native.native_gpus import Resources
from kubeshare_py.domain.allocation import Allocation, CardCharge

#: The beginning of such reasons.
REFUSES = "the ledger refuses: "
NO_SUCH_CARD = "there is no such GPU"
INSUFFICIENT_CARD = "too little is free of the GPUs"

_FLAGS = (
    (UNHEALTHY, "is not healthy"),
    (CORDONED, "is cordoned"),
    (EXCLUSIVE, "is held by a pod alone"),
    (CROWDED, "has as many pods as it may have"),
    (HELD_BACK, "is kept for pods whose GPUs the kubelet picks"),
)


def insufficient(resource: str) -> str:
    """The reason for a resource of a node, as kube-scheduler words it."""
    return "Too many pods" if resource == FIXED_RESOURCES[PODS] else f"Insufficient {resource}"


def refusal(
    columns: Columns, row: int, resources: Resources, allocation: Allocation | None, port: bool
) -> str | None:
    """What the row has too little of; None if all of it is free.

    The cost depends on how much is asked for. `port`: whether the pod takes a pod-manager port.
    """
    if columns.nodes[row] is None:
        return "the node is not there"
    for name, amount in resources:
        column = columns.resources.get(name)
        if amount > 0 and (column is None or columns.free.item(row, column) < amount):
            return insufficient(name)
    if columns.free.item(row, PODS) < 1:
        return insufficient(FIXED_RESOURCES[PODS])
    if port and columns.free.item(row, PORTS) < 1:
        return insufficient(FIXED_RESOURCES[PORTS])
    return None if allocation is None else _cards(columns, row, allocation)


def _cards(columns: Columns, row: int, allocation: Allocation) -> str | None:
    uuids, taken = columns.uuids[row], set()
    for card in allocation.cards:
        if card.uuid not in uuids or card.uuid in taken:
            return f"GPU {card.uuid} is {'taken twice' if card.uuid in taken else 'not there'}"
        taken.add(card.uuid)
        what = _card(columns, row, uuids.index(card.uuid), card)
        if what is not None:
            return f"GPU {card.uuid} {what}"
    return None


def _card(columns: Columns, row: int, slot: int, card: CardCharge) -> str | None:
    flags = columns.flags.item(row, slot) & ~FOREIGN
    if flags & EXCLUDING or card.tags:
        if not admits(columns, row, slot, card.tags):
            return "has pods of other exclusion tags"
        flags &= ~EXCLUDING
    if card.tags and misnames(columns, row, slot, card.tags):
        return "has another name, or its name is another GPU's"
    if flags:
        return next((text for flag, text in _FLAGS if flags & flag), "is not there")
    if columns.free_milli.item(row, slot) < card.milli:
        return "has too little share left"
    if columns.free_bytes.item(row, slot) < card.memory_bytes:
        return "has too little memory left"
    return "is not idle" if card.exclusive and columns.tenants.item(row, slot) else None
