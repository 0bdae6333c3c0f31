"""The state that the machine's parts share, built together because they refer to each other."""

from collections.abc import Sequence
from dataclasses import dataclass

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.framework.boundary import Boundary
from kubeshare_py.framework.evaluator import EvaluationWork, Evaluator
from kubeshare_py.framework.plugin_calls import PluginCalls
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.binding.assume import Assumer
from kubeshare_py.scheduling.binding.binding_cycle import BindingCycles
from kubeshare_py.scheduling.binding.enqueue import Enqueuer
from kubeshare_py.scheduling.binding.group_edits import GroupEdits
from kubeshare_py.scheduling.binding.lingering_pods import LingeringPods
from kubeshare_py.scheduling.queue.arrivals import Arrivals
from kubeshare_py.scheduling.queue.attempts import Attempts
from kubeshare_py.scheduling.queue.fair_share import Shares
from kubeshare_py.scheduling.queue.gangs import Gangs
from kubeshare_py.scheduling.queue.pod_queue import PodQueue
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.pod_table import PodTable
from kubeshare_py.scheduling.queue.queue_moves import QueueMoves
from kubeshare_py.scheduling.queue.reservations import Reservations
from kubeshare_py.scheduling.queue.waiting_reports import WaitingReports


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerState:
    """The machine's shared state. `profiles` and `evaluators` may be replaced in place."""

    profiles: dict[str, Profile]
    arrivals: Arrivals
    evaluators: dict[str, Evaluator]
    table: PodTable
    records: dict[PodUid, Record]
    ledger: Ledger
    queue: PodQueue
    moves: QueueMoves
    attempts: Attempts
    work: EvaluationWork
    shares: Shares
    boundary: Boundary
    calls: PluginCalls
    assumer: Assumer
    gangs: Gangs
    reservations: Reservations
    reports: WaitingReports
    enqueuer: Enqueuer
    group_edits: GroupEdits
    binding_cycles: BindingCycles
    lingering: LingeringPods


def empty_state(profiles: Sequence[Profile], name: str, lingering_s: float) -> SchedulerState:
    """A state without pods and nodes; `name` makes its decision tokens unique.

    `lingering_s`: the longest time (s) that a pod lingers after a forced deletion.
    """
    by_name = {profile.scheduler_name: profile for profile in profiles}
    ledger, moves, attempts, work = Ledger(), QueueMoves(), Attempts(), EvaluationWork()
    boundary = Boundary()
    calls = PluginCalls(boundary, by_name)
    evaluators = {of: Evaluator(profile, ledger, work, boundary) for of, profile in by_name.items()}
    shares = Shares()
    queue = PodQueue(shares, lambda profile, shape: evaluators[profile].forget(shape))
    assumer = Assumer(ledger, queue, moves, evaluators, calls, work, name)
    gangs, reservations = Gangs(), Reservations(ledger)
    table = PodTable(queue, gangs, moves)
    reports = WaitingReports(queue, table.records, work)
    enqueuer = Enqueuer(table, queue, moves, calls, reports, gangs, reservations)
    table.follow(enqueuer)
    return SchedulerState(
        profiles=by_name,
        arrivals=Arrivals(),
        evaluators=evaluators,
        table=table,
        records=table.records,
        ledger=ledger,
        queue=queue,
        moves=moves,
        attempts=attempts,
        work=work,
        shares=shares,
        boundary=boundary,
        calls=calls,
        assumer=assumer,
        gangs=gangs,
        reservations=reservations,
        reports=reports,
        enqueuer=enqueuer,
        group_edits=GroupEdits(table.records, gangs, reservations, enqueuer),
        binding_cycles=BindingCycles(
            table, assumer, enqueuer, moves, attempts, gangs, reservations
        ),
        lingering=LingeringPods(ledger, moves, lingering_s),
    )
