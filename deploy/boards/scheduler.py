"""The board of the scheduler's own health: how long it takes, what fails, and who leads."""

from deploy.boards.grafana import (
    RANGE,
    RATE,
    Board,
    Column,
    Graph,
    Number,
    Query,
    Row,
    Table,
    Unit,
    Variable,
)
from deploy.boards.series import JOB, leading

_OURS = f'{JOB}, instance=~"$instance"'


def _own(metric: str, matchers: str = "") -> str:
    """The series of the chosen schedulers; `matchers` begin with a comma."""
    return f"{metric}{{{_OURS}{matchers}}}"


def _rate(metric: str, matchers: str = "") -> str:
    return f"rate({_own(metric, matchers)}[{RATE}])"


def _percentiles(histogram: str, matchers: str = "") -> tuple[Query, ...]:
    """A line for the middle of what was measured, and one for its slowest hundredth."""
    buckets = f"sum by (le) ({_rate(f'{histogram}_bucket', matchers)})"
    return (
        Query(f"histogram_quantile(0.5, {buckets})", "half of them within"),
        Query(f"histogram_quantile(0.99, {buckets})", "99 % of them within"),
    )


_ERROR, _SCHEDULED = ', result="error"', ', result="scheduled"'
_REFUSED = ', code=~"429|5..|<error>"'

_AT_A_GLANCE = Row(
    "At a glance",
    (
        Number(
            title="Schedulers",
            description="Schedulers that Prometheus can scrape.",
            unit=Unit.COUNT,
            query=f"sum({_own('up')})",
        ),
        Number(
            title="Leaders",
            description="Schedulers that lead: one, while all is well.",
            unit=Unit.COUNT,
            bad_from=2,
            query=f"sum({_own('leader_election_master_status')})",
        ),
        Number(
            title="Age of the inventory",
            description="How long ago a scheduler last read which cards there are, at worst.",
            unit=Unit.SECONDS,
            bad_from=120,
            query=f"max({_own('kubeshare_inventory_age_seconds')})",
        ),
        Number(
            title="Event loop late",
            description="How late a scheduler's event loop was at worst in the last minute.",
            unit=Unit.SECONDS,
            bad_from=1,
            query=f"max({_own('kubeshare_loop_lag_seconds')})",
        ),
        Number(
            title="Bindings under way",
            description="Placements that are decided and not answered by the API server.",
            unit=Unit.COUNT,
            bad_from=64,
            query=f"max({_own('kubeshare_binds_in_flight')})",
        ),
        Number(
            title="Failed placements",
            description="Placements that failed in the time that is shown.",
            unit=Unit.COUNT,
            bad_from=1,
            query=f"sum(increase({_own('scheduler_schedule_attempts_total', _ERROR)}[{RANGE}]))",
        ),
        Number(
            title="Failures of plugins",
            description="Calls of plugins that failed in the time that is shown.",
            unit=Unit.COUNT,
            bad_from=1,
            query=f"sum(increase({_own('kubeshare_plugin_failures_total')}[{RANGE}])) or vector(0)",
        ),
        Number(
            title="Old configuration",
            description="Schedulers that cannot take their new configuration over.",
            unit=Unit.COUNT,
            bad_from=1,
            query=f"sum({_own('kubeshare_config_last_reload_successful')} == bool 0)",
        ),
    ),
)

_LATENCIES = Row(
    "Latencies",
    (
        Graph(
            title="Deciding",
            description="How long it takes to decide one attempt, without the API server.",
            unit=Unit.SECONDS,
            lines=_percentiles("scheduler_scheduling_algorithm_duration_seconds"),
        ),
        Graph(
            title="Deciding and binding",
            description="From deciding a placement until the API server has answered its Binding.",
            unit=Unit.SECONDS,
            lines=_percentiles("scheduler_scheduling_attempt_duration_seconds", _SCHEDULED),
        ),
        Graph(
            title="Wait of placed pods",
            description="From a pod's entry into the queue until it is bound.",
            unit=Unit.SECONDS,
            lines=_percentiles("scheduler_pod_scheduling_sli_duration_seconds"),
        ),
    ),
)

_QUEUE = Row(
    "Queue",
    (
        Graph(
            title="Attempts",
            description="Attempts to place a pod in a second, by result; one of a shape that fits "
            "nowhere stands for all its pods.",
            unit=Unit.PER_SECOND,
            lines=(
                Query(
                    f"sum by (result) ({_rate('scheduler_schedule_attempts_total')})", "{{result}}"
                ),
            ),
        ),
        Graph(
            title="Waiting pods",
            description="Pods that wait, by queue.",
            unit=Unit.COUNT,
            stacked=True,
            lines=(
                Query(f"max by (queue) ({leading('scheduler_pending_pods', _OURS)})", "{{queue}}"),
            ),
        ),
        Graph(
            title="What moves pods",
            description="Pods that enter a queue in a second, by the queue and what made them.",
            unit=Unit.PER_SECOND,
            lines=(
                Query(
                    f"sum by (queue, event) ({_rate('scheduler_queue_incoming_pods_total')})",
                    "{{queue}}: {{event}}",
                ),
            ),
        ),
        Graph(
            title="On their way",
            description="Placements that wait for the API server, or for something before it such "
            "as a volume, and conditions and events that are still to be written.",
            unit=Unit.COUNT,
            lines=(
                Query(f"max({_own('kubeshare_binds_in_flight')})", "Bindings"),
                Query(f"max({_own('kubeshare_prebinding_pods')})", "before the Binding"),
                Query(f"max({_own('kubeshare_reports_queued')})", "conditions and events"),
            ),
        ),
        Graph(
            title="Preemption",
            description="Searches for pods to evict, and pods that are evicted, in a second.",
            unit=Unit.PER_SECOND,
            lines=(
                Query(f"sum({_rate('scheduler_preemption_attempts_total')})", "searches"),
                Query(f"sum({_rate('scheduler_preemption_victims_sum')})", "evicted pods"),
            ),
        ),
        Graph(
            title="Tries of placed pods",
            description="How many attempts pods take until they are bound.",
            unit=Unit.COUNT,
            lines=_percentiles("scheduler_pod_scheduling_attempts"),
        ),
    ),
)

_API = Row(
    "API server",
    (
        Graph(
            title="Requests",
            description="Requests to the API server in a second, by the code of its answer.",
            unit=Unit.PER_SECOND,
            lines=(Query(f"sum by (code) ({_rate('rest_client_requests_total')})", "{{code}}"),),
        ),
        Graph(
            title="Requests that fail",
            description="Requests in a second that the API server throttles or cannot answer, and "
            "requests that are sent again.",
            unit=Unit.PER_SECOND,
            bad_from=1,
            lines=(
                Query(
                    f"sum by (code, method) ({_rate('rest_client_requests_total', _REFUSED)})",
                    "{{method}}: {{code}}",
                ),
                Query(
                    f"sum by (verb) ({_rate('rest_client_request_retries_total')})",
                    "{{verb}}: again",
                ),
            ),
        ),
        Graph(
            title="Failed writes",
            description="Writes that the API server refused, or did not confirm, in a second.",
            unit=Unit.PER_SECOND,
            lines=(
                Query(
                    f"sum by (write, code) ({_rate('kubeshare_failed_writes_total')})",
                    "{{write}}: {{code}}",
                ),
            ),
        ),
        Graph(
            title="Time of requests",
            description="How long 99 % of the requests of each verb take.",
            unit=Unit.SECONDS,
            lines=(
                Query(
                    "histogram_quantile(0.99, sum by (le, verb) "
                    f"({_rate('rest_client_request_duration_seconds_bucket')}))",
                    "{{verb}}",
                ),
            ),
        ),
        Graph(
            title="Wait for a turn",
            description="How long 99 % of the requests wait, because no more may be in flight.",
            unit=Unit.SECONDS,
            lines=(
                Query(
                    "histogram_quantile(0.99, sum by (le, verb) "
                    f"({_rate('rest_client_rate_limiter_duration_seconds_bucket')}))",
                    "{{verb}}",
                ),
            ),
        ),
        Graph(
            title="Events given up",
            description="Events about pods that are given up in a second.",
            unit=Unit.PER_SECOND,
            lines=(Query(f"sum({_rate('kubeshare_reports_dropped_total')})", "events"),),
        ),
    ),
)

_PROCESS = Row(
    "Processes",
    (
        Graph(
            title="Leadership",
            description="1 for the scheduler that leads, 0 for those that stand by.",
            unit=Unit.COUNT,
            lines=(
                Query(
                    f"max by (instance) ({_own('leader_election_master_status')})", "{{instance}}"
                ),
            ),
        ),
        Graph(
            title="Slow renewals",
            description="Renewals of the Lease in a second for which it had to be read first.",
            unit=Unit.PER_SECOND,
            lines=(
                Query(
                    f"sum by (instance) ({_rate('leader_election_slowpath_total')})",
                    "{{instance}}",
                ),
            ),
        ),
        Graph(
            title="Age of the inventory",
            description="How long ago each scheduler last read which cards there are.",
            unit=Unit.SECONDS,
            bad_from=120,
            lines=(
                Query(
                    f"max by (instance) ({_own('kubeshare_inventory_age_seconds')})",
                    "{{instance}}",
                ),
            ),
        ),
        Graph(
            title="Event loop late",
            description="How late the event loop was at worst in the last minute: late for want of "
            "CPU, or because one turn took long.",
            unit=Unit.SECONDS,
            bad_from=1,
            lines=(
                Query(f"max by (instance) ({_own('kubeshare_loop_lag_seconds')})", "{{instance}}"),
            ),
        ),
        Graph(
            title="Events handled",
            description="Events of the cluster that each scheduler handles in a second.",
            unit=Unit.PER_SECOND,
            lines=(
                Query(
                    "sum by (instance) "
                    f"({_rate('kubeshare_event_handling_duration_seconds_count')})",
                    "{{instance}}",
                ),
            ),
        ),
        Graph(
            title="Time of events",
            description="How long the state machine takes to handle one event.",
            unit=Unit.SECONDS,
            lines=_percentiles("kubeshare_event_handling_duration_seconds"),
        ),
        Graph(
            title="Failures of plugins",
            description="Calls of plugins that raised, or that they answered wrongly, in a second.",
            unit=Unit.PER_SECOND,
            lines=(
                Query(
                    "sum by (plugin, extension_point) "
                    f"({_rate('kubeshare_plugin_failures_total')})",
                    "{{plugin}}: {{extension_point}}",
                ),
            ),
        ),
        Graph(
            title="Slow plugins",
            description="Turns in a second of which a plugin took more than 50 ms.",
            unit=Unit.PER_SECOND,
            lines=(
                Query(
                    f"sum by (plugin) ({_rate('kubeshare_plugin_slow_turns_total')})", "{{plugin}}"
                ),
            ),
        ),
        Graph(
            title="CPU",
            description="Processors that each scheduler keeps busy.",
            unit=Unit.COUNT,
            lines=(
                Query(f"sum by (instance) ({_rate('process_cpu_seconds_total')})", "{{instance}}"),
            ),
        ),
        Graph(
            title="Memory",
            description="Memory that each scheduler has resident.",
            unit=Unit.BYTES,
            lines=(
                Query(
                    f"max by (instance) ({_own('process_resident_memory_bytes')})", "{{instance}}"
                ),
            ),
        ),
        Table(
            title="Versions",
            description="Which version each scheduler runs, and whether its configuration is the "
            "newest (1) or an older one (0).",
            unit=Unit.COUNT,
            width=16,
            keys={"instance": "Scheduler", "version": "Version", "python_version": "Python"},
            columns=(
                Column(
                    "Newest configuration",
                    "max by (instance, version, python_version) "
                    f"({_own('kubeshare_build_info')} * on (instance) group_left () "
                    f"{_own('kubeshare_config_last_reload_successful')})",
                ),
            ),
        ),
    ),
)

BOARD = Board(
    uid="kubeshare-scheduler",
    title="KubeShare: scheduler",
    description="How long the scheduler takes, what fails, who leads, and how its processes are.",
    variables=(Variable("instance", "Scheduler", f"kubeshare_build_info{{{JOB}}}"),),
    rows=(_AT_A_GLANCE, _LATENCIES, _QUEUE, _API, _PROCESS),
)
