"""Protobuf bodies: the envelope, the field tables, and what is not decoded."""

from typing import Any

import pytest

from kubeshare_py.embedded_cluster.protocol.fields import NotReadable, decode_protobuf


def varint(number: int) -> bytes:
    number %= 1 << 64
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def entry(key: str, value: bytes | str) -> bytes:
    return field(1, key) + field(2, value)


def envelope(kind: str, version: str, raw: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, version) + field(2, kind)) + field(2, raw)


def test_a_config_map_is_decoded_with_its_maps() -> None:
    metadata = field(1, "c") + field(8, b"") + field(11, entry("a", "b"))
    raw = field(1, metadata) + field(2, entry("k", "v")) + field(3, entry("bin", b"\xff"))
    assert decode_protobuf(envelope("ConfigMap", "v1", raw)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "labels": {"a": "b"}},
        "data": {"k": "v"},
        "binaryData": {"bin": "/w=="},
    }


def test_deployments_and_budgets_as_kubectl_creates_them() -> None:
    selector = field(1, entry("app", "w"))
    port = field(3, 80)
    template = field(2, field(2, field(1, "a") + field(2, "x") + field(6, port)))
    raw = field(2, field(1, 3) + field(2, selector) + field(3, template) + field(4, b""))
    deployment = decode_protobuf(envelope("Deployment", "apps/v1", raw))
    containers = [{"name": "a", "image": "x", "ports": [{"containerPort": 80}]}]
    assert deployment["spec"] == {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "w"}},
        "template": {"spec": {"containers": containers}},
        "strategy": {},
    }
    percent = field(1, 1) + field(3, "50%")
    requirement = field(1, "app") + field(2, "In") + field(3, "w") + field(3, "v")
    raw = field(2, field(1, percent) + field(2, field(2, requirement)))
    budget = decode_protobuf(envelope("PodDisruptionBudget", "policy/v1", raw))
    expressions = [{"key": "app", "operator": "In", "values": ["w", "v"]}]
    assert budget["spec"] == {
        "minAvailable": "50%",
        "selector": {"matchExpressions": expressions},
    }


def test_lists_quantities_negative_numbers_and_flags() -> None:
    resources = field(1, entry("cpu", field(1, "500m")))
    container = field(1, "a") + field(3, "echo") + field(3, "hi") + field(8, resources)
    template = field(2, field(2, container + field(16, 1)))
    raw = field(2, field(7, -1) + field(6, template))
    job = decode_protobuf(envelope("Job", "batch/v1", raw))
    assert job["spec"]["backoffLimit"] == -1
    assert job["spec"]["template"]["spec"]["containers"] == [
        {
            "name": "a",
            "command": ["echo", "hi"],
            "resources": {"limits": {"cpu": "500m"}},
            "stdin": True,
        }
    ]


@pytest.mark.parametrize(
    ("port", "shown"),
    [(field(1, 1) + field(3, "http"), "http"), (field(2, 80), 80)],
)
def test_ports_are_numbers_or_names(port: bytes, shown: Any) -> None:
    raw = field(2, field(1, field(4, port)))
    service = decode_protobuf(envelope("Service", "v1", raw))
    assert service["spec"]["ports"] == [{"targetPort": shown}]


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        envelope("StatefulSet", "apps/v1", b""),
        envelope("ConfigMap", "v1", field(9, "unknown")),
        envelope("ConfigMap", "v1", field(1, "\x0a\x7f")),
        envelope("ConfigMap", "v1", field(1, 3)),
        b"k8s\x00\x0a",
        b"k8s\x00\x0b",
    ],
)
def test_anything_else_is_not_read_at_all(body: bytes) -> None:
    with pytest.raises(NotReadable):
        decode_protobuf(body)


def test_empty_fields_that_are_not_listed_lose_nothing() -> None:
    assert decode_protobuf(envelope("ConfigMap", "v1", field(9, b"")))["kind"] == "ConfigMap"
