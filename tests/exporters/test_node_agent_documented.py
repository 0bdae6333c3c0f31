"""docs/node-agent.md and docs/monitoring.md say of these metrics what the code says."""

from pathlib import Path

from kubeshare_py.edges.node.kubelet import device_plugins
from kubeshare_py.exporters import (
    gpu_requirement,
    hami_node_metrics,
    node_agent_metrics,
    share_pod_metrics,
)
from kubeshare_py.exporters.metric import Metric

DOCS = Path(__file__).parents[2] / "docs"


def rows(page: str, title: str) -> list[str]:
    section = (DOCS / page).read_text().split(f"## {title}\n")[1].split("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| `")]


def row(metric: Metric) -> str:
    return f"| `{metric.name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.help} |"


def test_the_table_of_the_agents_metrics_is_that_of_the_code() -> None:
    plugins = (device_plugins.REGISTERED, device_plugins.DEVICES)
    hami = node_agent_metrics.HAMI_CORE
    catalogue = (*node_agent_metrics.CATALOGUE, *node_agent_metrics.GEMINI, *plugins, *hami)
    assert rows("node-agent.md", "Metrics") == [row(one) for one in catalogue]


def test_the_table_of_hamis_metrics_of_the_node_is_that_of_the_code() -> None:
    found = rows("node-agent.md", "HAMi's metrics")
    assert found == [row(one) for one in hami_node_metrics.CATALOGUE]
    section = (DOCS / "node-agent.md").read_text().split("### HAMi's metrics\n")[1]
    text = section.split("\n## ")[0]
    assert [one.name for one in hami_node_metrics.LEGACY if f"`{one.name}`" not in text] == []


def test_the_table_of_the_aggregators_metrics_is_that_of_the_code() -> None:
    found = rows("monitoring.md", "KubeShare's gpu_requirement")
    assert found == [row(one) for one in gpu_requirement.CATALOGUE]


def test_the_table_of_the_controllers_metrics_is_that_of_the_code() -> None:
    assert rows("sharepods.md", "Metrics") == [row(one) for one in share_pod_metrics.OWN]
