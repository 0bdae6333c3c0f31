"""Which Prometheus of the Prometheus Operator is asked, and where collectors answer."""

from typing import Any

import msgspec
import pytest

from kubeshare_py.manifests.partial_objects import CollectorPod, PrometheusObject, only_prometheus


def a_prometheus(name: str = "k8s", **spec: Any) -> PrometheusObject:
    metadata = {"name": name, "namespace": "monitoring"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, PrometheusObject)


@pytest.mark.parametrize(
    ("spec", "url"),
    [
        ({}, "http://prometheus-operated.monitoring.svc:9090"),
        ({"replicas": 2, "shards": 1}, "http://prometheus-operated.monitoring.svc:9090"),
        ({"serviceName": "mine"}, "http://mine.monitoring.svc:9090"),
        ({"routePrefix": "/"}, "http://prometheus-operated.monitoring.svc:9090"),
        ({"routePrefix": "/p/q/"}, "http://prometheus-operated.monitoring.svc:9090/p/q"),
        ({"web": {"pageTitle": "x"}}, "http://prometheus-operated.monitoring.svc:9090"),
        (
            {"web": {"tlsConfig": {"keySecret": {}}}},
            "https://prometheus-operated.monitoring.svc:9090",
        ),
    ],
)
def test_the_only_one_is_asked_at_its_service(spec: dict[str, Any], url: str) -> None:
    assert only_prometheus([a_prometheus(**spec)]) == (url, "")


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        ([], "the Prometheus Operator runs no Prometheus"),
        (
            [a_prometheus(), a_prometheus("x")],
            "several Prometheuses (monitoring/k8s, monitoring/x)",
        ),
        ([a_prometheus(shards=3)], "monitoring/k8s listens to its pod alone or has shards"),
        ([a_prometheus(listenLocal=True)], "monitoring/k8s listens to its pod alone"),
    ],
    ids=["none", "several", "shards", "local"],
)
def test_no_other_is_asked_and_the_reason_says_what_to_set(
    objects: list[PrometheusObject], why: str
) -> None:
    url, said = only_prometheus(objects)
    assert (url, why in said, "inventory.url" in said) == ("", True, True)


def test_a_collector_answers_while_it_has_an_address_and_has_not_ended() -> None:
    def pod(phase: str, address: str) -> CollectorPod:
        status = {"phase": phase, "podIP": address}
        return msgspec.convert({"spec": {"nodeName": "n"}, "status": status}, CollectorPod)

    assert pod("Running", "10.0.0.1").can_answer
    assert not pod("Failed", "10.0.0.1").can_answer
    assert not pod("Pending", "").can_answer
