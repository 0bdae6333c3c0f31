"""The machine's state in numbers, some rows or namespaces at a time, for metrics. Reads."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from kubeshare_py.cluster.charge import overdrawn
from kubeshare_py.cluster.columns import ABSENT, UNHEALTHY
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.card_reading import IsolationBackend
from kubeshare_py.domain.gpu import WHOLE_MILLI, Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodUid
from kubeshare_py.domain.quota import QuotaNames
from kubeshare_py.scheduling.charges.pod_charges import MILLI_OF_CORE
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.asked_shapes import hold_on
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from kubeshare_py.views.figures import (
    RESULTS,
    CardFigures,
    DecisionFigures,
    HeldPart,
    LedgerFigures,
    PodFigures,
    QuotaUse,
    SharedCard,
)

# The machine's state in numbers, for the metrics. Reads; nothing is counted while deciding.


#: The cards of this many rows take some milliseconds, rendering included.
ROWS_A_PORTION = 128
PODS_A_PORTION = 10_000
#: The states of pods with a place that the watch has not shown with their node.
NOT_SEEN_BOUND = (PodState.PREBINDING, PodState.ASSUMED, PodState.UNCONFIRMED)


def card_figures(machine: Machine) -> Iterator[CardFigures]:
    """Every card, some rows at a time; the machine may go on between portions."""
    columns = machine.ledger.columns
    for first in range(0, columns.rows, ROWS_A_PORTION):
        rows = [
            row
            for row in range(first, min(first + ROWS_A_PORTION, columns.rows))
            if columns.uuids[row]
        ]
        if rows:
            yield _portion(machine.ledger, rows)


def ledger_figures(machine: Machine) -> LedgerFigures:
    """The sums over all cards; well under a millisecond for 40,000."""
    columns = machine.ledger.columns
    present = columns.flags & ABSENT == 0
    healthy = columns.flags & (ABSENT | UNHEALTHY) == 0
    free = np.where(healthy, np.maximum(columns.free_milli, 0), 0)
    return LedgerFigures(
        nodes=int(np.count_nonzero(columns.present)),
        cards=int(np.count_nonzero(present)),
        idle_cards=int(np.count_nonzero(healthy & (columns.tenants == 0))),
        overcommitted_cards=int(np.count_nonzero(overdrawn(columns))),
        unexclusive_cards=sum(1 for _ in machine.ledger.unexclusive()),
        disputed_cards=len(machine.ledger.claims.disputes),
        shared_ports=machine.ledger.shared_port_count,
        reserved_cards=int(np.count_nonzero(columns.reservations)),
        lingering_pods=len(machine.lingering),
        free_milli=int(free.sum()),
        broken_milli=int(free[columns.tenants > 0].sum()),
        silent_nodes=len(machine.silent_nodes & columns.row_of.keys()),
        binds_in_flight=machine.unanswered,
        prebinding_pods=len(machine.pre_binds),
    )


def decision_figures(machine: Machine) -> DecisionFigures:
    """What was decided since the process began."""
    tried = machine.attempts
    by_result = (tried.scheduled, tried.unschedulable, tried.failed)
    return DecisionFigures(
        attempts={
            (result, profile): counts.get(profile, 0)
            for result, counts in zip(RESULTS, by_result, strict=True)
            for profile in machine.profiles
        },
        queue_moves=dict(machine.moves.counts()),
        plugin_failures=dict(machine.boundary.failures.counts.items()),
        preemption_attempts=tried.preemptions,
        preemptors_exhausted=tried.exhausted,
        pre_bind_timeouts=tried.pre_bind_timeouts,
        scheduled_after_flush=tried.after_flush,
    )


def pod_figures(machine: Machine) -> Iterator[PodFigures]:
    """How many pods wait where, and problems of bound pods; the last value is complete.

    The machine may go on between values, some milliseconds apart.
    """
    figures = _queued(machine)
    records = list(machine.records.values())
    for first in range(0, len(records), PODS_A_PORTION):
        portion = records[first : first + PODS_A_PORTION]
        yield (figures := _with(_with_shares(figures, portion, machine.ledger), portion))
    yield figures


def _with(figures: PodFigures, records: list[Record]) -> PodFigures:
    """Add these records; those in shape queues are counted already."""
    states = Counter(record.state for record in records)
    assumed = sum(states[one] for one in NOT_SEEN_BOUND)
    return replace(
        figures,
        backoff=figures.backoff + states[PodState.BACKOFF],
        gated=figures.gated
        + sum(
            record.state is PodState.GATED and not record.pod.deleting and not record.is_outside
            for record in records
        ),
        outside=figures.outside + sum(record.is_outside for record in records),
        allocation_problems=figures.allocation_problems
        + sum(
            record.state is PodState.BOUND and record.pod.allocation_problem != ""
            for record in records
        ),
        holding=figures.holding + states[PodState.BOUND] + assumed,
        assumed=figures.assumed + assumed,
    )


def _with_shares(figures: PodFigures, records: list[Record], ledger: Ledger) -> PodFigures:
    """Add the back-ends that hold these records to their shares, and those that are not ready."""
    shares, not_ready = Counter(figures.shares), Counter(figures.not_ready)
    unreported = Counter(figures.unreported)
    for record in records:
        backend = record.allocation.backend if record.allocation is not None else None
        if record.node is None or backend is None:
            continue
        shares[backend] += 1
        if backend is not IsolationBackend.NONE:
            hold = hold_on(ledger, record.node, record.allocation)
            not_ready[backend] += bool(hold.not_ready)
            unreported[backend] += bool(hold.unreported and not hold.not_ready)
    return replace(figures, shares=shares, not_ready=not_ready, unreported=unreported)


def _queued(machine: Machine) -> PodFigures:
    """Pods in shape queues and of gangs, and the plugins for which they wait."""
    pods: Counter[bool] = Counter()  # by whether they are unschedulable
    by: Counter[tuple[str, str]] = Counter()
    for shape_queue in machine.queue.queues():
        waiting = len(shape_queue.waiting)
        pods[shape_queue.unschedulable] += waiting
        if shape_queue.unschedulable and shape_queue.diagnosis is not None:
            for plugin in shape_queue.diagnosis.plugins:
                by[plugin, shape_queue.profile] += waiting
    for gang in machine.gangs.all():
        if gang.waiting and gang.queued_by is None:
            was_tried = machine.gang_cycles.queue.queue_of(gang) is not None
            pods[was_tried or len(gang.waiting) < gang.need] += len(gang.waiting)
            by.update(_plugins_of(gang))
    return PodFigures(
        active=pods[False],
        unschedulable=pods[True],
        unschedulable_by=tuple((*key, count) for key, count in sorted(by.items())),
    )


def _plugins_of(gang: Gang) -> Iterator[tuple[str, str]]:
    """For each waiting pod of the gang, the plugins that refuse it, with its schedulerName."""
    for plugin in gang.diagnosis.plugins if gang.diagnosis else ():
        for record in gang.waiting.values():
            yield plugin, record.pod.scheduler_name


def _portion(ledger: Ledger, rows: list[int]) -> CardFigures:
    columns = ledger.columns
    uuids = [columns.uuids[row] for row in rows]
    counts = [len(listed) for listed in uuids]
    # A row's cards are in its first slots.
    taken = np.arange(columns.width) < np.array(counts)[:, None]
    index = np.array(rows)

    def column(name: str) -> list[int]:
        values: list[int] = getattr(columns, name)[index][taken].tolist()
        return values

    capacity_milli, capacity_bytes = column("capacity_milli"), column("capacity_bytes")
    names = columns.model_names
    unusable = ABSENT | UNHEALTHY
    return CardFigures(
        nodes=[
            columns.names[row] or ""
            for row, count in zip(rows, counts, strict=True)
            for _ in range(count)
        ],
        uuids=[uuid for listed in uuids for uuid in listed],
        models=[names[code] for code in column("model")],
        capacity_milli=capacity_milli,
        capacity_bytes=capacity_bytes,
        memory_scaling=[scaling for row in rows for scaling in _memory_scaling(ledger, row)],
        allocated_milli=_less(capacity_milli, column("free_milli"), column("reserved_milli")),
        allocated_bytes=_less(capacity_bytes, column("free_bytes"), column("reserved_bytes")),
        tenants=_less(column("tenants"), column("reservations")),
        healthy=[int(not flags & unusable) for flags in column("flags")],
    )


def _memory_scaling(ledger: Ledger, row: int) -> list[int]:
    """The scaling of each card of a row, in thousandths; 1000 for cards that are not known."""
    columns = ledger.columns
    name, uuids = columns.names[row], columns.uuids[row]
    gpus = ledger.inventory.get(name, ()) if name is not None else ()
    scaled = {gpu.uuid: gpu.memory_scaling for gpu in gpus if gpu.memory_scaling != WHOLE_MILLI}
    return [scaled.get(uuid, WHOLE_MILLI) for uuid in uuids]


def _less(first: list[int], *others: list[int]) -> list[int]:
    return [one - sum(rest) for one, *rest in zip(first, *others, strict=True)]


# What each namespace holds of GPUs and what its quotas allow, some at a time. Reads.


#: Namespaces that take some milliseconds, rendering included.
NAMESPACES_A_PORTION = 128


def quota_uses(machine: Machine, names: Iterable[QuotaNames]) -> Iterator[list[QuotaUse]]:
    """By resource and namespace, for namespaces with pods on cards or with a limit.

    The machine may go on between portions. Nothing while ResourceQuotas are not known.
    """
    limits = machine.quotas.limits()
    if limits is None:
        return
    for one in names:
        resources = {one.memory: one.unit_bytes, one.cores: MILLI_OF_CORE}
        limited = {namespace for namespace, resource in limits if resource in resources}
        found = sorted({*machine.quotas.holding(), *limited})
        for first in range(0, len(found), NAMESPACES_A_PORTION):
            yield [
                QuotaUse(
                    namespace=namespace,
                    resource=resource,
                    used=used,
                    unit=resources[resource],
                    limit=limits.get((namespace, resource)),
                )
                for namespace in found[first : first + NAMESPACES_A_PORTION]
                for resource, used in zip(resources, machine.quotas.held(namespace), strict=True)
            ]


# All cards with their pods, some rows at a time. Reads.


#: The most cards of a portion: with their series as text they take 5 to 10 ms.
CARDS_A_PORTION = 64


def shared_cards(machine: Machine) -> Iterator[tuple[list[SharedCard], list[HeldPart]]]:
    """Some cards, and what pods hold of them; the machine may go on between portions.

    About 10 µs for each card, and 5 µs for each part.
    """
    inventory = machine.ledger.inventory
    for one in card_figures(machine):
        known = {
            gpu.uuid: gpu
            for name in dict.fromkeys(one.nodes)
            for gpu in inventory.get(NodeName(name), ())
        }
        for first in range(0, len(one.uuids), CARDS_A_PORTION):
            cards = [
                _card(one, at, known)
                for at in range(first, min(first + CARDS_A_PORTION, len(one.uuids)))
            ]
            yield cards, list(_parts(machine.ledger, machine.records, cards))


def _card(figures: CardFigures, at: int, known: Mapping[GpuUuid, Gpu]) -> SharedCard:
    uuid = figures.uuids[at]
    gpu = known.get(GpuUuid(uuid))
    return SharedCard(
        node=figures.nodes[at],
        uuid=uuid,
        index=None if gpu is None else gpu.index,
        model=figures.models[at],
        capacity_bytes=figures.capacity_bytes[at],
        capacity_milli=figures.capacity_milli[at],
        allocated_bytes=figures.allocated_bytes[at],
        allocated_milli=figures.allocated_milli[at],
        tenants=figures.tenants[at],
        parent=None if gpu is None else gpu.parent,
    )


def _parts(
    ledger: Ledger, records: Mapping[PodUid, Record], cards: list[SharedCard]
) -> Iterator[HeldPart]:
    """What pods hold of these cards; no reservations, and no ResourceClaims."""
    found = {(card.node, card.uuid): card for card in cards}
    for node in dict.fromkeys(card.node for card in cards):
        for uid, charge in ledger.pods_on(NodeName(node)).items():
            record = records.get(uid)
            if record is None or charge.allocation is None:
                continue
            key = record.pod.key
            for held in charge.allocation.cards:
                card = found.get((node, held.uuid))
                if card is not None:
                    yield HeldPart(
                        namespace=key.namespace,
                        pod=key.name,
                        of=card,
                        memory_bytes=held.memory_bytes,
                        milli=held.milli,
                    )
