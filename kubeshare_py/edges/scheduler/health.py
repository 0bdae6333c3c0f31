"""The checks of the scheduler's /livez and /readyz."""

from collections.abc import Callable
from functools import partial

from kubeshare_py.edges.process.probes import HealthCheck
from kubeshare_py.edges.scheduler.process_health import ProcessHealth

#: Seconds without an iteration after which the process should be restarted.
LONGEST_SILENCE_S = 60.0
#: Seconds that a watch may be disconnected: a restart of the API server.
LONGEST_LOSS_S = 60.0
#: The most missed readings of the inventory, and at least this time (s).
READINGS_MISSED, LONGEST_UNREAD_S = 5, 60.0
#: Lateness of iterations (s) beyond which it is reported.
MAX_LAG_S = 1.0


def live_checks(process_health: ProcessHealth) -> list[HealthCheck]:
    """Checks of problems that only a restart solves."""
    return [
        HealthCheck("ping", lambda: ""),
        HealthCheck("decision-loop", lambda: _silence(process_health)),
    ]


def ready_checks(process_health: ProcessHealth, interval_s: float) -> list[HealthCheck]:
    """Checks of what right and timely decisions need; `interval_s` is the inventory's."""
    return [
        *live_checks(process_health),
        HealthCheck(
            "pods-and-nodes-listed", lambda: "" if process_health.machine.ready else "not yet"
        ),
        *(
            HealthCheck(f"watch-{name}", partial(_loss, process_health, name))
            for name in process_health.watches
        ),
        HealthCheck("inventory", lambda: _unread(process_health, interval_s)),
        HealthCheck("loop-lag", lambda: _lag(process_health)),
    ]


def leading_check(leads: Callable[[], bool]) -> HealthCheck:
    """A check that only the leader passes: kube-scheduler's requests are for the leader alone."""
    return HealthCheck("leader", lambda: "" if leads() else "another process leads")


def _silence(process_health: ProcessHealth) -> str:
    if not process_health.iterations:
        return ""  # the process stands by
    silent_s = process_health.clock() - process_health.last_iteration_at
    return f"no iteration for {silent_s:.0f} s" if silent_s > LONGEST_SILENCE_S else ""


def _loss(process_health: ProcessHealth, watch: str) -> str:
    lost_s = process_health.lost_s(watch)
    return f"not connected for {lost_s:.0f} s" if lost_s > LONGEST_LOSS_S else ""


def _unread(process_health: ProcessHealth, interval_s: float) -> str:
    age_s = process_health.inventory_age_s()
    since_s = process_health.clock() - process_health.started_at if age_s is None else age_s
    if since_s <= max(LONGEST_UNREAD_S, READINGS_MISSED * interval_s):
        return ""
    return f"not read for {since_s:.0f} s" if age_s is not None else "never read"


def _lag(process_health: ProcessHealth) -> str:
    lag_s = process_health.lag_s
    return f"iterations came {lag_s:.1f} s late in the last minute" if lag_s > MAX_LAG_S else ""
