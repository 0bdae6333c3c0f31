"""Pasted manifests become pods, or a sentence about what is wrong with them."""

import pytest

from kubeshare_py.dashboard import what_if

POD = b"""
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {sharedgpu/gpu_request: "0.5"}}
spec: {schedulerName: mine, containers: [{name: a, image: b}]}
"""
JOB = b"""
apiVersion: batch/v1
kind: Job
metadata: {name: many, namespace: team}
spec: {template: {spec: {containers: [{name: a, image: b}]}}}
"""


def test_pods_and_templates_are_found_and_objects_without_pods_are_named() -> None:
    found = what_if.pasted(
        b"---".join((POD, JOB, b"\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"))
    )
    assert [(one.owner, one.namespace) for one in found.templates] == [
        ("pod/one", ""), ("job/many", "team"),
    ]  # fmt: skip
    assert found.skipped == ("configmap/c",)


@pytest.mark.parametrize("text", [b"a: [", b"\xff\xfe\x00", b"a: b: c", b"&a [*a]"])
def test_what_is_no_manifest_is_refused_with_its_place(text: bytes) -> None:
    with pytest.raises(what_if.Unreadable, match="the pasted text"):
        what_if.pasted(text)


def test_only_some_pods_are_asked_about_at_once() -> None:
    with pytest.raises(what_if.Unreadable, match="at most"):
        what_if.pasted(b"---".join([POD] * (what_if.MAX_PODS + 1)))


def test_pods_of_another_scheduler_are_not_asked_about() -> None:
    assert what_if.not_asked("mine", ("mine", "other")) == ""
    assert "mine decides" in what_if.not_asked("mine", ("other",))
    assert "kube-scheduler decides" in what_if.not_asked("", ("other",))
