"""`kubeshare_build_info`: which build runs, as Prometheus' own programs tell it."""

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
    """By metric, by the values of its labels."""
    return {BUILD_INFO.name: {(build.version, build.python_version): 1}}


def build_collector(build: Build) -> Collector:
    """The same for a page that is made of prometheus-client's collectors."""
    return collector((BUILD_INFO,), build_values(build))
