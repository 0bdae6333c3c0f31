"""A charge: what one pod holds, or is to hold, of one node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kubeshare_py.cluster.card_tags import named
from kubeshare_py.cluster.columns import Columns
from kubeshare_py.cluster.native.native_gpus import (
    NONE,
    NativeGpus,
    Resources,
    native_gpus,
    native_of,
)
from kubeshare_py.domain.allocation import Allocation, CardCharge, summed
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName
from kubeshare_py.domain.needs.placed_pod import PlacedPod
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import GpuClaim


@dataclass(slots=True)
class Charge:
    """What one pod holds of one node: resources (cpu in milli) and cards. Do not change it.

    `pod` is what other pods' placement depends on besides; None for a reservation.

    `unpicked` is set if the kubelet picked the cards of the allocation: it is the charge without
    them. `picked` of them are whole GPUs of those that the pod requests of the device plugin.
    """

    node: NodeName
    resources: Resources
    allocation: Allocation | None
    pod: PlacedPod | None = None
    unpicked: "Charge | None" = None
    picked: int = 0

    @property
    def native(self) -> NativeGpus:
        """The GPUs that the kubelet gives to the pod."""
        if self.unpicked is not None:
            return NativeGpus(native_gpus(self.resources) - self.picked, self.picked)
        if self.allocation is not None and self.allocation.cards:
            return NONE
        return native_of(self.resources) if self.resources else NONE


def claim_charges(
    columns: Columns,
    row: int,
    slots: Sequence[int],
    claims: Sequence[GpuClaim],
    cells: Mapping[GpuUuid, str] | None = None,
) -> list[tuple[CardCharge, ...]]:
    """What each claim takes of its cards; `slots` of a row are those of one claim after another.

    `cells` are the row's cells.
    """
    found, first = [], 0
    for claim in claims:
        found.append(_taken(columns, row, slots[first : first + claim.count], claim, cells))
        first += claim.count
    return found


def card_charges(
    columns: Columns,
    row: int,
    slots: Sequence[int],
    claims: Sequence[GpuClaim],
    cells: Mapping[GpuUuid, str] | None = None,
) -> tuple[CardCharge, ...]:
    """What the claims take in all of each card; as `claim_charges`."""
    if len(claims) == 1:
        return _taken(columns, row, slots, claims[0], cells)
    found = claim_charges(columns, row, slots, claims, cells)
    return summed(card for cards in found for card in cards)


def with_names(
    columns: Columns,
    row: int,
    slots: Sequence[int],
    cards: tuple[CardCharge, ...],
    namespace: str,
) -> tuple[CardCharge, ...]:
    """The charges of a pod of this namespace, each with the name of its card among its tags.

    `slots` are those of the cards.
    """
    return tuple(
        replace(card, tags=tuple(sorted({*card.tags, named(columns, row, slot, card, namespace)})))
        for card, slot in zip(cards, slots, strict=True)
    )


def _taken(
    columns: Columns,
    row: int,
    slots: Sequence[int],
    claim: GpuClaim,
    cells: Mapping[GpuUuid, str] | None,
) -> tuple[CardCharge, ...]:
    """What one claim takes of the cards in these slots."""
    uuids, names, charges = columns.uuids[row], columns.model_names, []
    for slot in slots:
        model = names[columns.model.item(row, slot)]
        capacity = columns.capacity_bytes.item(row, slot)
        memory = claim.bytes_of(capacity, columns.share_bytes.item(row, slot), model)
        cell = cells.get(uuids[slot], "") if cells else ""
        milli = claim.charged_milli(columns.capacity_milli.item(row, slot), model)
        alone, tags = claim.exclusive, claim.tags
        charges.append(CardCharge(uuids[slot], milli, memory, model, cell, alone, tags))
    return tuple(charges)


def tentative_charge(
    columns: Columns,
    row: int,
    slots: Sequence[int],
    shape: Shape,
    cells: Mapping[GpuUuid, str] | None = None,
    pod: PlacedPod | None = None,
) -> Charge:
    """What a pod of this shape would hold there; of a pod-manager port, any one."""
    node = columns.names[row]
    assert node is not None
    allocation = Allocation(
        token=DecisionToken(""),
        cards=card_charges(columns, row, slots, shape.claims, cells),
        port=0 if shape.needs_port else None,
    )
    return Charge(node, shape.charged, allocation, pod)
