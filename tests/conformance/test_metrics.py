"""Metrics that bear kube-scheduler's names are what kube-scheduler tells under them."""

import asyncio
import ssl
import urllib.request
from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.exporters.client_metrics import LATENCY_BOUNDS
from kubeshare_py.exporters.metric import (
    ATTEMPT_BOUNDS,
    POD_ATTEMPTS_BOUNDS,
    SLI_BOUNDS,
    VICTIM_BOUNDS,
    Distribution,
    Metric,
)
from kubeshare_py.exporters.scheduler_metrics import CATALOGUE
from kubeshare_py.scheduling.queue import pod_records
from kubeshare_py.views.figures import RESULTS
from tests.conformance.real_api import RealApi
from tests.controlplane.build import build
from tests.controlplane.cleaning import clean
from tests.controlplane.processes import process
from tests.controlplane.running import ControlPlane, free_ports

pytestmark = pytest.mark.real_only("the embedded control plane has no kube-scheduler")

THEIRS = [one for one in CATALOGUE if not one.name.startswith("kubeshare_")]
BOUNDS = {
    "scheduler_scheduling_attempt_duration_seconds": ATTEMPT_BOUNDS,
    "scheduler_scheduling_algorithm_duration_seconds": ATTEMPT_BOUNDS,
    "scheduler_pod_scheduling_sli_duration_seconds": SLI_BOUNDS,
    "scheduler_pod_scheduling_attempts": POD_ATTEMPTS_BOUNDS,
    "scheduler_preemption_victims": VICTIM_BOUNDS,
    "rest_client_request_duration_seconds": LATENCY_BOUNDS,
    "rest_client_rate_limiter_duration_seconds": LATENCY_BOUNDS,
}
START_S = 60.0


@pytest.fixture(scope="module")
def told(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Family]:
    """Kube-scheduler's metrics once it has placed a pod and found no place for another."""
    asyncio.run(_clean(plane.kubeconfig))
    folder = tmp_path_factory.mktemp("kube-scheduler")
    (port,) = free_ports(1)
    command: list[str | Path] = [
        build(["kube-scheduler"]) / "kube-scheduler",
        f"--kubeconfig={plane.kubeconfig}",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        "--authorization-always-allow-paths=/healthz,/metrics",
        "--leader-elect-resource-name=of-the-test-of-metrics",
    ]
    url = f"https://127.0.0.1:{port}"
    with process(command, folder / "log") as running, RealApi(plane) as api:
        running.wait_until(lambda: bool(page(url + "/healthz")), START_S)
        api.make_namespace()
        amounts = {"cpu": "4", "memory": "4Gi", "pods": "110"}
        status = {"capacity": amounts, "allocatable": amounts}
        api.post("/api/v1/nodes", {"metadata": {"name": "n1"}, "status": status})
        for name, cpu in (("small", "1"), ("big", "100")):
            resources = {"requests": {"cpu": cpu}}
            container = {"name": "main", "image": "busybox", "resources": resources}
            pod = {"metadata": {"name": name}, "spec": {"containers": [container]}}
            api.post("/api/v1/namespaces/fs/pods", pod)
        results = [f'result="{result}"' for result in ("scheduled", "unschedulable")]
        running.wait_until(
            lambda: all(result in page(url + "/metrics") for result in results), START_S
        )
        return by_name(text_string_to_metric_families(page(url + "/metrics")))


async def _clean(kubeconfig: Path) -> None:
    async with KubeClient(load(str(kubeconfig))) as client:
        await clean(client)


def page(url: str) -> str:
    """What is answered, "" if nothing is; its certificate is its own."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, timeout=5, context=context) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def by_name(families: Iterable[Family]) -> dict[str, Family]:
    return {
        family.name + ("_total" if family.type == "counter" else ""): family for family in families
    }


@pytest.mark.parametrize("metric", THEIRS, ids=lambda metric: metric.name)
def test_kind_labels_and_buckets_are_the_same(told: dict[str, Family], metric: Metric) -> None:
    if metric.name not in told:
        # Counters of what did not happen there have no series and are not on the page.
        assert metric.name in (
            "rest_client_request_retries_total", "leader_election_slowpath_total"
        )  # fmt: skip
        return
    family = told[metric.name]
    assert family.type == metric.kind
    labels = {name for sample in family.samples for name in sample.labels} - {"le"}
    assert labels == {*metric.labels}
    if metric.kind == "histogram":
        bounds = [bound for bound, _ in Distribution(BOUNDS[metric.name]).buckets()]
        assert {sample.labels.get("le", "+Inf") for sample in family.samples} == {*bounds}


def test_label_values_are_the_same(told: dict[str, Family]) -> None:
    def values(name: str, label: str) -> set[str]:
        return {sample.labels[label] for sample in told[name].samples}

    # `outside` is ours.
    assert values("scheduler_pending_pods", "queue") - {"outside"} == {
        "active", "backoff", "unschedulable", "gated"
    }  # fmt: skip
    assert values("scheduler_schedule_attempts_total", "result") < {*RESULTS}
    assert values("scheduler_cache_size", "type") == {"nodes", "pods", "assumed_pods"}
    entered = "scheduler_queue_incoming_pods_total"
    assert pod_records.POD_ADD in values(entered, "event")
    assert pod_records.ATTEMPT_FAILURE in values(entered, "event")
    assert values(entered, "queue") <= {
        pod_records.ACTIVE, pod_records.BACKOFF, pod_records.UNSCHEDULABLE
    }  # fmt: skip
    assert {"POST", "GET"} <= values("rest_client_requests_total", "method")
    assert "201" in values("rest_client_requests_total", "code")
    [leads] = told["leader_election_master_status"].samples
    assert leads.value == 1
