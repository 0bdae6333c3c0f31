"""The election's settings: durations as Go writes them, and what cannot be."""

import pytest

from kubeshare_py.configuration.leader_election import seconds
from kubeshare_py.configuration.scheduler import ConfigurationError, read


@pytest.mark.parametrize(
    ("text", "found"),
    [("15s", 15), ("1m30s", 90), ("1h", 3600), ("20ms", 0.02), ("1.5s", 1.5), (".5s", 0.5)],
)
def test_durations_are_read_as_go_writes_them(text: str, found: float) -> None:
    assert seconds(text) == pytest.approx(found)


@pytest.mark.parametrize("text", ["15", "s", "", "-1s", "1 s", "1d", "fast"])
def test_everything_else_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="must be a duration"):
        seconds(text)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"leaseDuration": "10s"},
            "leaderElection.renewDeadline: 10s must be shorter than leaseDuration, 10s",
        ),
        (
            {"retryPeriod": "9s"},
            "leaderElection.retryPeriod: 1.2 times 9s must be shorter than renewDeadline, 10s",
        ),
        (
            {"retryPeriod": "0s"},
            "leaderElection.retryPeriod: must be longer than 0, such as 2s, not '0s'",
        ),
        *(
            (
                {"renewDeadline": bad},
                "leaderElection.renewDeadline: must be a duration such as 15s, 1m30s or 500ms,"
                f" not {bad!r}",
            )
            for bad in ("ten", 15, 1.5, True)
        ),
        ({"resourceName": ""}, "leaderElection.resourceName: must be at most 253 lower-case"),
        ({"resourceName": "A_b"}, "leaderElection.resourceName: must be at most 253 lower-case"),
        ({"resourceName": "a" * 254}, "leaderElection.resourceName: must be at most 253"),
        ({"resourceNamespace": "a.b"}, "leaderElection.resourceNamespace: must be at most 63"),
        ({"leaseDuration": "11m"}, "leaderElection.leaseDuration: 11m must be at most 600s"),
        ({"resourceLock": "leases"}, "leaderElection.resourceLock: no such field"),
        ({"leaderElect": "no"}, "leaderElection.leaderElect: Expected `bool`, got `str`"),
    ],
)
def test_what_cannot_be_is_said_with_its_path(given: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read({"leaderElection": given})
    assert str(error.value).startswith(said)


def test_by_default_it_is_on_with_the_times_of_kube_scheduler() -> None:
    found = read(None).leader_election
    assert found.leader_elect
    assert (found.lease_duration, found.renew_deadline, found.retry_period) == ("15s", "10s", "2s")
