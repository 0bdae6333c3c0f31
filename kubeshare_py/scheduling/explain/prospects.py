"""What would become of a pod that does not exist: where it would go now, or why it would wait.

The pod is asked about as a waiting one is, by the same plugins on the same tables, with a record
that nothing keeps. So no decision depends on whether it was asked about.
"""

from collections.abc import Iterator

from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.boundary import PluginCalls
from kubeshare_py.framework.result_cache import Choice
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.framework.snapshot import ClusterReading, Snapshot
from kubeshare_py.scheduling.charges.holdings import with_indexes
from kubeshare_py.scheduling.charges.pod_charges import GpuQuotas
from kubeshare_py.scheduling.enqueue import as_delegated, refusal_of
from kubeshare_py.scheduling.explain.advice import advice, preemption_view
from kubeshare_py.scheduling.explain.explanation import cards_waited_for
from kubeshare_py.scheduling.explain.node_verdicts import node_whys
from kubeshare_py.scheduling.explain.pod_view import pod_view
from kubeshare_py.scheduling.explain.question import Sees, Steps, sees_all
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from kubeshare_py.scheduling.queue.reservations import contender_with
from kubeshare_py.scheduling.queue.waiting_reports import INVENTORY_UNREAD
from kubeshare_py.views.view import ProspectView, WhyView

#: How often the question is asked anew because the cluster changed while it was answered.
MAX_TRIES = 3
_CHANGED = "the cluster changes faster than its devices can be looked at: ask again"
OF_A_GROUP = "this is about one pod alone: its pod group starts only with enough members"
DELEGATED = (
    "kube-scheduler chooses its node, also for reasons that this scheduler does not know: this is "
    "about its cards alone"
)


def prospect_steps(machine: Machine, pod: Pod, sees: Sees = sees_all) -> Steps[ProspectView | None]:
    """The answer in steps of some milliseconds, between which the machine may go on.

    None if no profile has the pod's schedulerName. The uid must be none of another pod. A member of
    a group is asked about alone. Other pods are named if the reader may see their namespace.
    """
    profile = machine.profiles.get(pod.scheduler_name)
    if profile is None:
        return None
    alone = replace(pod, group=None, group_reference=None, owner="")
    asked = as_delegated(pod) if profile.extender else alone
    for _ in range(MAX_TRIES):
        changes = machine.changes
        found = yield from _prospect(machine, asked, sees)
        if found.fits or machine.changes == changes:
            break
    return replace(found, notes=tuple(_notes(pod, profile)))


def _notes(pod: Pod, profile: Profile) -> Iterator[str]:
    if pod.group is not None or pod.group_reference is not None:
        yield OF_A_GROUP
    if profile.extender:
        yield DELEGATED


def _prospect(machine: Machine, pod: Pod, sees: Sees) -> Steps[ProspectView]:
    reading = machine.reading()
    record = machine.newcomer(pod, reading)
    view = pod_view(machine, reading, record, {})
    if record.state is PodState.GATED:
        return ProspectView(fits=False, why=WhyView(pod=view, message=view.message))
    place = _kept_out(machine, record) or (yield from _place(machine, reading, record))
    if not isinstance(place, str):
        node, cards = place
        placed = replace(view, node=node, cards=cards)
        return ProspectView(
            fits=True, why=with_indexes(machine.ledger, WhyView(pod=placed, message=""))
        )
    waits_for = cards_waited_for(machine, reading, record, sees)
    yield
    nodes = yield from node_whys(machine, record, sees)
    suggestions = yield from advice(machine, record, sees)
    preemption = yield from preemption_view(machine, record, sees)
    answer = WhyView(
        pod=view,
        message=place,
        waits_for=waits_for,
        nodes=nodes,
        advice=suggestions,
        preemption=preemption,
    )
    return ProspectView(fits=False, why=with_indexes(machine.ledger, answer))


def _kept_out(machine: Machine, record: Record) -> str:
    """Why it gets no place now, wherever there is one; "" if it may."""
    pod, profile = record.pod, machine.profiles[record.pod.scheduler_name]
    if profile.extender and (refused := refusal_of(pod, profile)):
        return refused
    if record.shape.claims and not machine.inventory_read:
        return INVENTORY_UNREAD
    return machine.quotas.refusal(pod) or ""


def _place(
    machine: Machine, reading: ClusterReading, record: Record
) -> Steps[tuple[str, tuple[str, ...]] | str]:
    """The node and the uuids of the cards that it would get; else the sentence why none."""
    uid, name = record.pod.uid, record.pod.scheduler_name
    # If a holder of reservations must be planned anew first, all of them count as taken.
    machine.reservations.show_in(reading.snapshots, contender_with(uid, [record]))
    snapshot, changes = reading.snapshots.shown, machine.changes
    evaluator = snapshot.evaluators[name]
    choice = evaluator.best(record.shape)
    while choice is None and evaluator.is_unfinished(record.shape):
        yield
        if machine.changes != changes:  # the snapshot is not valid any more
            return _CHANGED
        choice = evaluator.best(record.shape)
    if choice is None:
        return evaluator.diagnose(record.shape).message
    calls = PluginCalls(reading.boundary, machine.profiles)
    refused = _refusal(calls, machine.quotas, snapshot, record, choice)
    if refused is not None:
        return refused
    columns = snapshot.tables.columns
    uuids = columns.uuids[choice.row]
    cards = dict.fromkeys(uuids[slot] for slot in choice.slots)
    return columns.names[choice.row] or "", tuple(cards)


def _refusal(
    calls: PluginCalls, quotas: GpuQuotas, snapshot: Snapshot, record: Record, choice: Choice
) -> str | None:
    """Why the place that was chosen would not be charged, as `Assumer.place` asks; None if so."""
    pod, trial = record.pod, snapshot.trial()
    charge = trial.charge_at(choice, record.shape, pod.placed)
    return (
        calls.permit(pod, charge.node)
        or quotas.refusal(pod, charge.allocation)
        or trial.refusal(choice, charge)
    )
