"""Cambricon's MLUs as a dialect: pods written for HAMi, or for its ancestor, ask for them."""

from collections.abc import Mapping

from kubeshare_py.dialects.cambricon.keys import (
    ASKS,
    ASSIGNED,
    MLU,
    MLU_KEYS,
    PROFILE,
    SMLU,
    SYSTEMS,
    mlu_uuid_problem,
)
from kubeshare_py.dialects.cambricon.request import read
from kubeshare_py.dialects.card_visibility import CardVisibility
from kubeshare_py.dialects.dialect import (
    Dialect,
    OwnedKeys,
    PlacedNode,
    PodAsk,
    ResultKeys,
    UnreadableHolding,
    Words,
)
from kubeshare_py.dialects.hami.encoding import DeviceRecord, encode, encode_as_seed
from kubeshare_py.dialects.hami.keys import HAMI, MIB
from kubeshare_py.dialects.hami.keys import SYSTEMS as HAMI_SYSTEMS
from kubeshare_py.dialects.hami.read_back import CardKind, held_by_records
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.request import GpuRequest, InvalidRequest

#: The ServiceAccount of Cambricon's device plugin.
_PLUGIN = "kube-system/cambricon-device-plugin"
#: The annotations that HAMi writes whatever the vendor.
_HAMI = HAMI_SYSTEMS[HAMI]
_CORES = 100
_MILLI_OF_CORE = WHOLE_MILLI // _CORES
_COUNTS = frozenset(one.count for one in SYSTEMS)
_MLUS = CardKind(MLU, lambda name: not mlu_uuid_problem(name))


class Cambricon(Dialect):
    """Containers ask for MLUs, and for memory and cores of each.

    A pod's notes are the system in whose words it asks, and its containers in order.
    """

    name = "cambricon"
    words = Words(title="Cambricon MLU", documentation="https://project-hami.io/docs")

    def __init__(self) -> None:
        """It has no settings."""
        self.owns = OwnedKeys(
            annotations=ASKS, resources=frozenset().union(*(one.resources for one in SYSTEMS))
        )
        own = MLU_KEYS[HAMI]
        self.result_keys = ResultKeys(
            scheduler=frozenset({PROFILE, own.allocated}) | _HAMI.on_pods,
            device_plugin=dict.fromkeys((ASSIGNED, own.to_allocate), _PLUGIN),
            labels=frozenset({_HAMI.node}),
            common=_HAMI.on_pods,
        )

    def read(self, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
        """See `request.read`."""
        return read(pod, self.name)

    def visibility(self, pod: PodAsk) -> CardVisibility:
        """No NVIDIA card: MLUs come to containers by their own device plugin."""
        return CardVisibility.VOID

    def results(self, allocation: Allocation, node: PlacedNode) -> Mapping[str, str]:
        """The node and when, each container's cards, twice, and what Cambricon's plugin reads.

        The last is for HAMi's names alone. Its profile has one card, the pod's first.
        """
        (_, system), *containers = node.notes
        held = {str(one.container): one.cards for one in allocation.containers}
        slots = [
            tuple(_record(card) for card in held.get(container, ())) for container, _ in containers
        ]
        own = MLU_KEYS[HAMI]
        text = encode(slots) if system == HAMI else encode_as_seed(slots)
        found = _HAMI.bound(node.name, node.decided_at_ns)
        found |= {own.to_allocate: text, own.allocated: text}
        if system == HAMI and allocation.cards:
            first = allocation.cards[0]
            known = node.cards.get(first.uuid)
            record = _record(first)
            units = record.memory_mib * MIB // SMLU.unit
            index = known.index if known is not None else 0
            found |= {ASSIGNED: "false", PROFILE: f"{index}_{record.cores}_{units}"}
        return found

    def read_back(self, pod: PodAsk) -> Allocation | UnreadableHolding | None:
        """What a pod holds that HAMi's scheduler bound."""
        asking = {
            one.container: count
            for one in pod.containers
            if (count := sum(number for name, number in one.amounts if name in _COUNTS))
        }
        return held_by_records(pod, MLU_KEYS[HAMI].allocated, asking, _MLUS)


def _record(card: CardCharge) -> DeviceRecord:
    return DeviceRecord(card.uuid, MLU, card.memory_bytes // MIB, card.milli // _MILLI_OF_CORE)
