"""Charges of lingering pods: deleted by force while their containers may still run.

Charges of ResourceClaims are kept here too: they hold cards without a pod.

A lingering pod keeps its cards, its pod-manager port and the GPUs from the device plugin. CPU,
memory and its place among the node's pods are free at once, as in kube-scheduler.
"""

from collections.abc import Mapping

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.native.native_gpus import is_native
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.identity import NodeName, PodUid

#: Every charge takes one of the node's pods; this gives it back.
_NO_PLACE = ("pods", -1)


class Lingering:
    """Charges by pod and by node. The ledger counts them in the columns."""

    def __init__(self) -> None:
        self.of: dict[PodUid, Charge] = {}
        self._on: dict[NodeName, dict[PodUid, Charge]] = {}

    def on(self, node: NodeName) -> Mapping[PodUid, Charge]:
        """The charges on a node, by pod."""
        return self._on.get(node, {})

    def put(self, uid: PodUid, charge: Charge) -> None:
        """Record what the pod keeps from now on."""
        self.of[uid] = charge
        self._on.setdefault(charge.node, {})[uid] = charge

    def pop(self, uid: PodUid) -> Charge | None:
        """Remove the pod; what it kept, or None."""
        charge = self.of.pop(uid, None)
        if charge is not None:
            there = self._on[charge.node]
            del there[uid]
            if not there:
                del self._on[charge.node]
        return charge


def kept(charge: Charge) -> Charge | None:
    """The part of a charge that a lingering pod keeps; None if it holds no GPU."""
    gpus = tuple(one for one in charge.resources if is_native(one[0]) and one[1])
    if not gpus and (charge.allocation is None or not charge.allocation.cards):
        return None
    unpicked = None if charge.unpicked is None else kept(charge.unpicked)
    resources = (*gpus, _NO_PLACE)
    return Charge(charge.node, resources, charge.allocation, None, unpicked, charge.picked)


def cards_alone(node: NodeName, allocation: Allocation) -> Charge:
    """A charge of cards that takes nothing else of the node."""
    return Charge(node, (_NO_PLACE,), allocation)


def freed(charge: Charge) -> tuple[tuple[str, int], ...]:
    """The resources that a lingering pod does not keep."""
    return tuple(one for one in charge.resources if not is_native(one[0]))
