"""`kubeshare_build_info`: which build runs, in the form of Prometheus' own programs."""

from dataclasses import dataclass

from prometheus_client.registry import Collector

from kubeshare_py.exporters.metric import Metric
from kubeshare_py.exporters.metric_values import Values, collector

BUILD_INFO = Metric(
    "kubeshare_build_info",
    "gauge",
    "1; the version of kubeshare-py and that of its Python.",
    ("version", "python_version"),
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
