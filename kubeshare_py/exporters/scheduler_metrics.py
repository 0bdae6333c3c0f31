"""The scheduler's metrics without those of each card: values in, text out.

Names, labels and buckets are kube-scheduler's where it has the same metric:
https://kubernetes.io/docs/reference/instrumenting/metrics/
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import generate_latest

from kubeshare_py.domain.card_reading import NEEDY, UNHELD, Part
from kubeshare_py.domain.effects import PodWarning
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.exporters.client_metrics import CLIENT_METRICS
from kubeshare_py.exporters.metric import (
    BUILD_INFO,
    EventLogTallies,
    Metric,
    Tallies,
    Value,
    Values,
    registry,
)
from kubeshare_py.views.figures import (
    CardFigures,
    DecisionFigures,
    HeldSeconds,
    LedgerFigures,
    PodFigures,
)

# Metrics of each card, in the text format.
#
# Rendered here: with 40,000 cards there are a quarter of a million series, for which
# prometheus-client's general rendering takes seconds, and this a tenth of one.
# https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format


_LABELS = ("node", "uuid", "model")
CARD_METRICS = (
    Metric(
        "kubeshare_card_capacity_milli",
        "gauge",
        "Thousandths of a GPU that pods may hold of a card.",
        _LABELS,
    ),
    Metric(
        "kubeshare_card_capacity_bytes", "gauge", "Memory that pods may hold of a card.", _LABELS
    ),
    Metric(
        "kubeshare_card_allocated_milli", "gauge", "Thousandths of a GPU that pods hold.", _LABELS
    ),
    Metric("kubeshare_card_allocated_bytes", "gauge", "Memory that pods hold of a card.", _LABELS),
    Metric("kubeshare_card_tenants", "gauge", "Pods on a card.", _LABELS),
    Metric("kubeshare_card_healthy", "gauge", "1 for a card that takes new pods, else 0.", _LABELS),
    Metric(
        "kubeshare_card_memory_scaling",
        "gauge",
        "Memory that pods may hold of a card, per byte that it has; only where it is not 1.",
        _LABELS,
    ),
)

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_NEED_ESCAPES = frozenset('\\"\n')


class CardPage:
    """Collects portions of cards; `chunks` is the text, one metric after the other."""

    def __init__(self) -> None:
        self._parts: list[list[bytes]] = [[] for _ in CARD_METRICS]

    def add(self, cards: CardFigures) -> None:
        """Render some cards; about 2 µs for each."""
        labels = [
            f'{{node="{node}",uuid="{uuid}",model="{model}"}} '
            for node, uuid, model in zip(
                map(_escaped, cards.nodes),
                map(_escaped, cards.uuids),
                map(_escaped, cards.models),
                strict=True,
            )
        ]
        columns: tuple[Sequence[int], ...] = (
            cards.capacity_milli,
            cards.capacity_bytes,
            cards.allocated_milli,
            cards.allocated_bytes,
            cards.tenants,
            cards.healthy,
        )
        for metric, parts, values in zip(CARD_METRICS[:-1], self._parts[:-1], columns, strict=True):
            name = metric.name
            lines = [f"{name}{label}{value}\n" for label, value in zip(labels, values, strict=True)]
            parts.append("".join(lines).encode())
        name, parts = CARD_METRICS[-1].name, self._parts[-1]
        scaled = [
            f"{name}{label}{scaling / WHOLE_MILLI:g}\n"
            for label, scaling in zip(labels, cards.memory_scaling, strict=True)
            if scaling != WHOLE_MILLI
        ]
        if scaled:
            parts.append("".join(scaled).encode())

    def chunks(self) -> Iterable[bytes]:
        """The text in pieces; none without cards."""
        for metric, parts in zip(CARD_METRICS, self._parts, strict=True):
            if parts:
                yield f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} gauge\n".encode()
                yield from parts


def _escaped(text: str) -> str:
    return text if _NEED_ESCAPES.isdisjoint(text) else text.translate(_ESCAPES)


HELD_METRICS = (
    Metric(
        "kubeshare_held_card_seconds_total",
        "counter",
        "Cards times seconds that bound pods held them, while this process led.",
        ("namespace", "model"),
    ),
    Metric(
        "kubeshare_held_byte_seconds_total",
        "counter",
        "Bytes of cards times seconds that bound pods held them, while this process led.",
        ("namespace", "model"),
    ),
)


def held_text(held: Mapping[tuple[str, str], HeldSeconds]) -> bytes:
    """What was held by namespace and model; about 3 µs for each. Nothing without any."""
    if not held:
        return b""
    cards, memory = HELD_METRICS
    labels = [
        f'{{namespace="{_escaped(namespace)}",model="{_escaped(model)}"}} '
        for namespace, model in held
    ]
    lines = []
    for metric, values in (
        (cards, [one.card_s for one in held.values()]),
        (memory, [one.byte_s for one in held.values()]),
    ):
        lines.append(f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} counter\n")
        lines += [
            f"{metric.name}{label}{value}\n" for label, value in zip(labels, values, strict=True)
        ]
    return "".join(lines).encode()


_PROFILE = ("result", "profile")
_METRICS = (
    Metric(
        "scheduler_schedule_attempts_total",
        "counter",
        "Tries to place a pod, by result; a try of a queue's first pod stands for its whole queue.",
        _PROFILE,
    ),
    Metric(
        "scheduler_scheduling_attempt_duration_seconds",
        "histogram",
        "From deciding to the answer of the API server; without a placement, of deciding alone.",
        _PROFILE,
    ),
    Metric(
        "scheduler_scheduling_algorithm_duration_seconds",
        "histogram",
        "Deciding alone, of each attempt: its share of its iteration.",
    ),
    Metric(
        "scheduler_pod_scheduling_sli_duration_seconds",
        "histogram",
        "From a pod's entry into the queue until it is bound.",
        ("attempts",),
    ),
    Metric(
        "scheduler_pod_scheduling_attempts",
        "histogram",
        "Tries until a pod was bound, those of it as the first of its shape queue.",
    ),
    Metric(
        "scheduler_pod_scheduled_after_flush_total",
        "counter",
        "Pods bound after they fitted nowhere for podMaxInUnschedulablePodsSeconds and were tried.",
    ),
    Metric(
        "scheduler_preemption_attempts_total",
        "counter",
        "Searches for pods to evict, for a pod or gang that fits nowhere.",
    ),
    Metric(
        "scheduler_preemption_victims",
        "histogram",
        "Pods evicted for one pod or gang; none where enough leave anyhow.",
    ),
    Metric(
        "kubeshare_preemptors_exhausted_total",
        "counter",
        "Pods and gangs that evicted others preemptionsPerPod times and still have no place.",
    ),
    Metric(
        "scheduler_queue_incoming_pods_total",
        "counter",
        "Pods that entered a queue, by what made them; a whole queue at once.",
        ("queue", "event"),
    ),
    Metric("scheduler_pending_pods", "gauge", "Pods that wait, by queue.", ("queue",)),
    Metric(
        "scheduler_unschedulable_pods",
        "gauge",
        "Pods in unschedulable queues, by the plugins whose reasons they have.",
        ("plugin", "profile"),
    ),
    Metric(
        "scheduler_cache_size",
        "gauge",
        "Nodes, pods that hold something, and those of them that are not seen bound yet.",
        ("type",),
    ),
    Metric("kubeshare_cards", "gauge", "Cards in the inventory."),
    Metric("kubeshare_idle_cards", "gauge", "Healthy cards without pods."),
    Metric("kubeshare_reserved_cards", "gauge", "Cards kept for pods that wait for long."),
    Metric(
        "kubeshare_lingering_pods",
        "gauge",
        "Pods deleted by force whose cards are held until their grace periods are over.",
    ),
    Metric("kubeshare_overcommitted_cards", "gauge", "Cards of which pods hold more than all."),
    Metric(
        "kubeshare_unexclusive_cards",
        "gauge",
        "Cards that a pod holds exclusively, and another pod holds too.",
    ),
    Metric("kubeshare_disputed_cards", "gauge", "Cards that several nodes claim."),
    Metric(
        "kubeshare_shared_ports", "gauge", "Pod-manager ports of a node that several pods hold."
    ),
    Metric(
        "kubeshare_allocation_problems",
        "gauge",
        "Bound pods whose allocation cannot be read: what they hold is not charged.",
    ),
    Metric(
        "kubeshare_unheld_pods",
        "gauge",
        "Pods with a share of a card that their back-end does not hold to that part of it.",
        ("isolation", "part"),
    ),
    Metric(
        "kubeshare_unconfirmed_pods",
        "gauge",
        "Other pods with a share: it is not known whether their back-end works on their cards.",
        ("isolation",),
    ),
    Metric(
        "kubeshare_allocation_warnings_total",
        "counter",
        "What others did to bound pods past this scheduler, by the reason of the pod's event.",
        ("reason",),
    ),
    Metric(
        "kubeshare_fragmentation_ratio",
        "gauge",
        "Part of the free share that is on cards with pods, 0 to 1.",
    ),
    Metric("kubeshare_silent_nodes", "gauge", "Nodes whose collector does not answer."),
    Metric(
        "kubeshare_inventory_age_seconds",
        "gauge",
        "Since the inventory was last read; absent until it is read once.",
    ),
    Metric(
        "kubeshare_inventory_source",
        "gauge",
        "1 for the source that cards come from now; with `auto` it may change.",
        ("source",),
    ),
    Metric("kubeshare_binds_in_flight", "gauge", "Placements decided and not yet answered."),
    Metric(
        "kubeshare_prebinding_pods",
        "gauge",
        "Pods with a place for which a PreBind plugin waits, for a volume for example.",
    ),
    Metric(
        "kubeshare_pre_bind_timeouts_total",
        "counter",
        "Placements that ended because a PreBind plugin waited too long.",
    ),
    Metric("kubeshare_reports_queued", "gauge", "Conditions and events still to be written."),
    Metric("kubeshare_reports_dropped_total", "counter", "Events that were given up."),
    Metric(
        "kubeshare_failed_writes_total",
        "counter",
        "Writes that the API server refused, or of which it is not known whether it stored them.",
        ("write", "code"),
    ),
    Metric(
        "kubeshare_event_handling_duration_seconds",
        "histogram",
        "One event handled by the state machine.",
    ),
    Metric(
        "kubeshare_loop_lag_seconds",
        "gauge",
        "How late the event loop was at worst in the last minute.",
    ),
    Metric(
        "kubeshare_plugin_failures_total",
        "counter",
        "Calls of a plugin that raised, or that it answered wrongly.",
        ("plugin", "extension_point"),
    ),
    Metric(
        "kubeshare_plugin_slow_turns_total",
        "counter",
        "Turns of the scheduler of which a plugin took more than 50 ms.",
        ("plugin",),
    ),
    Metric(
        "kubeshare_event_log_writing",
        "gauge",
        "0 while the event log cannot be written; absent without --event-log.",
    ),
    Metric("kubeshare_event_log_events_total", "counter", "Events written to the event log."),
    Metric("kubeshare_event_log_bytes_total", "counter", "Bytes written to the event log."),
    Metric("kubeshare_config_reloads_total", "counter", "Changes of the file.", ("result",)),
    Metric(
        "kubeshare_config_last_reload_successful",
        "gauge",
        "0 while the configuration file cannot be used and an older one is in effect.",
    ),
)
_PLAIN = (*_METRICS, *CLIENT_METRICS, BUILD_INFO)
#: All metrics of the scheduler's process.
CATALOGUE = (*_PLAIN, *HELD_METRICS, *CARD_METRICS)


@dataclass(frozen=True, slots=True)
class WriteFigures:
    """Conditions and events that wait, events given up, and failed writes by write and code."""

    queued: int = 0
    dropped: int = 0
    failed: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFigures:
    """The process's own figures now."""

    decisions: DecisionFigures
    inventory_age_s: float | None
    writes: WriteFigures
    loop_lag_s: float
    event_log: EventLogTallies | None = None
    #: The source of the inventory, "" before it is known.
    inventory_source: str = ""


def scheduler_values(
    ledger: LedgerFigures, pods: PodFigures, process: ProcessFigures, tallies: Tallies
) -> Values:
    """All values by metric; those without labels have the key ()."""
    plain = _without_labels(ledger, pods, process, tallies)
    queues = ("active", "backoff", "unschedulable", "gated", "outside")
    return {
        **{name: {(): value} for name, value in plain.items()},
        "scheduler_schedule_attempts_total": process.decisions.attempts,
        "scheduler_scheduling_attempt_duration_seconds": tallies.attempt_seconds,
        "scheduler_pod_scheduling_sli_duration_seconds": {
            (attempts,): seconds for attempts, seconds in tallies.sli_seconds.items()
        },
        "kubeshare_allocation_warnings_total": {
            (warning,): tallies.warnings.get(warning, 0) for warning in PodWarning
        },
        "kubeshare_unheld_pods": {
            (backend, part): (pods.shares if part in parts else pods.not_ready).get(backend, 0)
            for backend, parts in UNHELD.items()
            for part in Part
        },
        "kubeshare_unconfirmed_pods": {
            (backend,): pods.unreported.get(backend, 0) for backend in NEEDY
        },
        "scheduler_queue_incoming_pods_total": process.decisions.queue_moves,
        "scheduler_cache_size": {
            ("nodes",): ledger.nodes,
            ("pods",): pods.holding,
            ("assumed_pods",): pods.assumed,
        },
        "scheduler_pending_pods": {(queue,): getattr(pods, queue) for queue in queues},
        "scheduler_unschedulable_pods": {
            (plugin, profile): count for plugin, profile, count in pods.unschedulable_by
        },
        "kubeshare_plugin_failures_total": process.decisions.plugin_failures,
        "kubeshare_plugin_slow_turns_total": {
            (plugin,): count for plugin, count in tallies.slow_turns.items()
        },
        "kubeshare_failed_writes_total": {
            (write, code): count for (write, code), count in process.writes.failed.items()
        },
        "kubeshare_inventory_source": {(source,): 1}
        if (source := process.inventory_source)
        else {},
        "kubeshare_config_reloads_total": {
            (result,): count for result, count in tallies.reloads.items()
        },
    }


def _without_labels(
    ledger: LedgerFigures, pods: PodFigures, process: ProcessFigures, tallies: Tallies
) -> dict[str, Value]:
    age = process.inventory_age_s
    return {
        "kubeshare_cards": ledger.cards,
        "kubeshare_idle_cards": ledger.idle_cards,
        "kubeshare_reserved_cards": ledger.reserved_cards,
        "kubeshare_lingering_pods": ledger.lingering_pods,
        "kubeshare_overcommitted_cards": ledger.overcommitted_cards,
        "kubeshare_unexclusive_cards": ledger.unexclusive_cards,
        "kubeshare_disputed_cards": ledger.disputed_cards,
        "kubeshare_shared_ports": ledger.shared_ports,
        "kubeshare_allocation_problems": pods.allocation_problems,
        "kubeshare_fragmentation_ratio": ledger.broken_milli / (ledger.free_milli or 1),
        "kubeshare_silent_nodes": ledger.silent_nodes,
        "kubeshare_binds_in_flight": ledger.binds_in_flight,
        "kubeshare_prebinding_pods": ledger.prebinding_pods,
        "kubeshare_pre_bind_timeouts_total": process.decisions.pre_bind_timeouts,
        "kubeshare_reports_queued": process.writes.queued,
        "kubeshare_reports_dropped_total": process.writes.dropped,
        "scheduler_scheduling_algorithm_duration_seconds": tallies.algorithm_seconds,
        "scheduler_pod_scheduling_attempts": tallies.pod_attempts,
        "scheduler_pod_scheduled_after_flush_total": process.decisions.scheduled_after_flush,
        "scheduler_preemption_attempts_total": process.decisions.preemption_attempts,
        "scheduler_preemption_victims": tallies.preemption_victims,
        "kubeshare_preemptors_exhausted_total": process.decisions.preemptors_exhausted,
        "kubeshare_event_handling_duration_seconds": tallies.event_seconds,
        "kubeshare_loop_lag_seconds": process.loop_lag_s,
        "kubeshare_config_last_reload_successful": int(tallies.reloaded),
        **({} if age is None else {"kubeshare_inventory_age_seconds": age}),
        **_of_event_log(process.event_log),
    }


def _of_event_log(figures: EventLogTallies | None) -> dict[str, Value]:
    if figures is None:
        return {}
    return {
        "kubeshare_event_log_writing": int(figures.is_writing),
        "kubeshare_event_log_events_total": figures.events,
        "kubeshare_event_log_bytes_total": figures.size,
    }


def page(values: Values) -> bytes:
    """The text format, version 0.0.4; raises KeyError for a metric that is in no catalogue."""
    return generate_latest(registry(_PLAIN, values))
