"""The `leaderElection` of a configuration, with the names and durations of Kubernetes components.

https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/#LeaderElectionConfiguration
"""

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.configuration.fields import label_problem, subdomain_problem
from kubeshare_py.domain.lease import LONGEST_LEASE_S

_DURATION = "a duration such as 15s, 1m30s or 500ms"
Duration = Annotated[str, Meta(description=_DURATION)]
_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)"
#: client-go's: a candidate waits a random time between one and this many further retry periods.
JITTER = 1.2


class LeaderElection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The election of the one scheduler that decides; durations as in Go: 15s, 1m30s."""

    leader_elect: bool = True
    lease_duration: Duration = "15s"
    renew_deadline: Duration = "10s"
    retry_period: Duration = "2s"
    resource_namespace: str = "kube-system"
    resource_name: str = "kubeshare-scheduler"

    def check(self) -> None:
        """Raises ValueError, whose text begins with the field, for unusable durations."""
        read = {
            field: _checked(field, text)
            for field, text in (
                ("leaseDuration", self.lease_duration),
                ("renewDeadline", self.renew_deadline),
                ("retryPeriod", self.retry_period),
            )
        }
        if read["leaseDuration"] > LONGEST_LEASE_S:
            raise ValueError(
                f"leaseDuration: {self.lease_duration} must be at most {LONGEST_LEASE_S}s"
            )
        if not read["renewDeadline"] < read["leaseDuration"]:
            raise ValueError(
                f"renewDeadline: {self.renew_deadline} must be shorter than leaseDuration,"
                f" {self.lease_duration}"
            )
        if not JITTER * read["retryPeriod"] < read["renewDeadline"]:
            raise ValueError(
                f"retryPeriod: {JITTER} times {self.retry_period} must be shorter than"
                f" renewDeadline, {self.renew_deadline}"
            )
        if problem := label_problem(self.resource_namespace):
            raise ValueError(f"resourceNamespace: {problem}")
        if problem := subdomain_problem(self.resource_name):
            raise ValueError(f"resourceName: {problem}")


def seconds(text: str) -> float:
    """A duration in Go's notation, in seconds; raises ValueError for anything else."""
    if not re.fullmatch(f"({_PART})+", text):
        raise ValueError(f"must be {_DURATION}, not {text!r}")
    return sum(float(number) * _UNITS_S[unit] for number, unit in re.findall(_PART, text))


def _checked(field: str, text: str) -> float:
    try:
        found = seconds(text)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from error
    if found <= 0:
        raise ValueError(f"{field}: must be longer than 0, such as 2s, not {text!r}")
    return found
