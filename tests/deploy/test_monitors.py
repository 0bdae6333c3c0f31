"""What the chart tells the Prometheus operator is what the plain configuration tells Prometheus."""

import pytest
import yaml

from tests.controlplane.helm import CHART
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import MANIFESTS, Json
from tests.deploy.conftest import NAME
from tests.deploy.test_rendering import VARIANTS, of, refused, rendered
from tests.each import each

pytestmark = pytest.mark.real_only("it needs Helm, which make e2e builds")

#: Which variant has which kind of the Prometheus operator's.
MONITORS = [("watched", "ServiceMonitor"), ("watched by pods", "PodMonitor")]
_SCRAPING = yaml.safe_load(MANIFESTS.with_name("prometheus.yaml").read_text())
SCRAPED: Json = {job["job_name"]: job for job in _SCRAPING["scrape_configs"]}


@pytest.fixture(autouse=True)
def built(bare: ControlPlane) -> None:
    """Helm is there."""


def monitored(monitor: Json) -> tuple[str, Json]:
    """The label that a monitor selects by, and its one endpoint."""
    spec = monitor["spec"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    [endpoint] = spec.get("endpoints") or spec["podMetricsEndpoints"]
    return spec["selector"]["matchLabels"]["app.kubernetes.io/name"], endpoint


@pytest.mark.parametrize(("variant", "kind"), MONITORS)
def test_prometheus_operator_is_told_where_and_how(variant: str, kind: str) -> None:
    objects = rendered(*VARIANTS[variant])
    found = dict(monitored(one) for one in of(objects, kind))
    selected = {
        one["metadata"]["labels"]["app.kubernetes.io/name"]: one for one in of(objects, "Service")
    }
    assert found.keys() == selected.keys()
    for name, endpoint in each(found.items()):
        [port] = selected[name]["spec"]["ports"]
        assert endpoint["port"] == port["name"] == port["targetPort"]


@pytest.mark.parametrize(("variant", "kind"), MONITORS)
def test_the_operators_prometheus_relabels_as_the_plain_one(variant: str, kind: str) -> None:
    for _, endpoint in each(map(monitored, of(rendered(*VARIANTS[variant]), kind))):
        [job] = [
            one["replacement"] for one in endpoint["relabelings"] if one["targetLabel"] == "job"
        ]
        plain = SCRAPED[job]
        assert endpoint.get("honorLabels", False) == plain.get("honor_labels", False)
        assert endpoint.get("path", "/metrics") == plain.get("metrics_path", "/metrics")
        assert endpoint.get("scheme", "http") == plain.get("scheme", "http")
        own = [
            (one["sourceLabels"], one["targetLabel"])
            for one in endpoint["relabelings"]
            if "sourceLabels" in one
        ]
        assert own == [
            (one["source_labels"], one["target_label"])
            for one in plain["relabel_configs"]
            if "target_label" in one
        ]


def test_monitors_are_of_one_kind_and_of_what_there_is() -> None:
    assert "scraped twice" in refused("serviceMonitor.enabled=true", "podMonitor.enabled=true")
    without = of(rendered("podMonitor.enabled=true"), "PodMonitor")
    assert [one["metadata"]["name"] for one in without] == ["kubeshare-collector"]
    less = of(rendered("serviceMonitor.enabled=true", "collector.enabled=false"), "ServiceMonitor")
    assert [one["metadata"]["name"] for one in less] == [NAME]


def test_the_operators_rules_are_the_plain_ones() -> None:
    [made] = of(rendered(*VARIANTS["watched"]), "PrometheusRule")
    assert made["spec"] == yaml.safe_load((CHART / "rules.yaml").read_text())


@pytest.mark.parametrize("address", ["https://docs.example/v1", "https://docs.example/v1/"])
def test_alerts_link_to_the_docs_where_they_are_kept(address: str) -> None:
    values = (*VARIANTS["watched"], f'prometheusRule.docsUrl="{address}"')
    [made] = of(rendered(*values), "PrometheusRule")
    links = [
        (rule["alert"], rule["annotations"]["runbook_url"])
        for group in made["spec"]["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]
    assert len(links) > 20
    start = "https://docs.example/v1/monitoring.md#"
    assert [link for _, link in links] == [f"{start}{name.lower()}" for name, _ in links]


def test_an_address_that_is_none_is_refused() -> None:
    assert "does not match pattern" in refused(
        "prometheusRule.enabled=true", 'prometheusRule.docsUrl="here"'
    )
