"""The preemption plan for a waiting pod, before it happens, as people see it."""

from collections.abc import Mapping

from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.explain.steps import Steps
from kubeshare_py.scheduling.explain.visibility import Sees, sees_all
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.gangs import Gangs
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.views.view import NominatedPlaceView, PreemptionView, VictimView

NEVER = "its preemptionPolicy is Never"
REFUSED = "the API server refuses its Bindings, and may do so for a freed place, too"
OFF = "its profile evicts no pods"
SPENT = "pods were evicted for it {} times already"


def preemption_view(
    machine: Machine, record: Record, sees: Sees = sees_all
) -> Steps[PreemptionView | None]:
    """The plan, even if it will not be carried out; None if no eviction would help.

    A victim that may not be named has the namespace "" and the name "".
    """
    if not machine.ready or not machine.inventory_read:
        return None
    found = yield from machine.preemption.dry_run(record, machine.reading)
    if found is None:
        return None
    plan, under_way = found
    return PreemptionView(
        in_flight=under_way,
        obstacle=_obstacle(machine.profiles, machine.gangs, record),
        victims=tuple(
            VictimView(
                namespace=victim.key.namespace if sees(victim.key.namespace) else "",
                name=victim.key.name if sees(victim.key.namespace) else "",
                node=victim.node,
                priority=victim.priority,
                cards=tuple(victim.cards),
                answer=machine.preemption.evictions.answer_about(victim.uid),
            )
            for victim in plan.victims
        ),
        nominations=tuple(
            NominatedPlaceView(
                namespace=place.key.namespace,
                name=place.key.name,
                node=place.node,
                cards=tuple(dict.fromkeys(place.cards)),
            )
            for place in plan.nominations
        ),
        leaving=len(plan.awaited),
        violations=plan.violations,
    )


def _obstacle(profiles: Mapping[str, Profile], gangs: Gangs, record: Record) -> str:
    if not record.pod.preempts:
        return NEVER
    if record.shape.avoided:
        return REFUSED
    if not profiles[record.pod.scheduler_name].post_filters:
        return OFF
    gang = gangs.of(record.pod.uid)
    owner = gang if gang is not None and gang.needs_quorum else record
    return SPENT.format(owner.plans) if owner.remark else ""
