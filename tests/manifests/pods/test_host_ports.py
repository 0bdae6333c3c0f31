"""Ports of the node that a pod takes."""

from typing import Any

import pytest

from kubeshare_py.domain.pod import HostPort
from tests.manifests.written import pod


def having(*ports: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": "x", "ports": [{"containerPort": 80, **port} for port in ports], **fields}


@pytest.mark.parametrize(
    ("spec", "ports"),
    [
        ({}, ()),
        ({"containers": [having({})]}, ()),
        ({"containers": [having({"hostPort": 0})]}, ()),
        ({"containers": [having({"hostPort": 8080})]}, (HostPort(8080, "TCP", "0.0.0.0"),)),
        (
            {"containers": [having({"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"})]},
            (HostPort(53, "UDP", "10.0.0.1"),),
        ),
        (
            {"containers": [having({"hostPort": 9}), having({"hostPort": 8}, {"hostPort": 9})]},
            (HostPort(8), HostPort(9)),
        ),
        ({"initContainers": [having({"hostPort": 9})]}, ()),
        ({"initContainers": [having({"hostPort": 9}, restartPolicy="Always")]}, (HostPort(9),)),
        ({"hostNetwork": True, "containers": [having({"hostPort": 80})]}, (HostPort(80),)),
    ],
)
def test_ports_of_containers_and_sidecars_are_taken(
    spec: dict[str, Any], ports: tuple[HostPort, ...]
) -> None:
    assert pod(spec).shape.host_ports == ports
    assert not pod(spec).unsupported
    bound = pod({"nodeName": "n", **spec})
    assert bound.shape.host_ports == bound.placed.host_ports == ports


def test_a_bound_pod_keeps_its_ports_however_many_there_are() -> None:
    many = {"containers": [having(*({"hostPort": port} for port in range(1, 600)))]}
    assert str(pod(many).problem) == (
        "spec.containers[].ports has 599 host ports; this scheduler takes at most 500"
    )
    assert len(pod({"nodeName": "n", **many}).placed.host_ports) == 599
