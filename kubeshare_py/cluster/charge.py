"""A charge: what one pod holds, or is to hold, of one node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kubeshare_py.cluster.columns import Columns
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import GpuClaim

Resources = tuple[tuple[str, int], ...]

#: Whole GPUs from the vendor's device plugin: the kubelet picks the cards.
NATIVE_GPU = "nvidia.com/gpu"


@dataclass(slots=True)
class Charge:
    """What one pod holds of one node: resources (cpu in milli) and cards. Do not change it."""

    node: NodeName
    resources: Resources
    allocation: Allocation | None


def native_gpus(resources: Resources) -> int:
    """The number of whole GPUs that are requested of the device plugin."""
    return next((amount for name, amount in resources if name == NATIVE_GPU), 0)


def card_charges(
    columns: Columns,
    row: int,
    slots: Sequence[int],
    claim: GpuClaim | None,
    cells: Mapping[GpuUuid, str] | None = None,
) -> tuple[CardCharge, ...]:
    """What a claim takes of the cards in these slots of a row; `cells` are the row's cells."""
    if claim is None:
        return ()
    uuids, names, charges = columns.uuids[row], columns.model_names, []
    for slot in slots:
        model = names[columns.model.item(row, slot)]
        memory = claim.bytes_of(columns.capacity_bytes.item(row, slot), model)
        cell = cells.get(uuids[slot], "") if cells else ""
        charges.append(CardCharge(uuids[slot], claim.milli_on(model), memory, model, cell))
    return tuple(charges)


def tentative_charge(
    columns: Columns,
    row: int,
    slots: Sequence[int],
    shape: Shape,
    cells: Mapping[GpuUuid, str] | None = None,
) -> Charge:
    """What a pod of this shape would hold there; of a pod-manager port, any one."""
    node, claim = columns.names[row], shape.claim
    assert node is not None
    allocation = Allocation(
        token=DecisionToken(""),
        cards=card_charges(columns, row, slots, claim, cells),
        exclusive=claim is not None and claim.exclusive,
        port=0 if shape.needs_port else None,
    )
    return Charge(node, shape.resources, allocation)
