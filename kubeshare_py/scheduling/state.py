"""The scheduler's state: every table that outlives one event, and what changes each.

Classes take the whole `State`, and their constructors name the tables that they work on; what a
class does to them is in its methods. The steps of a pod's way (`Enqueuer`, `PodCycles` and so on)
are no part of it: they keep what they wait for themselves, and `assembly` joins them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kubeshare_py.cluster.cluster_objects import DefaultSelectors
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.framework.snapshot import ProfilesInUse
from kubeshare_py.scheduling.charges.device_claims import ClaimedDevices
from kubeshare_py.scheduling.charges.external_changes import LingeringPods
from kubeshare_py.scheduling.charges.pod_charges import PodCharges
from kubeshare_py.scheduling.queue.asked_shapes import AskedShapes, RefusedBinds
from kubeshare_py.scheduling.queue.gang_queue import GangQueue
from kubeshare_py.scheduling.queue.gangs import Gangs
from kubeshare_py.scheduling.queue.pod_queue import PodQueue, Shares
from kubeshare_py.scheduling.queue.pod_records import Attempts, QueueMoves, Record
from kubeshare_py.scheduling.queue.pod_table import PodTable
from kubeshare_py.scheduling.queue.reservations import Reservations
from kubeshare_py.scheduling.queue.timers import Alarms
from kubeshare_py.scheduling.queue.waiting_reports import Synced, WaitingReports


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """All tables, one attribute each: what it holds, and what changes it."""

    #: Whether pods, nodes and cards were listed since the start. `machine` sets it.
    synced: Synced
    #: Nodes, cards, and what is taken of them, as columns. `machine` puts nodes and cards;
    #: charges are put by `charges`, `reservations`, `lingering` and `devices` below alone.
    ledger: Ledger
    #: Profiles, their evaluators with cached answers, the calls of plugins and their failures, the
    #: snapshots that questions see, and what was asked. `machine` replaces profiles;
    #: `reservations` chooses the snapshot that is shown.
    profiles: ProfilesInUse

    #: The records of all pods, and their states: each change of a state goes through it, so that
    #: queue, gangs, counts and followers see it. Used by every step of a pod's way.
    table: PodTable
    #: The members of each run of a pod group, and the PodGroups. It follows `table`; `GroupEdits`
    #: and `EventHandlers` declare minimums and finished members.
    gangs: Gangs

    #: Waiting pods by shape. `Enqueuer` adds, `table` removes, `PodCycles` marks unschedulable.
    queue: PodQueue
    #: Waiting gangs by composition. Changed by `GangCycles`.
    gang_queue: GangQueue
    #: What the namespaces have spent of their shares in both queues. Spent by `Iterations`.
    shares: Shares
    #: Entries into queues, and attempts, for the metrics. Counted where they happen.
    moves: QueueMoves
    attempts: Attempts
    #: When a part has something to do by time alone. Each part sets its own alarms.
    alarms: Alarms

    #: What pods hold of nodes, cards and GPU quotas. Changed by the steps of a pod's way, and by
    #: `EventHandlers` for pods that other clients bound.
    charges: PodCharges
    #: Places kept for starving nominees and preemptors. Planned by `ReservationPolicy` and
    #: `Preemption`; they end when a nominee is placed or changes.
    reservations: Reservations
    #: Cards of pods that were deleted by force. Begun and ended by `EventHandlers` and `machine`.
    lingering: LingeringPods
    #: Cards held by ResourceClaims. Changed by `machine`, and by `PreBindCycles` as it writes.
    devices: ClaimedDevices

    #: The shapes by which places are searched, and the nodes that refused pods lately. `Enqueuer`
    #: finds shapes, `BindingCycles` notes refusals.
    shapes: AskedShapes
    refused: RefusedBinds
    #: Why pods of unschedulable queues wait, and reports yet to be made. Used where a queue is
    #: found unschedulable; `machine` takes portions.
    reports: WaitingReports

    @property
    def records(self) -> Mapping[PodUid, Record]:
        """The records of all pods, in the order in which they were added; to be read."""
        return self.table.records


def new_state(profiles: Sequence[Profile], lingering_s: float) -> State:
    """The state before the first event.

    `lingering_s`: the longest time (s) that a pod lingers after a forced deletion.
    """
    synced, ledger, gangs, shares, moves = Synced(), Ledger(), Gangs(), Shares(), QueueMoves()
    in_use = ProfilesInUse(profiles, ledger)
    queue = PodQueue(shares, lambda profile, shape: in_use.evaluators[profile].forget(shape))
    table = PodTable(queue, gangs, moves)
    alarms = table.alarms
    refused = RefusedBinds(alarms)
    selectors = DefaultSelectors(ledger.columns.objects)
    return State(
        synced=synced,
        ledger=ledger,
        profiles=in_use,
        table=table,
        gangs=gangs,
        queue=queue,
        gang_queue=GangQueue(shares),
        shares=shares,
        moves=moves,
        attempts=Attempts(),
        alarms=alarms,
        charges=PodCharges(ledger, in_use.calls, moves),
        reservations=Reservations(ledger, in_use.snapshots),
        lingering=LingeringPods(ledger, moves, lingering_s, alarms),
        devices=ClaimedDevices(ledger),
        shapes=AskedShapes(ledger.placed_pods.terms, selectors, refused),
        refused=refused,
        reports=WaitingReports(queue, table.records, in_use.work, synced, refused, alarms),
    )
