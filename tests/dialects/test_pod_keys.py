"""Keys of pods in labels and annotations, and what some say in every dialect."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.dialects.pod_keys import (
    ASKING_ANNOTATIONS,
    LABELS,
    RESULT_ANNOTATIONS,
    PriorityAndGang,
    is_ours,
    priority_and_gang,
    unknown_key,
)
from kubeshare_py.domain.pod import PodGroup

DOCS = Path(__file__).parents[2] / "docs/labels.md"
ONE_CONTAINERS = ("sharedgpu/container-0.gpu_uuid", "sharedgpu/init-12.gpu_uuid")


def said_of(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> str:
    return str(unknown_key(labels, annotations) or "")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("sharedgpu/gpu_requset", "gpu_request"),
        ("sharedgpu/gpu_limits", "gpu_limit"),
        ("sharedgpu/gpu_memory", "gpu_mem"),
        ("sharedgpu/gpu-request", "gpu_request"),
        ("sharedgpu/gpuRequest", "gpu_request"),
        ("sharedgpu/GPU_request", "gpu_request"),
        ("sharedgpu/headcount", "group_headcount"),
        ("sharedgpu/model", "gpu_model"),
        ("shared-gpu/gpu_request", "gpu_request"),
        ("sharedgpu.io/gpu_limit", "gpu_limit"),
        ("kubeshare/gpu_limit", "gpu_limit"),
    ],
)
def test_a_misspelt_label_is_named_with_what_was_meant(key: str, meant: str) -> None:
    known = {"sharedgpu/gpu_limit": "1.0"}
    assert said_of({**known, key: "0.5"}) == (
        f"label {key} is not known; did you mean sharedgpu/{meant}?"
    )


def test_a_label_like_no_other_is_named_with_all_that_are_known() -> None:
    said = said_of({"sharedgpu/xyz": "1"})
    assert said.startswith("label sharedgpu/xyz is not known; labels are sharedgpu/gpu_request, ")
    assert all(label in said for label in LABELS)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("sharedgpu/gpu_request", "sharedgpu/gpu_request is a label, not an annotation"),
        (
            "sharedgpu/gpu_modles",
            "annotation sharedgpu/gpu_modles is not known; did you mean sharedgpu/gpu_models?",
        ),
        (
            "SharedGPU/gpu_models",
            "annotation SharedGPU/gpu_models is not known; did you mean sharedgpu/gpu_models?",
        ),
        (
            "sharedgpu/gpu_requset",
            "annotation sharedgpu/gpu_requset is not known;"
            " did you mean sharedgpu/gpu_request, a label?",
        ),
        (
            "kubeshare/gpu_request",
            "annotation kubeshare/gpu_request is not known;"
            " did you mean sharedgpu/gpu_request, a label?",
        ),
        ("sharedgpu/gpu_mem", "sharedgpu/gpu_mem is a label, not an annotation"),
        ("sharedgpu/gpu_model", "sharedgpu/gpu_model is a label, not an annotation"),
    ],
)
def test_annotations_are_looked_at_as_well(key: str, said: str) -> None:
    assert said_of({}, {key: "0.5"}) == said


@pytest.mark.parametrize("key", ["sharedgpu/group_within", "sharedgpu/gpu_uuid", *ONE_CONTAINERS])
def test_what_is_an_annotation_is_no_label(key: str) -> None:
    assert said_of({key: "x"}) == f"{key} is an annotation, not a label"


@pytest.mark.parametrize("key", ["sharedgpu/gpu_mem", "sharedgpu/gpu_model"])
def test_results_that_were_copied_are_no_wishes(key: str) -> None:
    for copied in ("sharedgpu/gpu_uuid", "sharedgpu/allocation"):
        assert unknown_key({}, {key: "x", copied: "y"}) is None
    assert unknown_key({key: "x"}, {key: "x"}) is None


def test_the_first_of_several_is_named_and_labels_go_first() -> None:
    two = {"sharedgpu/limit": "1", "sharedgpu/gpu_requset": "1"}
    assert "sharedgpu/gpu_requset " in said_of(two, {"sharedgpu/a": ""})
    assert "annotation sharedgpu/a " in said_of({}, {"sharedgpu/b": "", "sharedgpu/a": ""})


def test_everything_that_is_known_is_let_through() -> None:
    annotations = (*ASKING_ANNOTATIONS, *RESULT_ANNOTATIONS, *ONE_CONTAINERS)
    assert unknown_key(dict.fromkeys(LABELS, "x"), dict.fromkeys(annotations, "x")) is None


@pytest.mark.parametrize(
    "key",
    [
        *("app", "gpu_request", "kubeshare.io/gpu_request", "example.com/gpu_request", "shared"),
        *("kubeshare/GPUID", "kubeshare.sim/priority"),
        *("sharedgpu", "shared/gpu_request", "sharedgpu.example.com/team", "shared-gpu/team"),
    ],
)
def test_keys_of_others_are_theirs(key: str) -> None:
    assert not is_ours(key)
    assert unknown_key({key: "x"}, {key: "x"}) is None


@given(
    st.dictionaries(
        st.one_of(
            st.sampled_from([*LABELS, *ASKING_ANNOTATIONS, *RESULT_ANNOTATIONS]),
            st.text("abcgpu_./-G", max_size=12).map("sharedgpu/".__add__),
            st.text(max_size=20),
        ),
        st.just(""),
        max_size=4,
    )
)
def test_a_key_is_known_ours_or_none_of_our_business(keys: dict[str, str]) -> None:
    problem = unknown_key(keys, None)
    wrong = {key for key in keys if key.startswith("sharedgpu/")} - set(LABELS)
    if problem is None:
        assert not wrong
    else:
        assert any(key in problem.field and is_ours(key) for key in keys)
        assert problem.value is None


def test_the_documentation_has_them_all_and_no_others() -> None:
    """Keys of pods that docs/labels.md names in its tables."""
    text = DOCS.read_text().partition("## On Nodes")[0]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `sharedgpu/")]
    said = {key for row in rows for key in re.findall(r"`(sharedgpu/[a-z_]+)`", row)}
    in_words = {f"sharedgpu/{name}" for name in ("pod_group_name", "min_available", "group_within")}
    assert all(f"`{key}`" in text for key in in_words)
    assert said | in_words == {*LABELS, *ASKING_ANNOTATIONS, *RESULT_ANNOTATIONS}


# --- Priority and gang, whatever the dialect; `test_sharedgpu` has their values -------------------


GANG = {
    "sharedgpu/group_name": "g",
    "sharedgpu/group_headcount": "3",
    "sharedgpu/group_threshold": "0.5",
}


@pytest.mark.parametrize("labels", [{}, {"app": "x"}, {"sharedgpu/priority": ""}])
def test_pods_without_such_labels_are_ordinary(labels: dict[str, str]) -> None:
    assert priority_and_gang(labels) == PriorityAndGang()


def test_priority_and_gang_are_understood_together() -> None:
    found = priority_and_gang({**GANG, "sharedgpu/priority": "7"})
    assert found == PriorityAndGang(7, PodGroup(name="g", headcount=3, min_available=2))


def test_a_bad_gang_comes_before_a_bad_priority_which_leaves_the_gang() -> None:
    both = priority_and_gang({**GANG, "sharedgpu/group_headcount": "x", "sharedgpu/priority": "x"})
    assert both.problem is not None
    assert (both.problem.field, both.group) == ("sharedgpu/group_headcount", None)
    one = priority_and_gang({**GANG, "sharedgpu/priority": "x"})
    assert one.problem is not None
    assert (one.problem.field, one.group is not None) == ("sharedgpu/priority", True)
