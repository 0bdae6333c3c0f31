"""The checks of the scheduler's /livez and /readyz."""

from functools import partial

from kubeshare_py.edges.process.probes import Check
from kubeshare_py.edges.scheduler.vital_signs import VitalSigns

#: Seconds without a turn after which the process should be restarted.
LONGEST_SILENCE_S = 60.0
#: Seconds that a watch may be disconnected: a restart of the API server.
LONGEST_LOSS_S = 60.0
#: The most missed readings of the inventory, and at least this time (s).
READINGS_MISSED, LONGEST_UNREAD_S = 5, 60.0
#: Lateness of turns (s) beyond which it is reported.
MOST_LAG_S = 1.0


def live_checks(signs: VitalSigns) -> list[Check]:
    """Checks of problems that only a restart solves."""
    return [Check("ping", lambda: ""), Check("turns", lambda: _silence(signs))]


def ready_checks(signs: VitalSigns, interval_s: float) -> list[Check]:
    """Checks of what right and timely decisions need; `interval_s` is the inventory's."""
    return [
        *live_checks(signs),
        Check("pods-and-nodes-listed", lambda: "" if signs.machine.ready else "not yet"),
        *(Check(f"watch-{name}", partial(_loss, signs, name)) for name in signs.watches),
        Check("inventory", lambda: _unread(signs, interval_s)),
        Check("loop-lag", lambda: _lag(signs)),
    ]


def _silence(signs: VitalSigns) -> str:
    if not signs.turns:
        return ""  # the process stands by
    silent_s = signs.clock() - signs.turned_at
    return f"no turn for {silent_s:.0f} s" if silent_s > LONGEST_SILENCE_S else ""


def _loss(signs: VitalSigns, watch: str) -> str:
    lost_s = signs.lost_s(watch)
    return f"not connected for {lost_s:.0f} s" if lost_s > LONGEST_LOSS_S else ""


def _unread(signs: VitalSigns, interval_s: float) -> str:
    age_s = signs.inventory_age_s()
    since_s = signs.clock() - signs.started_at if age_s is None else age_s
    if since_s <= max(LONGEST_UNREAD_S, READINGS_MISSED * interval_s):
        return ""
    return f"not read for {since_s:.0f} s" if age_s is not None else "never read"


def _lag(signs: VitalSigns) -> str:
    lag_s = signs.lag_s
    return f"turns came {lag_s:.1f} s late within the last minute" if lag_s > MOST_LAG_S else ""
