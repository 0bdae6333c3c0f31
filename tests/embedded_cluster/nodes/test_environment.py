"""What a container finds in its environment."""

from typing import Any

import pytest

from kubeshare_py.embedded_cluster.controllers.unstructured import (
    UnstructuredMetadata,
    UnstructuredObject,
)
from kubeshare_py.embedded_cluster.nodes.environment import pod_environment

UUID_KEY = "sharedgpu/gpu_uuid"


def environment(*entries: dict[str, Any], **annotations: str) -> dict[str, str]:
    pod = UnstructuredObject(
        metadata=UnstructuredMetadata(
            name="p",
            namespace="ns",
            uid="u",
            labels={"app": "demo"},
            annotations={UUID_KEY: "GPU-1", **annotations},
        ),
        spec={"nodeName": "n", "containers": [{"name": "c", "env": list(entries)}]},
    )
    return pod_environment(pod, "172.20.0.1", "10.0.0.1")["c"]


def field(path: str) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"metadata.annotations['{UUID_KEY}']", "GPU-1"),
        ("metadata.annotations['absent']", ""),
        ("metadata.labels['app']", "demo"),
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u"),
        ("spec.nodeName", "n"),
        ("spec.serviceAccountName", ""),
        ("status.hostIP", "172.20.0.1"),
        ("status.podIP", "10.0.0.1"),
    ],
)
def test_fields_are_resolved_and_absent_ones_are_empty(path: str, value: str) -> None:
    assert environment(field(path)) == {"X": value}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("$(A)/$(A)", "a/a"),
        ("$(LATER)", "$(LATER)"),
        ("$$(A)", "$(A)"),
        ("$A ${A} $", "$A ${A} $"),
        ("$$$(A)", "$a"),
    ],
)
def test_references_to_earlier_variables_are_expanded(text: str, value: str) -> None:
    found = environment(
        {"name": "A", "value": "a"}, {"name": "X", "value": text}, {"name": "LATER", "value": "l"}
    )
    assert found["X"] == value


def test_a_field_can_be_referred_to_but_is_not_expanded_itself() -> None:
    found = environment(
        {"name": "A", "value": "a"},
        field("metadata.annotations['odd']"),
        {"name": "Y", "value": "/mps/$(X)"},
        odd="$(A)",
    )
    assert (found["X"], found["Y"]) == ("$(A)", "/mps/$(A)")


def test_what_the_simulation_does_not_have_is_left_out() -> None:
    reference = {"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    assert environment(reference, {"name": "EMPTY"}) == {"EMPTY": ""}


@pytest.mark.parametrize("kind", ["initContainers", "ephemeralContainers"])
def test_init_containers_and_those_that_were_added_have_theirs(kind: str) -> None:
    pod = UnstructuredObject(
        metadata=UnstructuredMetadata(name="p"),
        spec={kind: [{"name": "i", "env": [{"name": "A", "value": "1"}]}]},
    )
    assert pod_environment(pod, "", "") == {"i": {"A": "1"}}
