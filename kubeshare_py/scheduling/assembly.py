"""Builds the machine's parts, each from the state and the parts before it in a pod's way."""

from collections.abc import Sequence
from dataclasses import dataclass

from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.enqueue import Enqueuer
from kubeshare_py.scheduling.event_handlers import EventHandlers
from kubeshare_py.scheduling.extender_binds import ExtenderBinds
from kubeshare_py.scheduling.iteration import Iterations
from kubeshare_py.scheduling.iteration_budget import IterationBudget
from kubeshare_py.scheduling.pod_cycle import Assumer, BindingCycles, PodCycles
from kubeshare_py.scheduling.pod_groups.gang_cycles import GangCycles
from kubeshare_py.scheduling.pod_groups.gang_repair import GroupEdits, RepairRules
from kubeshare_py.scheduling.pre_bind import PreBindCycles
from kubeshare_py.scheduling.preemption.preemption import Preemption, PreemptionRules
from kubeshare_py.scheduling.reservation_policy import (
    ReservationIterations,
    ReservationPolicy,
    ReservationRules,
)
from kubeshare_py.scheduling.retries import PluginRetries
from kubeshare_py.scheduling.state import State, new_state


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineParts:
    """The parts of which the machine consists; only the machine has them."""

    state: State
    event_handlers: EventHandlers
    enqueuer: Enqueuer
    iterations: Iterations
    pre_binds: PreBindCycles
    binding_cycles: BindingCycles
    gang_cycles: GangCycles
    group_edits: GroupEdits
    policy: ReservationPolicy
    preemption: Preemption
    retries: PluginRetries
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
    state = new_state(profiles, lingering_s)
    enqueuer, assumer = Enqueuer(state), Assumer(state, name)
    pre_binds = PreBindCycles(state, enqueuer)
    binding_cycles = BindingCycles(state, enqueuer, assumer, pre_binds)
    budget = IterationBudget(state)
    gang_cycles = GangCycles(
        state, enqueuer, assumer, pre_binds, binding_cycles, budget, repair_rules
    )
    pod_cycles = PodCycles(state, enqueuer, assumer, pre_binds, binding_cycles, gang_cycles)
    policy = ReservationPolicy(state, gang_cycles.places, reservation_rules)
    reserved = ReservationIterations(state, policy, budget)
    preemption = Preemption(state, pre_binds, budget, preemption_rules)
    # Reports and preemption need each other: a report says what preemption found, and a search in
    # vain has pods reported anew.
    state.reports.post_filter = preemption.texts.text
    preemption.report_anew = state.reports.report_evictions_anew
    retries = PluginRetries(state)
    return MachineParts(
        state=state,
        event_handlers=EventHandlers(state, enqueuer, binding_cycles, preemption),
        enqueuer=enqueuer,
        iterations=Iterations(
            state, budget, pod_cycles, gang_cycles, reserved, preemption, retries
        ),
        pre_binds=pre_binds,
        binding_cycles=binding_cycles,
        gang_cycles=gang_cycles,
        group_edits=GroupEdits(state, enqueuer),
        policy=policy,
        preemption=preemption,
        retries=retries,
        extender_binds=ExtenderBinds(state, enqueuer, assumer, binding_cycles),
    )
