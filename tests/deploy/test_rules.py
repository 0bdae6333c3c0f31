"""The rules as Prometheus' own tools judge them: each alert fires when it shall, and not otherwise.

https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/
"""

import subprocess
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.prometheus import NOT_HERE, find_promtool
from tests.controlplane.shipped import MANIFESTS, Json
from tests.deploy.scraping import SELECTORS, with_targets_from_files

pytestmark = pytest.mark.real_only("it needs promtool, which `make e2e` finds or fetches")

RULES = MANIFESTS.with_name("chart") / "kubeshare/rules.yaml"
CASES: Json = yaml.safe_load(Path(__file__).with_name("alerts.yaml").read_text())
GROUPS: list[Json] = yaml.safe_load(RULES.read_text())["groups"]
ALERTS = {rule["alert"]: rule for group in GROUPS for rule in group["rules"] if "alert" in rule}


@pytest.fixture
def promtool() -> Path:
    found = find_promtool()
    if found is None:
        pytest.skip(NOT_HERE)
    return found


def said(promtool: Path, *arguments: str | Path) -> str:
    """What it says to something that is right."""
    done = subprocess.run([promtool, *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def expected(name: str, case: Json) -> Json:
    """What promtool shall find for one case that fires."""
    labels = {"severity": ALERTS[name]["labels"]["severity"], **case.get("labels", {})}
    return {"exp_labels": labels, "exp_annotations": {"summary": case["summary"]}}


def cases(name: str) -> Iterator[tuple[Json, list[Json]]]:
    """Each with the alerts that are expected of it."""
    for title, case in CASES[name].items():
        if title.startswith("fires"):
            yield case, [expected(name, case)]
    for case in CASES[name]["quiet"].values():
        yield case, []


def as_promtool_wants(name: str) -> Iterator[Json]:
    """The cases of an alert as promtool wants them."""
    for case, alerts in cases(name):
        series = [{"series": one, "values": str(values)} for one, values in case["series"].items()]
        asked = {"eval_time": f"{case['at']}m", "alertname": name, "exp_alerts": alerts}
        yield {"interval": "1m", "input_series": series, "alert_rule_test": [asked]}


def test_promtool_finds_nothing_wrong_with_the_rules(promtool: Path) -> None:
    text = said(promtool, "check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert f"{sum(len(group['rules']) for group in GROUPS)} rules found" in text


def test_there_is_a_case_for_each_alert() -> None:
    assert CASES.keys() == ALERTS.keys()
    for name, found in CASES.items():
        assert found["fires"]["series"], name
        assert found["quiet"], name


@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_when_it_shall_and_not_otherwise(
    promtool: Path, tmp_path: Path, name: str
) -> None:
    short: list[Json] = deepcopy(GROUPS)
    for rule in (one for group in short for one in group["rules"] if "alert" in one):
        rule["annotations"] = {"summary": rule["annotations"]["summary"]}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": short}))
    document: dict[str, Any] = {"rule_files": ["rules.yaml"], "tests": [*as_promtool_wants(name)]}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(document))
    assert "SUCCESS" in said(promtool, "test", "rules", tmp_path / "tests.yaml")


def test_promtool_finds_nothing_wrong_with_the_configuration(
    promtool: Path, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("x")
    targets = {job: tmp_path / f"{job}.json" for job in SELECTORS}
    document = with_targets_from_files(targets, token)
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(document))
    text = said(promtool, "check", "config", tmp_path / "prometheus.yaml")
    assert "1 rule files found" in text
