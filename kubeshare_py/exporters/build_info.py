"""`kubeshare_build_info`: which build runs, in the form of Prometheus' own programs."""

from dataclasses import dataclass

from prometheus_client.registry import Collector

from kubeshare_py.exporters.metric import Metric
from kubeshare_py.exporters.metric_values import Values, collector
from kubeshare_py.exporters.text_lines import head, label_text

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
