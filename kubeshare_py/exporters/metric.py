"""Metrics: descriptions, values in prometheus-client's form or as lines of text, and counts."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

# A metric's description; the documentation is generated from it, too.


@dataclass(frozen=True, slots=True)
class Metric:
    """`kind` is gauge, counter or histogram. Counters are called …_total."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


# A histogram that is cheap to add to, and rendered on demand.


class Distribution:
    """Observations by upper bounds (ascending), their number and sum."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """The value occurred; a value that equals a bound is within it."""
        self._counts[bisect_left(self._bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """Observations so far."""
        return sum(self._counts)

    def buckets(self) -> Iterator[tuple[str, float]]:
        """(upper bound, observations up to it), the last bound being +Inf."""
        below = 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            below += count
            # As Go writes it, so that series of kube-scheduler and ours add up by this label.
            yield str(bound).removesuffix(".0"), below


def doubling(first: float, count: int) -> tuple[float, ...]:
    """`count` bounds from `first` on, each twice the last one."""
    return tuple(first * 2**number for number in range(count))


# Values of metrics in the form of prometheus-client.


Value = float | Distribution
#: Values by metric and by label values.
Values = Mapping[str, Mapping[tuple[str, ...], Value]]


def registry(catalogue: Sequence[Metric], values: Values) -> CollectorRegistry:
    """A registry to render; raises KeyError for a metric that is not in the catalogue."""
    found = CollectorRegistry()
    found.register(_MetricFamilies(catalogue, values))
    return found


def collector(catalogue: Sequence[Metric], values: Values) -> Collector:
    """The same as a collector, to be registered beside others."""
    return _MetricFamilies(catalogue, values)


class _MetricFamilies(Collector):
    """One family for each metric that has a value, in the order of the catalogue."""

    def __init__(self, catalogue: Sequence[Metric], values: Values) -> None:
        unknown = values.keys() - {metric.name for metric in catalogue}
        if unknown:
            raise KeyError(sorted(unknown))
        self._catalogue = catalogue
        self._values = values

    def collect(self) -> Iterator[Family]:
        """Yield the families."""
        for metric in self._catalogue:
            if found := self._values.get(metric.name):
                yield _family(metric, found.items())


def _family(metric: Metric, values: Iterable[tuple[tuple[str, ...], Value]]) -> Family:
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for labels, value in values:
            assert isinstance(value, Distribution)
            histogram.add_metric(labels, list(value.buckets()), value.total)
        return histogram
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in values:
        assert not isinstance(value, Distribution)
        family.add_metric(labels, value)
    return family


# Series as lines of text, where prometheus-client, at 8 µs per line, is too slow.
#
# Gauges look the same in the text format and in OpenMetrics.
# https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format


_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def label_text(names: Sequence[str], values: Iterable[str]) -> str:
    """Labels in their braces, in this order."""
    return _template(names) % tuple(value.translate(_ESCAPES) for value in values)


def head(metric: Metric, kind: str = "") -> str:
    """The lines before a metric's series; `kind` replaces its own kind."""
    return f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {kind or metric.kind}\n"


def gauges(
    catalogue: Iterable[Metric], values: Mapping[str, Mapping[tuple[str, ...], float]]
) -> str:
    """All series of the metrics that have values; about 1 µs for each."""
    found: list[str] = []
    escaped = _Escaped()
    for metric in catalogue:
        if series := values.get(metric.name):
            line = f"{metric.name}{_template(metric.labels)} %s\n"
            found.append(head(metric))
            found += [
                line % (*[escaped[label] for label in labels], value)
                for labels, value in series.items()
            ]
    return "".join(found)


class _Escaped(dict[str, str]):
    """Escaped texts; the same labels come again and again."""

    def __missing__(self, text: str) -> str:
        """Escape it once."""
        self[text] = found = text.translate(_ESCAPES)
        return found


def _template(names: Sequence[str]) -> str:
    inside = ",".join(f'{name}="%s"' for name in names)
    return f"{{{inside}}}"


# Counts kept while the scheduler runs; the edge adds to them, and the metrics render them.


#: kube-scheduler's bounds: seconds of one attempt and of a pod's whole way, and numbers of
#: attempts.
ATTEMPT_BOUNDS = doubling(0.001, 15)
SLI_BOUNDS = doubling(0.01, 20)
POD_ATTEMPTS_BOUNDS = doubling(1, 5)
#: Seconds of one call of the machine: from 10 µs to about 0.3 s.
EVENT_BOUNDS = doubling(0.00001, 16)
#: Pods evicted for one pod or gang.
VICTIM_BOUNDS = doubling(1, 7)
#: From this many attempts on, pods are counted together, as in kube-scheduler.
MANY_ATTEMPTS = 15


@dataclass(slots=True)
class EventLogTallies:
    """What was written of the event log: events, bytes, and how often writing failed."""

    is_writing: bool = False
    events: int = 0
    size: int = 0
    failures: int = 0


@dataclass(slots=True)
class Tallies:
    """Counts kept while the scheduler runs; the edge adds to them."""

    attempt_seconds: dict[tuple[str, ...], Distribution] = field(default_factory=dict)
    sli_seconds: dict[str, Distribution] = field(default_factory=dict)
    algorithm_seconds: Distribution = field(default_factory=lambda: Distribution(ATTEMPT_BOUNDS))
    pod_attempts: Distribution = field(default_factory=lambda: Distribution(POD_ATTEMPTS_BOUNDS))
    event_seconds: Distribution = field(default_factory=lambda: Distribution(EVENT_BOUNDS))
    preemption_victims: Distribution = field(default_factory=lambda: Distribution(VICTIM_BOUNDS))
    warnings: dict[str, int] = field(default_factory=dict)
    slow_turns: dict[str, int] = field(default_factory=dict)
    reloads: dict[str, int] = field(default_factory=lambda: {"applied": 0, "refused": 0})
    reloaded: bool = True

    def attempt(self, result: str, profile: str, seconds: float, times: int = 1) -> None:
        """`times` attempts ended with this result, each after `seconds`."""
        found = self.attempt_seconds.get((result, profile))
        if found is None:
            found = self.attempt_seconds[result, profile] = Distribution(ATTEMPT_BOUNDS)
        found.observe(seconds, times)

    def bound(self, attempts: int, seconds: float) -> None:
        """A pod was bound, `seconds` after it joined the queue."""
        self.pod_attempts.observe(attempts)
        label = f"{MANY_ATTEMPTS}+" if attempts >= MANY_ATTEMPTS else str(attempts)
        found = self.sli_seconds.get(label)
        if found is None:
            found = self.sli_seconds[label] = Distribution(SLI_BOUNDS)
        found.observe(seconds)

    def preempted(self, victims: int) -> None:
        """`victims` pods are evicted for one pod or gang; 0 if enough others leave anyhow."""
        self.preemption_victims.observe(victims)

    def warning(self, reason: str) -> None:
        """Another client did this to a bound pod."""
        self.warnings[reason] = self.warnings.get(reason, 0) + 1

    def slow_plugin(self, plugin: str) -> None:
        """A plugin took too long in one turn."""
        self.slow_turns[plugin] = self.slow_turns.get(plugin, 0) + 1

    def reload(self, *, applied: bool) -> None:
        """The configuration file changed."""
        self.reloads["applied" if applied else "refused"] += 1
        self.reloaded = applied


# `kubeshare_build_info`: which build runs, in the form of Prometheus' own programs.


BUILD_INFO = Metric(
    "kubeshare_build_info",
    "gauge",
    "1; the version of kubeshare-py and that of its Python.",
    ("version", "python_version"),
)
#: HAMi's name for it, on its own pages, and without its label `zone`. Of its labels those of Go
#: and of its repository are unknown here.
HAMI_BUILD_INFO = Metric(
    "hami_build_info",
    "gauge",
    "1; the version is that of kubeshare-py, and begins with this name.",
    ("version",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """Versions of kubeshare-py and of the interpreter, as text."""

    version: str
    python_version: str


def build_values(build: Build) -> Values:
    """The metric's value, by metric and by label values."""
    return {BUILD_INFO.name: {(build.version, build.python_version): 1}}


def build_collector(build: Build) -> Collector:
    """The same for a page made of prometheus-client's collectors."""
    return collector((BUILD_INFO,), build_values(build))


def hami_build_text(build: Build) -> str:
    """The metric with its head, as text."""
    labels = label_text(HAMI_BUILD_INFO.labels, [f"kubeshare-py {build.version}"])
    return f"{head(HAMI_BUILD_INFO)}{HAMI_BUILD_INFO.name}{labels} 1\n"
