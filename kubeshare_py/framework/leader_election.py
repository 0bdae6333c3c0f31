"""The `leaderElection` of a configuration, with the names and durations of Kubernetes components.

https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/#LeaderElectionConfiguration
"""

import re

import msgspec

_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)"
#: client-go's: a candidate pauses up to so many retry periods more than one.
JITTER = 1.2


class LeaderElection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Whether and how schedulers agree on the one that decides; durations as in Go: 15s, 1m30s."""

    leader_elect: bool = True
    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"
    resource_namespace: str = "kube-system"
    resource_name: str = "kubeshare-scheduler"

    def check(self) -> None:
        """Raise ValueError, its text beginning with the field, for durations that cannot be."""
        read = {
            field: _checked(field, text)
            for field, text in (
                ("leaseDuration", self.lease_duration),
                ("renewDeadline", self.renew_deadline),
                ("retryPeriod", self.retry_period),
            )
        }
        if not read["renewDeadline"] < read["leaseDuration"]:
            raise ValueError("renewDeadline: must be shorter than leaseDuration")
        if not JITTER * read["retryPeriod"] < read["renewDeadline"]:
            raise ValueError(f"retryPeriod: {JITTER} of them must be shorter than renewDeadline")
        for field, name in (
            ("resourceNamespace", self.resource_namespace),
            ("resourceName", self.resource_name),
        ):
            if not name:
                raise ValueError(f"{field}: must not be empty")


def seconds(text: str) -> float:
    """A duration as Go writes it, in seconds; raises ValueError for anything else."""
    if not re.fullmatch(f"({_PART})+", text):
        raise ValueError(f"must be a duration such as 15s, 1m30s or 500ms, not {text!r}")
    return sum(float(number) * _UNITS_S[unit] for number, unit in re.findall(_PART, text))


def _checked(field: str, text: str) -> float:
    try:
        found = seconds(text)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from error
    if found <= 0:
        raise ValueError(f"{field}: must be longer than 0")
    return found
