"""What containers get of their node: cards and an environment."""

from typing import Any

import pytest

from kubeshare_py.dialects.card_visibility import CardVisibility
from kubeshare_py.domain.card_reading import IsolationBackend
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    Json,
    UnstructuredMetadata,
    UnstructuredObject,
)
from kubeshare_py.embedded_cluster.nodes import container_runtime
from kubeshare_py.embedded_cluster.nodes.container_runtime import (
    RuntimeCards,
    StartProblem,
    folders,
    given,
    pod_environment,
)
from kubeshare_py.isolation.containers import VISIBLE_DEVICES, injection

# --- What containers get of their node's cards ----------------------------------------------------


CUDA = {"NVIDIA_VISIBLE_DEVICES": "all"}
LIMITS = {"NVIDIA_GPU_MEMORY_REQUEST": "5", "NVIDIA_GPU_MEMORY_LIMIT": "8"}


@pytest.mark.parametrize("wish", ["", "void", "none"])
def test_who_is_told_no_card_gets_none_whatever_the_image_says(wish: str) -> None:
    assert given({"NVIDIA_VISIBLE_DEVICES": wish}, CUDA) == RuntimeCards()


def test_who_is_told_nothing_gets_what_the_image_says() -> None:
    assert given({}) == RuntimeCards()
    assert given({}, CUDA) == RuntimeCards(("all",))


def test_cards_come_with_the_limit_that_is_told_of_each() -> None:
    told = {"NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-2", **LIMITS}
    assert given(told, CUDA) == RuntimeCards(("GPU-1", "GPU-2"), 8)


@pytest.mark.parametrize("missing", LIMITS)
def test_half_of_a_limit_is_none(missing: str) -> None:
    told = {"NVIDIA_VISIBLE_DEVICES": "GPU-1", **LIMITS}
    del told[missing]
    assert given(told) == RuntimeCards(("GPU-1",))


@pytest.mark.parametrize(
    "changed",
    [
        {"NVIDIA_GPU_MEMORY_LIMIT": ""},
        {"NVIDIA_GPU_MEMORY_REQUEST": "x"},
        {"NVIDIA_GPU_MEMORY_REQUEST": "9"},
    ],
)
def test_a_limit_that_is_not_understood_starts_nothing(changed: dict[str, str]) -> None:
    with pytest.raises(StartProblem, match="NVIDIA_GPU_MEMORY"):
        given({"NVIDIA_VISIBLE_DEVICES": "GPU-1", **LIMITS, **changed})
    # Without a card nobody looks at it.
    assert given({"NVIDIA_VISIBLE_DEVICES": "", **LIMITS, **changed}) == RuntimeCards()


def mounted(expression: str, **environment: str) -> dict[str, str]:
    mounts = [{"name": "v", "mountPath": "/x", "subPathExpr": expression}, {"mountPath": "/y"}]
    return folders({"name": "c", "volumeMounts": mounts}, environment)


def test_a_folder_follows_the_card() -> None:
    assert mounted("$(CARD)/pipe", CARD="GPU-1") == {"/x": "GPU-1/pipe"}


@pytest.mark.parametrize("card", ["", "..", "../..", "/etc"])
def test_no_folder_leads_out_of_its_volume(card: str) -> None:
    with pytest.raises(StartProblem, match="leads out of its volume"):
        mounted("$(CARD)/pipe", CARD=card)


def test_a_folder_of_a_variable_that_is_not_there_is_no_folder() -> None:
    with pytest.raises(StartProblem, match="no variable CARD"):
        mounted("$(CARD)/pipe")


def told(
    reach: CardVisibility, backend: IsolationBackend, **annotations: str
) -> UnstructuredObject:
    """A pod as it is made by the table, with an init container."""
    found = injection(reach, backend)
    env = [
        {"name": one.name, "valueFrom": {"fieldRef": {"fieldPath": one.field_path}}}
        if one.field_path
        else {"name": one.name, "value": one.value}
        for one in found.variables
    ]
    mounts = [{"mountPath": one.path, "subPathExpr": one.sub_path_expr} for one in found.mounts]
    both: list[Json] = [
        {"name": name, "env": env, "volumeMounts": mounts} for name in ("init", "main")
    ]
    keys = {f"sharedgpu/{key}": value for key, value in annotations.items()}
    return UnstructuredObject(
        metadata=UnstructuredMetadata(name="p", annotations=keys),
        spec={"initContainers": both[:1], "containers": both[1:]},
    )


@pytest.mark.parametrize("reach", CardVisibility)
@pytest.mark.parametrize("backend", IsolationBackend)
def test_a_pod_without_the_schedulers_annotations_sees_no_card(
    reach: CardVisibility, backend: IsolationBackend
) -> None:
    pod = told(reach, backend)
    environments = pod_environment(pod, "", "")
    assert environments["main"][VISIBLE_DEVICES] == ("void" if reach is CardVisibility.VOID else "")
    assert {given(one, CUDA) for one in environments.values()} == {RuntimeCards()}
    if (reach, backend) != (CardVisibility.SHARE, IsolationBackend.MPS):
        container_runtime.check_start(pod, environments)
        return
    with pytest.raises(StartProblem, match=r"container init: .*'/pipe' leads out of its volume"):
        container_runtime.check_start(pod, environments)


def test_a_pod_with_a_card_but_without_its_drivers_limit_does_not_start() -> None:
    pod = told(CardVisibility.SHARE, IsolationBackend.DRIVER, gpu_uuid="GPU-1")
    with pytest.raises(StartProblem, match="REQUEST='' is no number"):
        container_runtime.check_start(pod, pod_environment(pod, "", ""))


# --- What a container finds in its environment ----------------------------------------------------


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
