"""client-go's metrics of a process's requests and of its leadership, for this process.

Names, labels and buckets: k8s.io/component-base metrics/prometheus/restclient and
metrics/prometheus/clientgo/leaderelection.
"""

from contextlib import AbstractContextManager, nullcontext

from kubeshare_py.domain.lease import LeaderFigures
from kubeshare_py.exporters.metric import Distribution, Metric, Values

#: The status code of a request without an answer.
NO_ANSWER = "<error>"
#: Seconds.
LATENCY_BOUNDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)

CLIENT_METRICS = (
    Metric(
        "rest_client_requests_total",
        "counter",
        "Requests to the API server, watches and those without an answer included.",
        ("code", "method", "host"),
    ),
    Metric(
        "rest_client_request_retries_total",
        "counter",
        "Requests that were sent again because the API server asked to.",
        ("code", "verb", "host"),
    ),
    Metric(
        "rest_client_request_duration_seconds",
        "histogram",
        "From sending a request to the end of its answer; watches are not counted.",
        ("verb", "host"),
    ),
    Metric(
        "rest_client_rate_limiter_duration_seconds",
        "histogram",
        "What a request waited for its turn, because so many may be in flight and no more.",
        ("verb", "host"),
    ),
    Metric(
        "leader_election_master_status",
        "gauge",
        "1 while this process leads, 0 while it stands by; absent without election.",
        ("name",),
    ),
    Metric(
        "leader_election_slowpath_total",
        "counter",
        "Renewals for which the Lease had to be read first.",
        ("name",),
    ),
)


class RequestTallies:
    """Requests to one API server (`host` with its port), counted as they are answered.

    Threads may share them if there is a `lock`: it is held while they are counted and read.
    """

    def __init__(self, host: str, lock: AbstractContextManager[object] | None = None) -> None:
        self._host = host
        self._lock = lock or nullcontext()
        self._results: dict[tuple[str, str], int] = {}
        self._retries: dict[tuple[str, str], int] = {}
        self._latency: dict[str, Distribution] = {}
        self._waits: dict[str, Distribution] = {}

    def began(self, method: str, status: int | None) -> None:
        """The answer to a request begins with this status; None: there is none."""
        key = (NO_ANSWER if status is None else str(status), method)
        with self._lock:
            self._results[key] = self._results.get(key, 0) + 1

    def ended(self, method: str, status: int | None, seconds: float) -> None:
        """The answer is complete, `seconds` after the request was sent; None: there is none."""
        self.began(method, status)
        with self._lock:
            _distribution(self._latency, method).observe(seconds)

    def waited(self, method: str, seconds: float) -> None:
        """A request waited `seconds` for its turn."""
        with self._lock:
            _distribution(self._waits, method).observe(seconds)

    def sent_again(self, method: str, status: int) -> None:
        """A request with this answer will be repeated."""
        key = (str(status), method)
        with self._lock:
            self._retries[key] = self._retries.get(key, 0) + 1

    def values(self) -> Values:
        """All values, by metric and by label values."""
        with self._lock:
            return self._values()

    def _values(self) -> Values:
        host = self._host
        return {
            "rest_client_requests_total": {(*key, host): n for key, n in self._results.items()},
            "rest_client_request_retries_total": {
                (*key, host): n for key, n in self._retries.items()
            },
            "rest_client_request_duration_seconds": {
                (verb, host): seconds for verb, seconds in self._latency.items()
            },
            "rest_client_rate_limiter_duration_seconds": {
                (verb, host): seconds for verb, seconds in self._waits.items()
            },
        }


def leader_values(figures: LeaderFigures | None) -> Values:
    """All values, by metric and by label values; none without an election."""
    if figures is None:
        return {}
    return {
        "leader_election_master_status": {(figures.name,): int(figures.leads)},
        "leader_election_slowpath_total": {(figures.name,): figures.slow_renewals},
    }


def _distribution(by_verb: dict[str, Distribution], verb: str) -> Distribution:
    found = by_verb.get(verb)
    if found is None:
        found = by_verb[verb] = Distribution(LATENCY_BOUNDS)
    return found
