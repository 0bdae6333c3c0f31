"""All that the machine's parts work on, made together because they refer to each other."""

from collections.abc import Sequence
from dataclasses import dataclass

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.framework.asks import Asker, Work
from kubeshare_py.framework.boundary import Boundary
from kubeshare_py.framework.plugin_calls import PluginCalls
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.binding.binds import Binds
from kubeshare_py.scheduling.binding.cycle import Cycle
from kubeshare_py.scheduling.binding.group_edits import GroupEdits
from kubeshare_py.scheduling.binding.intake import Intake
from kubeshare_py.scheduling.binding.lingering_pods import LingeringPods
from kubeshare_py.scheduling.queue.arrivals import Arrivals
from kubeshare_py.scheduling.queue.attempts import Attempts
from kubeshare_py.scheduling.queue.earmarks import Earmarks
from kubeshare_py.scheduling.queue.fair_share import Shares
from kubeshare_py.scheduling.queue.gangs import Gangs
from kubeshare_py.scheduling.queue.pod_queue import PodQueue
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.pod_table import PodTable
from kubeshare_py.scheduling.queue.queue_moves import QueueMoves
from kubeshare_py.scheduling.queue.waiting_reports import WaitingReports


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """Who is there, who waits, who holds what. `profiles` and `askers` may be replaced in place."""

    profiles: dict[str, Profile]
    arrivals: Arrivals
    askers: dict[str, Asker]
    table: PodTable
    records: dict[PodUid, Record]
    ledger: Ledger
    queue: PodQueue
    moves: QueueMoves
    attempts: Attempts
    work: Work
    shares: Shares
    boundary: Boundary
    calls: PluginCalls
    cycle: Cycle
    gangs: Gangs
    earmarks: Earmarks
    reports: WaitingReports
    intake: Intake
    group_edits: GroupEdits
    binds: Binds
    lingering: LingeringPods


def empty_books(profiles: Sequence[Profile], name: str, lingering_s: float) -> Books:
    """Books without pods and nodes; `name` makes their decision tokens unique.

    `lingering_s`: the longest time (s) that a pod lingers which was deleted by force.
    """
    by_name = {profile.scheduler_name: profile for profile in profiles}
    ledger, moves, attempts, work = Ledger(), QueueMoves(), Attempts(), Work()
    boundary = Boundary()
    calls = PluginCalls(boundary, by_name)
    askers = {of: Asker(profile, ledger, work, boundary) for of, profile in by_name.items()}
    shares = Shares()
    queue = PodQueue(shares, lambda profile, shape: askers[profile].forget(shape))
    cycle = Cycle(ledger, queue, moves, askers, calls, work, name)
    gangs, earmarks = Gangs(), Earmarks(ledger)
    table = PodTable(queue, gangs, moves)
    reports = WaitingReports(queue, table.records, work)
    intake = Intake(table, queue, moves, calls, reports, gangs, earmarks)
    table.follow(intake)
    return Books(
        profiles=by_name,
        arrivals=Arrivals(),
        askers=askers,
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
        cycle=cycle,
        gangs=gangs,
        earmarks=earmarks,
        reports=reports,
        intake=intake,
        group_edits=GroupEdits(table.records, gangs, earmarks, intake),
        binds=Binds(table, cycle, intake, moves, attempts, gangs, earmarks),
        lingering=LingeringPods(ledger, moves, lingering_s),
    )
