"""Builds the machine's parts, because each needs some of the others."""

from collections.abc import Sequence
from dataclasses import dataclass

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.pods.default_selectors import DefaultSelectors
from kubeshare_py.framework.profiles_in_use import ProfilesInUse
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.binding.assume import Assumer
from kubeshare_py.scheduling.binding.binding_cycle import BindingCycles
from kubeshare_py.scheduling.binding.device_claims import ClaimedDevices
from kubeshare_py.scheduling.binding.enqueue import Enqueuer
from kubeshare_py.scheduling.binding.extender_binds import ExtenderBinds
from kubeshare_py.scheduling.binding.group_edits import GroupEdits
from kubeshare_py.scheduling.binding.iteration_budget import IterationBudget
from kubeshare_py.scheduling.binding.lingering_pods import LingeringPods
from kubeshare_py.scheduling.binding.node_turns import NodeTurns
from kubeshare_py.scheduling.binding.pre_bind_cycles import PreBindCycles
from kubeshare_py.scheduling.binding.scheduler_state import Charges, PodLifecycle, Pods, Queues
from kubeshare_py.scheduling.event_handlers import EventHandlers
from kubeshare_py.scheduling.iteration import Iterations
from kubeshare_py.scheduling.plugin_retries import PluginRetries
from kubeshare_py.scheduling.pod_groups.gang_cycles import GangCycles
from kubeshare_py.scheduling.pod_groups.gang_repair import RepairRules
from kubeshare_py.scheduling.preemption.preemption import Preemption
from kubeshare_py.scheduling.preemption.rules import PreemptionRules
from kubeshare_py.scheduling.queue.asked_shapes import AskedShapes
from kubeshare_py.scheduling.queue.attempts import Attempts
from kubeshare_py.scheduling.queue.fair_share import Shares
from kubeshare_py.scheduling.queue.gang_queue import GangQueue
from kubeshare_py.scheduling.queue.gangs import Gangs
from kubeshare_py.scheduling.queue.pod_queue import PodQueue
from kubeshare_py.scheduling.queue.pod_table import PodTable
from kubeshare_py.scheduling.queue.queue_moves import QueueMoves
from kubeshare_py.scheduling.queue.refused_binds import RefusedBinds
from kubeshare_py.scheduling.queue.reservations import Reservations
from kubeshare_py.scheduling.queue.synced import Synced
from kubeshare_py.scheduling.queue.waiting_reports import WaitingReports
from kubeshare_py.scheduling.reservations.reservation_iterations import ReservationIterations
from kubeshare_py.scheduling.reservations.reservation_patience import ReservationRules
from kubeshare_py.scheduling.reservations.reservation_policy import ReservationPolicy
from kubeshare_py.scheduling.schedule_one import PodCycles


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineParts:
    """All that the machine consists of. Only the machine has it."""

    synced: Synced
    profiles: ProfilesInUse
    pods: Pods
    queues: Queues
    charges: Charges
    steps: PodLifecycle
    reports: WaitingReports
    group_edits: GroupEdits
    gang_cycles: GangCycles
    policy: ReservationPolicy
    preemption: Preemption
    retries: PluginRetries
    event_handlers: EventHandlers
    iterations: Iterations
    extender_binds: ExtenderBinds


def assemble(
    profiles: Sequence[Profile],
    name: str,
    repair_rules: RepairRules,
    reservation_rules: ReservationRules,
    preemption_rules: PreemptionRules,
    lingering_s: float,
) -> MachineParts:
    """Parts without pods and nodes; `name` makes their decision tokens unique.

    `lingering_s`: the longest time (s) that a pod lingers after a forced deletion.
    """
    synced, ledger = Synced(), Ledger()
    in_use = ProfilesInUse(profiles, ledger)
    evaluators = in_use.evaluators
    queues = _queues(in_use)
    pods = _pods(queues)
    lingering = LingeringPods(ledger, queues.moves, lingering_s)
    reservations, devices = Reservations(ledger, in_use.snapshots), ClaimedDevices(ledger)
    charges = Charges(ledger, reservations, lingering, devices)
    refused = RefusedBinds()
    reports = WaitingReports(queues.pods, pods.records, in_use.work, synced, refused)
    selectors = DefaultSelectors(ledger.columns.objects)
    shapes = AskedShapes(ledger.placed_pods.terms, selectors, refused)
    steps = _steps(pods, queues, charges, in_use, reports, shapes, name)
    budget = IterationBudget(
        ledger.improved, queues.pods, queues.moves, in_use.snapshots, in_use.work
    )
    gang_cycles = GangCycles(pods, queues, charges, in_use, steps, budget, repair_rules)
    policy = ReservationPolicy(pods, queues, charges, in_use, gang_cycles, reservation_rules)
    preemption = Preemption(
        pods, queues, charges, in_use, budget, preemption_rules, steps.pre_binds
    )
    reports.post_filter, preemption.told = preemption.texts.text, reports.told
    retries = PluginRetries(evaluators, ledger, queues, in_use.boundary.failures)
    pod_cycles = PodCycles(
        pods.records, queues, charges.reservations, steps, in_use.snapshots, reports, gang_cycles
    )
    reserved = ReservationIterations(pods.records, queues, charges, policy, budget)
    return MachineParts(
        synced=synced,
        profiles=in_use,
        pods=pods,
        queues=queues,
        charges=charges,
        steps=steps,
        reports=reports,
        group_edits=GroupEdits(pods.records, pods.gangs, charges.reservations, steps.enqueuer),
        gang_cycles=gang_cycles,
        policy=policy,
        preemption=preemption,
        retries=retries,
        event_handlers=EventHandlers(
            pods, queues.pods, charges, steps, preemption, synced, in_use.profiles
        ),
        iterations=Iterations(
            queues, budget, pod_cycles, gang_cycles, reserved, preemption, retries
        ),
        extender_binds=ExtenderBinds(pods.records, ledger, in_use, steps, synced),
    )


def _queues(profiles: ProfilesInUse) -> Queues:
    shares = Shares()
    pods = PodQueue(shares, lambda profile, shape: profiles.evaluators[profile].forget(shape))
    return Queues(pods, GangQueue(shares), shares, QueueMoves(), Attempts())


def _pods(queues: Queues) -> Pods:
    gangs = Gangs()
    return Pods(PodTable(queues.pods, gangs, queues.moves), gangs)


def _steps(
    pods: Pods,
    queues: Queues,
    charges: Charges,
    profiles: ProfilesInUse,
    reports: WaitingReports,
    shapes: AskedShapes,
    name: str,
) -> PodLifecycle:
    table, gangs, reservations = pods.table, pods.gangs, charges.reservations
    enqueuer = Enqueuer(table, queues.pods, profiles.calls, reports, gangs, reservations, shapes)
    table.follow(enqueuer)
    attempts, calls = queues.attempts, profiles.calls
    assumer = Assumer(charges.ledger, profiles.evaluators, calls, queues.moves, name)
    turns = NodeTurns(table, charges.ledger.columns, assumer, enqueuer)
    table.follow(turns)
    pre_binds = PreBindCycles(table, assumer, enqueuer, attempts, gangs, charges.devices, turns)
    table.follow(pre_binds)
    binding_cycles = BindingCycles(
        table, assumer, enqueuer, attempts, gangs, reservations, pre_binds
    )
    return PodLifecycle(enqueuer, assumer, pre_binds, binding_cycles)
