"""Scrape configuration, rules and their manual fit each other, the code, and what is installed."""

import re
from typing import Any

import pytest
import yaml

from kubeshare_py.configuration.scheduler import read
from kubeshare_py.exporters import collector_metrics, scheduler_metrics, share_pod_metrics
from tests.architecture.sources import ROOT
from tests.controlplane.shipped import only

GROUPS = yaml.safe_load((ROOT / "deploy/chart/kubeshare/rules.yaml").read_text())["groups"]
RULES: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDS = {rule["record"]: rule for rule in RULES if "record" in rule}
JOBS = {
    job["job_name"]: job
    for job in yaml.safe_load((ROOT / "deploy/prometheus.yaml").read_text())["scrape_configs"]
}
MANUAL = (ROOT / "docs/monitoring.md").read_text()
CATALOGUES = (
    scheduler_metrics.CATALOGUE,
    collector_metrics.CATALOGUE,
    share_pod_metrics.CATALOGUE,
)
METRICS = {one.name: one for catalogue in CATALOGUES for one in catalogue}
#: Names with a colon are recorded; all others are somebody's metrics.
NAME = re.compile(r"(?<![\w:])(?:kubeshare|scheduler|rest_client|leader_election|gpu)_\w+(?![\w:])")
ABOUT = [pytest.param(rule, id=rule.get("alert", rule.get("record"))) for rule in RULES]


def expression(rule: dict[str, Any]) -> str:
    """Without what is in quotes."""
    return re.sub(r'"[^"]*"', '""', rule["expr"])


@pytest.mark.parametrize("rule", ABOUT)
def test_rules_are_about_metrics_that_there_are(rule: dict[str, Any]) -> None:
    text = expression(rule)
    named = set(NAME.findall(text))
    assert {name.removesuffix("_bucket") for name in named} <= METRICS.keys()
    recorded = set(re.findall(r"\b(?:node|cluster):\w+:\w+", text))
    assert recorded <= RECORDS.keys()
    assert named or recorded or "up{" in text


@pytest.mark.parametrize("rule", ABOUT)
def test_rules_ask_for_labels_that_these_metrics_have(rule: dict[str, Any]) -> None:
    for name, matchers in re.findall(r"(\w+)\{([^}]*)\}", rule["expr"]):
        asked = set(re.findall(r"(\w+)\s*(?:=|!=|=~|!~)", matchers)) - {"job"}
        found = METRICS.get(name.removesuffix("_bucket"))
        assert asked <= set(found.labels if found else ()), name


@pytest.mark.parametrize("rule", ABOUT)
def test_metrics_that_others_have_too_are_asked_of_our_jobs(rule: dict[str, Any]) -> None:
    jobs = re.findall(r'job="([^"]*)"', rule["expr"])
    assert {*jobs} <= JOBS.keys()
    shared = re.findall(
        r"(?<![\w:])(?:scheduler_|rest_client_|leader_election_|up\{)", rule["expr"]
    )
    assert len(jobs) == len(shared)


def test_every_alert_says_what_it_is_what_to_do_and_where_to_read_on() -> None:
    headings = set(re.findall(r"^### (\w+)$", MANUAL, re.MULTILINE))
    assert headings == ALERTS.keys()
    for name, alert in ALERTS.items():
        told = alert["annotations"]
        assert told.keys() == {"summary", "description", "runbook_url"}
        assert told["runbook_url"] == f"docs/monitoring.md#{name.lower()}"
        [severity] = re.findall(rf"^### {name}\n\n(\w+)\. ", MANUAL, re.MULTILINE)
        assert alert["labels"] == {"severity": severity}
        assert f"`{severity}`: " in MANUAL
        assert len(told["description"]) > len(told["summary"])


def test_what_is_recorded_is_explained() -> None:
    section = MANUAL.split("## Recorded\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE) == [*RECORDS]


def test_the_scheduler_asks_for_the_job_that_the_collectors_are() -> None:
    selector = read(None).inventory.selector
    assert [f'job="{name}"' for name in JOBS if name in selector] == [selector]
    assert JOBS["kubeshare-collector"]["metrics_path"] == collector_metrics.PATH
    assert JOBS["kubeshare-collector"]["honor_labels"] is True


@pytest.mark.parametrize(
    ("name", "kind"), [("kubeshare-collector", "DaemonSet"), ("kubeshare-scheduler", "Deployment")]
)
def test_the_pods_that_are_installed_are_those_that_are_scraped(name: str, kind: str) -> None:
    template = only(kind, name)["spec"]["template"]
    [discovery] = JOBS[name]["kubernetes_sd_configs"]
    # A pod with the same labels in another namespace says nothing about cards.
    assert discovery["namespaces"] == {"names": [only(kind, name)["metadata"]["namespace"]]}
    [selector] = discovery["selectors"]
    assert selector["role"] == discovery["role"] == "pod"
    key, _, value = selector["label"].partition("=")
    assert template["metadata"]["labels"][key] == value
    [container] = template["spec"]["containers"]
    [port] = container["ports"]
    kept = [one["regex"] for one in JOBS[name]["relabel_configs"] if one.get("action") == "keep"]
    assert kept == [port["name"]]
    [probe] = {
        container[one]["httpGet"].get("scheme", "HTTP")
        for one in ("livenessProbe", "readinessProbe")
    }
    assert JOBS[name].get("scheme", "http") == probe.lower()
