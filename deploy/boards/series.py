"""Series of the scheduler as several boards ask for them."""

JOB = 'job="kubeshare-scheduler"'


def leading(metric: str, matchers: str = JOB) -> str:
    """The series of the scheduler that leads, or of the only one.

    One that stands by tries no pod: to it all waiting pods are active, and no card is reserved.
    """
    stand_by = f"leader_election_master_status{{{JOB}}} == 0"
    return f"({metric}{{{matchers}}} unless on (instance) {stand_by})"


def waiting() -> str:
    """The pods that wait for a place, without gated ones."""
    pending = leading("scheduler_pending_pods", f'{JOB}, queue!="gated"')
    return f"sum({pending})"


def reasons() -> str:
    """Pods that fit nowhere, by the plugin that refuses nodes."""
    return f"sum by (plugin) ({leading('scheduler_unschedulable_pods')})"
