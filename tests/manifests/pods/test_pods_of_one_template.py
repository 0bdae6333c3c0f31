"""What pods of one template have in common is read once, and each as if it came alone."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.cost import DIALECTS as EVERY
from kubeshare_py.dialects.counting_keys import MAX_KEYS, MAX_LENGTH, Counting
from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE, Dialects
from kubeshare_py.dialects.pod_request import MAX_KEYS as MAX_PROBLEM_KEYS
from kubeshare_py.domain.pod import Pod
from kubeshare_py.manifests.common_definitions import ObjectMeta
from kubeshare_py.manifests.pods import pod as reading
from kubeshare_py.manifests.pods.pod import to_domain
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.manifests.watch import Codec
from tests.dialects.halves import CARDS, DIALECTS, HALF, OF, STATE
from tests.odd_input import changed
from tests.valid_objects import ALLOCATION, LOOSE, POD

CODEC = Codec(PodFields)
MAIN = {"name": "main", "resources": {"limits": {HALF: "1", "nvidia.com/gpu": "1"}}}
PLAIN: dict[str, Any] = {
    "metadata": {
        "name": "a-0",
        "namespace": "ns",
        "uid": "u0",
        "labels": {"app": "a", "job-name": "a", "sharedgpu/gpu_request": "0.5"},
        "annotations": {"example.com/note": "x", "note": "y"},
        "ownerReferences": [
            {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "a", "controller": True}
        ],
    },
    "spec": {
        "containers": [MAIN],
        "volumes": [
            {"name": "kube-api-access-x1", "projected": {}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "more", "ephemeral": {}},
            {"name": "model", "image": {"reference": "m:1"}},
        ],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "a"}},
            }
        ],
        "resourceClaims": [{"name": "c", "resourceClaimName": "c"}],
    },
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Initialized", "status": "True"}],
        "containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
    },
}


def bound(pod: dict[str, Any], **annotations: str) -> dict[str, Any]:
    own = pod["metadata"].get("annotations", {})
    metadata = {**pod["metadata"], "annotations": {**own, **annotations}}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": "n1"}}


OURS = bound(PLAIN, **{"sharedgpu/allocation": ALLOCATION, CARDS: "GPU-n1-0", f"{OF}main": "1"})
OTHERS = bound(PLAIN, **{CARDS: "GPU-n1-0", STATE: "ok", "sharedgpu/gpu_uuid": "GPU-n1-0"})
PODS = (POD, bound(POD), LOOSE, PLAIN, bound(PLAIN), OURS, OTHERS)


def without(pod: dict[str, Any], *parts: str) -> dict[str, Any]:
    """Without parts of the spec by which a pod has nothing in common with others."""
    return {**pod, "spec": {key: part for key, part in pod["spec"].items() if key not in parts}}


EXAMPLES = (
    *PODS,
    *(without(one, "resourceClaims", "volumes") for one in PODS),
    *(without(one, "resourceClaims", "volumes", "topologySpreadConstraints") for one in PODS),
)


def alone(fields: PodFields, dialects: Dialects) -> Pod:
    """The pod, read without what is known of others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "_common_of", reading._common)
        return to_domain(fields, dialects)


@given(st.sampled_from(EXAMPLES).flatmap(lambda one: changed(one, most=2)))
def test_a_pod_is_read_as_if_it_came_alone(written: dict[str, Any]) -> None:
    """The memo is full of pods that differ from it in one or two places."""
    line = json.dumps({"type": "ADDED", "object": written}).encode(errors="replace")
    fields = CODEC.line(line).item
    if fields is None:
        return
    for dialects in (EVERY, DIALECTS, SHAREDGPU_ALONE):
        once, again = to_domain(fields, dialects), to_domain(fields, dialects)
        assert once == again == alone(fields, dialects)
        assert repr(once) == repr(alone(fields, dialects)), "1 and 1.0 are equal"


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_label_and_annotation_that_counts_is_seen(example: dict[str, Any]) -> None:
    """Each key alone, with two values: nothing of the one pod is in the other."""
    for kind in ("labels", "annotations"):
        for key in (*EVERY.every.annotations, *example["metadata"].get(kind, {}), "other"):
            for text in ("1", "0.25"):
                own = {**example["metadata"].get(kind, {}), key: text}
                written = {**example, "metadata": {**example["metadata"], kind: own}}
                fields = msgspec.json.decode(json.dumps(written), type=PodFields)
                assert to_domain(fields, EVERY) == alone(fields, EVERY), (kind, key)


@pytest.mark.parametrize("others", [0, 60, 61, 70])
def test_as_many_problems_are_named_as_for_the_pod_alone(others: int) -> None:
    labels = {f"other-{number}": "x" for number in range(others)}
    labels |= {"sharedgpu/priority": "x", "sharedgpu/gpu_request": "y", "sharedgpu/z": "1"}
    fields = PodFields(ObjectMeta(labels=labels, annotations={"note": "y"}))
    read = to_domain(fields, EVERY)
    assert read == alone(fields, EVERY)
    assert read.problem is not None
    assert bool(read.problem.others) == (others + 4 <= MAX_PROBLEM_KEYS)


def test_pods_of_one_template_share_what_they_have_in_common() -> None:
    """Names, tokens' volumes, the node and what a placement says are a pod's own."""
    first, second = (
        msgspec.json.decode(
            json.dumps(without(OURS, "resourceClaims", "topologySpreadConstraints", "containers"))
            .replace("a-0", name)
            .replace("more", name)
            .replace("ephemeral", "projected")
            .replace("kube-api-access-x1", f"kube-api-access-{name}")
            .replace("job-name", f"{name}.example.com/job"),
            type=PodFields,
        )
        for name in ("a-1", "a-2")
    )
    one, other = (reading._common_of(pod, EVERY, True) for pod in (first, second))
    assert one is other
    assert to_domain(first, EVERY).key.name == "a-1"
    assert to_domain(second, EVERY).key.name == "a-2"


def test_what_is_known_of_keys_is_bounded() -> None:
    asked = []

    def counts(key: str) -> bool:
        asked.append(key)
        return True

    known = Counting(counts)
    for number in range(MAX_KEYS + 10):
        assert known[f"key-{number}"]
    long = "k" * (MAX_LENGTH + 1)
    assert known[long] == known[long]
    assert len(known) == 10
    assert asked[-2:] == [long, long]
