"""How fast time passes in a chaos cluster, and how long each fault lasts."""

from dataclasses import dataclass

from kubeshare_py.configuration.leader_election import LeaderElection

#: A busy machine may hold up everything for half a second of its own.
FAST_ELECTION = LeaderElection(lease_duration="10s", renew_deadline="8s", retry_period="1s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """All durations are seconds of the loop's time, which runs `speed` times as fast as ours.

    `hangs_s` is longer than a Binding's timeout. `settles_s` is how long everything may take to
    come right once all faults have ended; it is waited for only where something is wrong.
    `latest_s`: the longest that a request is on its way whose sender is gone. With leases as in
    `election` nobody else binds before it is there: lease duration - renew deadline + hand-over.
    `user_actions`: how much more often users do something than in fast time for each killing,
    outage and so on; `life` is how long pods run, compared with there.
    """

    speed: float = 20.0
    longest_delay_s: float = 3.0
    longest_watch_s: float = 12.0
    longest_step_s: float = 1.0
    longest_pause_s: float = 3.0
    latest_s: float = 7.5
    settles_s: float = 600.0
    user_actions: int = 1
    life: float = 1.0
    election: LeaderElection = FAST_ELECTION
    hangs_s: float = 8.0


#: Schedulers are tasks of this process, on a clock of its own.
FAST_TIME = Durations()
#: With processes, or a server, that know no other time than the true one.
REAL_TIME = Durations(
    speed=1.0,
    longest_delay_s=0.8,
    longest_watch_s=4.0,
    longest_step_s=0.3,
    longest_pause_s=1.0,
    latest_s=6.5,
    settles_s=120.0,
    user_actions=4,
    life=0.2,
    election=LeaderElection(lease_duration="4s", renew_deadline="3s", retry_period="1s"),
)
