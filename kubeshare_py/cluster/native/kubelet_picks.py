"""Charges of native pods with the cards that the kubelet picked, as their node's agent names them.

A node's agent speaks of its own node only: of pods that are placed there, and of cards that the
node lists. What it names of them is charged wholly and to that pod alone, in place of idle cards
that are held back. What a decision gave to a pod is never changed by it.
"""

from collections.abc import Iterable, Sequence

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.native.native_gpus import native_gpus, native_instances
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, PodUid
from kubeshare_py.domain.node import Node

#: The language in which native pods ask, for people.
_DIALECT = "nvidia"


def picks_of(node: Node | None, uid: PodUid) -> tuple[GpuUuid, ...]:
    """The cards that the node's agent names for a pod."""
    picks = node.agent.picks if node is not None else None
    return next((pick.cards for pick in picks or () if pick.uid == uid), ())


def with_picks(charge: Charge, cards: Sequence[GpuUuid], gpus: Iterable[Gpu]) -> Charge:
    """The charge with those of the named cards that are among `gpus`, the cards of its node.

    It stays as it is if it has cards of its own or needs none of the device plugin. If more cards
    are named than the pod requests, none of them counts: such words are not about this pod.
    """
    held = charge.allocation
    if not cards or (held is not None and (held.cards or held.port is not None)):
        return charge
    whole, instances = native_gpus(charge.resources), native_instances(charge.resources)
    if not 0 < len(cards) <= whole + instances:
        return charge
    there = [gpu for gpu in gpus if gpu.uuid in cards]
    if not there:
        return charge
    parts = sum(1 for gpu in there if gpu.parent is not None)
    # An instance is a `nvidia.com/gpu` too where the plugin has MIG strategy `single`.
    picked = len(there) - min(parts, instances)
    cards_held = tuple(map(_whole, there))
    allocation = Allocation(token=DecisionToken(""), dialect=_DIALECT, cards=cards_held)
    return Charge(charge.node, charge.resources, allocation, charge.pod, charge, min(picked, whole))


def _whole(gpu: Gpu) -> CardCharge:
    milli, memory = gpu.capacity_milli, gpu.capacity_bytes
    return CardCharge(gpu.uuid, milli, memory, gpu.model, gpu.cell_id, exclusive=True)
