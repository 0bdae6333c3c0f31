"""Values of metrics in the form of prometheus-client."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from kubeshare_py.exporters.distribution import Distribution
from kubeshare_py.exporters.metric import Metric

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
