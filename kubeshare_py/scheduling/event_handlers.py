"""What the API server says of pods and their groups, written into the books."""

from kubeshare_py.domain.effects import Effect
from kubeshare_py.domain.events import PodGone, PodGroupEvent, PodsListed
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.scheduling.binding import outsiders
from kubeshare_py.scheduling.binding.books import Books
from kubeshare_py.scheduling.binding.lingering_pods import deletion_seen, may_linger
from kubeshare_py.scheduling.preemption.preemption import Preemption
from kubeshare_py.scheduling.queue import queue_moves
from kubeshare_py.scheduling.queue.arrivals import in_order_of_arrival
from kubeshare_py.scheduling.queue.pod_records import UNDECIDED, Record, State


class PodNews:
    """Works on the machine's books."""

    def __init__(self, books: Books, preemption: Preemption) -> None:
        self._books = books
        self._preemption = preemption

    def seen(self, pod: Pod, now: float, effects: list[Effect], *, is_news: bool = True) -> None:
        """The pod is like this; not `is_news` if it was so before anybody looked."""
        books = self._books
        record = books.records.get(pod.uid)
        if pod.group_reference is not None:
            pod = books.gangs.objects.resolved(pod)
        if pod.node_name is not None:
            self._seen_bound(pod, pod.node_name, record, effects, is_news)
            deletion_seen(books.records[pod.uid], now)
        elif pod.scheduler_name not in books.profiles:
            if record is not None and record.state in UNDECIDED:
                self._forget(pod.uid)
        elif record is None:
            record = books.table.add(pod, books.arrivals.next())
            books.intake.enqueue(record, now, effects, queue_moves.POD_ADD)
        elif record.state in UNDECIDED:
            if _matters(record.pod, pod):
                event = queue_moves.update_event(record.pod, pod)
                books.earmarks.end(pod.uid)
                books.gangs.drop(pod.uid)
                record.pod = pod
                books.intake.edited(record, now, effects, event)
            else:
                record.pod = pod
        elif record.state is not State.BOUND:
            record.pod = pod  # an older view of a pod that we have bound meanwhile
            books.table.update(record)
        self._preemption.seen(books.records.get(pod.uid), now)

    def _seen_bound(
        self,
        pod: Pod,
        node: NodeName,
        record: Record | None,
        effects: list[Effect],
        is_news: bool,
    ) -> None:
        books = self._books
        is_ours = pod.scheduler_name in books.profiles
        if record is None:
            record = books.table.add(pod, books.arrivals.next())
        if record.state is State.BOUND and record.node == node:
            # What it holds was settled when it was bound: whoever edits the annotation of a bound
            # pod takes no card and frees none. A resize changes what it takes of the node.
            if pod.shape.resources != record.pod.shape.resources:
                books.ledger.charge(pod.uid, node, pod.shape.resources, record.allocation)
            effects.extend(outsiders.changed(record.pod, pod, is_ours))
            record.pod = pod
            books.table.update(record)
            return
        ours = record.allocation
        if ours is not None and record.node == node and _token(pod) == ours.token:
            effects.extend(books.binds.seen(record, node))
        else:
            books.binds.release(record)
            books.earmarks.end(pod.uid)
            record.pod = pod
            books.cycle.charge(record, node, pod.allocation)
            if is_news:
                effects.extend(outsiders.placed_by_another(pod))
                if books.reports.inventory_read:
                    gpus = books.ledger.inventory.get(node, ())
                    effects.extend(outsiders.unknown_cards(pod, {gpu.uuid for gpu in gpus}))
        effects.extend(outsiders.troubles(pod, is_ours))
        record.pod = pod
        books.table.transition(record, State.BOUND)

    def gone(
        self, event: PodGone, now: float, effects: list[Effect], *, missing: bool = False
    ) -> None:
        """The pod is not there any more, or it has finished; `missing`: a list does not have it.

        One that was not seen to stop may linger.
        """
        uid, lingering = event.uid, self._books.lingering
        record = self._books.records.get(uid)
        if event.stopped and lingering.end(uid):
            self._preemption.left(uid)
        if record is None or event.stopped or not may_linger(record, missing=missing):
            self._forget(uid)
        else:
            until = lingering.until(record, now)
            self._forget(uid, lingers=until > now)
            if uid in self._books.ledger.lingering:
                lingering.begin(record, until, now, effects)
        if event.finished is not None:
            self._books.gangs.finish(event.finished)

    def _forget(self, uid: PodUid, *, lingers: bool = False) -> None:
        """The pod holds nothing any more; if it `lingers`, GPUs that it holds stay charged."""
        books = self._books
        gang = books.gangs.of(uid)
        record = books.table.remove(uid)
        if record is not None:
            books.earmarks.end(uid)
            if lingers:
                lingers = books.binds.linger(record)
            else:
                books.binds.release(record)
        if record is not None and record.state in UNDECIDED:
            profile, shape, preempts = record.pod.scheduler_name, record.shape, record.pod.preempts
            if gang is None or (profile, shape) not in gang.shapes:
                books.queue.unplaced(profile, shape, preempts=preempts)
        self._preemption.gone(uid)
        if not lingers:
            self._preemption.left(uid)

    def listed(
        self, event: PodsListed, now: float, effects: list[Effect], *, decides: bool
    ) -> None:
        """These are all pods. Not `decides`: another may have placed them, which is no news."""
        books = self._books
        listed = {pod.uid: pod for pod in in_order_of_arrival(event.pods)}
        for uid in [uid for uid in books.records if uid not in listed]:
            if uid not in event.unreadable:
                gone = PodGone(uid, stopped=uid in event.stopped)
                self.gone(gone, now, effects, missing=True)
        for uid in sorted(event.stopped & books.ledger.lingering.keys()):
            self.gone(PodGone(uid, stopped=True), now, effects)
        for uid, pod in listed.items():
            record = books.records.get(uid)
            never_stored = (
                record is not None
                and record.state is State.ASSUMED
                and pod.node_name is None
                and event.asked_at > record.answered_at
            )
            if never_stored and record is not None:
                books.binds.release(record)
                record.pod = books.gangs.objects.resolved(pod)
                books.intake.back_off(record, now)
            else:
                self.seen(pod, now, effects, is_news=decides)
        books.gangs.finished_are(event.finished)
        if not decides:
            books.gangs.recall()

    def groups_changed(
        self, event: PodGroupEvent, now: float, effects: list[Effect], *, decides: bool
    ) -> None:
        """Objects that describe groups came, changed or went."""
        gangs = self._books.gangs
        for key in gangs.objects.change(event):
            gang = gangs.declare(key, gangs.objects.minimum(key))
            if gang is not None:
                self._books.group_edits.changed(gang, now)
        self._books.group_edits.go_on(now, effects, decides=decides)


def _token(pod: Pod) -> DecisionToken | None:
    return pod.allocation.token if pod.allocation is not None else None


def _matters(old: Pod, new: Pod) -> bool:
    """Whether a change of a waiting pod may change what happens to it; its status may not."""
    return (
        old.shape != new.shape
        or old.gates != new.gates
        or old.problem != new.problem
        or old.group != new.group
        or old.group_reference != new.group_reference
        or old.unsupported != new.unsupported
        or old.deleting != new.deleting
        or old.isolation != new.isolation
        or (old.priority, old.label_priority) != (new.priority, new.label_priority)
    )
