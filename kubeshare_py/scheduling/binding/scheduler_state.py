"""The scheduler's state, in four parts: pods, queues, charges, and what moves a pod on.

A class takes the parts that it works on, and its constructor names what it uses of each; none keeps
a part, or takes all. Only `machine` knows everything.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.scheduling.binding.assume import Assumer
from kubeshare_py.scheduling.binding.binding_cycle import BindingCycles
from kubeshare_py.scheduling.binding.device_claims import ClaimedDevices
from kubeshare_py.scheduling.binding.enqueue import Enqueuer
from kubeshare_py.scheduling.binding.lingering_pods import LingeringPods
from kubeshare_py.scheduling.binding.pre_bind_cycles import PreBindCycles
from kubeshare_py.scheduling.queue.attempts import Attempts
from kubeshare_py.scheduling.queue.fair_share import Shares
from kubeshare_py.scheduling.queue.gang_queue import GangQueue
from kubeshare_py.scheduling.queue.gangs import Gangs
from kubeshare_py.scheduling.queue.pod_queue import PodQueue
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.pod_table import PodTable
from kubeshare_py.scheduling.queue.queue_moves import QueueMoves
from kubeshare_py.scheduling.queue.reservations import Reservations


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods that the scheduler remembers, and the gangs that some of them belong to.

    Classes that change the state of pods take `table`; others read `records`.
    """

    table: PodTable
    gangs: Gangs

    @property
    def records(self) -> Mapping[PodUid, Record]:
        """The records of all pods, in the order in which the pods were added."""
        return self.table.records


@dataclass(frozen=True, slots=True)
class Queues:
    """What waits for a place: pods by shape, and gangs by composition.

    Both draw on the same shares of namespaces. `moves` and `attempts` count for the metrics.
    """

    pods: PodQueue
    gangs: GangQueue
    shares: Shares
    moves: QueueMoves
    attempts: Attempts


@dataclass(frozen=True, slots=True)
class Charges:
    """What is taken of nodes and cards: by pods, reservations, pods that linger, and claims."""

    ledger: Ledger
    reservations: Reservations
    lingering: LingeringPods
    devices: ClaimedDevices


@dataclass(frozen=True, slots=True)
class PodLifecycle:
    """The steps of a pod's way: into a queue, to an assumed place, to a Binding and its answer."""

    enqueuer: Enqueuer
    assumer: Assumer
    pre_binds: PreBindCycles
    binding_cycles: BindingCycles
