"""docs/operations.md says of each metric what the code says."""

import re
from pathlib import Path

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector

from kubeshare_py.exporters.scheduler_metrics import CATALOGUE

PAGE = (Path(__file__).parents[2] / "docs/operations.md").read_text()


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def test_the_table_of_metrics_is_that_of_the_code() -> None:
    shown = [line for line in section("Metrics").splitlines() if line.startswith("| `")]
    assert shown == [
        f"| `{one.name}` | {one.kind} | {', '.join(one.labels)} | {one.help} |" for one in CATALOGUE
    ]


def test_everything_on_the_page_is_named_there() -> None:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    library = {sample.name for family in registry.collect() for sample in family.samples}
    assert len(library) > 5
    assert library <= set(re.findall(r"`([a-z_]+)`", section("Metrics")))
