"""docs/inventory.md says of metrics and health what the code says."""

import re
from pathlib import Path

from kubeshare_py.exporters.collector_metrics import CATALOGUE
from kubeshare_py.node_agent.health import NAMES
from kubeshare_py.node_agent.xids import APPLICATION_XIDS

INVENTORY = (Path(__file__).parents[2] / "docs/inventory.md").read_text()
PAGE = INVENTORY.split("\n## The collector\n")[1].split("\n## ")[0]


def section(title: str) -> str:
    return PAGE.split(f"\n### {title}\n")[1].split("\n### ")[0]


def rows(title: str) -> list[str]:
    return [line for line in section(title).splitlines() if line.startswith("| `")]


def test_the_table_of_metrics_is_that_of_the_code() -> None:
    assert rows("Metrics") == [
        f"| `{one.name}` | {one.kind} | {', '.join(one.labels)} | {one.help} |" for one in CATALOGUE
    ]


def test_metrics_that_are_mentioned_exist() -> None:
    mentioned = set(re.findall(r"kubeshare_(?:gpu|collector)_[a-z_]+", PAGE))
    assert len(mentioned) > 20
    assert mentioned <= {one.name for one in CATALOGUE}


def test_every_fault_is_explained() -> None:
    explained = {name for row in rows("Health") for name in re.findall(r"`([a-zN-]+)`", row[:90])}
    assert explained >= {*NAMES, "xid-N"}


def test_the_errors_of_programs_are_named() -> None:
    (named,) = re.findall(r"XID ([\d, and]+),", section("Health"))
    assert {*map(int, re.findall(r"\d+", named))} == APPLICATION_XIDS
