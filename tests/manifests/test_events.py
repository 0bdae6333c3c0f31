from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kubeshare_py.domain.events import (
    FinishedMember,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
)
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.manifests import node
from kubeshare_py.manifests.events import listed_pod, node_event, pod_event
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pods import pod
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.manifests.watch import ADDED, BOOKMARK, DELETED, MODIFIED, Codec
from tests.manifests.written import pod_fields

NODE = msgspec.json.decode(b'{"metadata":{"name":"n"}}', type=NodeFields)
GONE = PodGone(PodUid("u"))


@pytest.mark.parametrize("change", [ADDED, MODIFIED])
@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown"])
def test_an_unfinished_pod_is_seen(change: str, phase: str) -> None:
    fields = pod_fields(status={"phase": phase})
    assert pod_event(change, fields) == PodSeen(pod.to_domain(fields))


@pytest.mark.parametrize("change", [ADDED, MODIFIED, DELETED])
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_is_gone(change: str, phase: str) -> None:
    assert pod_event(change, pod_fields(status={"phase": phase})) == replace(GONE, stopped=True)


def test_of_a_finished_pod_its_group_and_how_it_ended_stay() -> None:
    labels = {"group_name": "g", "group_headcount": "4", "group_threshold": "0.5"}
    metadata: dict[str, Any] = {
        "labels": {f"sharedgpu/{name}": value for name, value in labels.items()},
        "ownerReferences": [{"uid": "other"}, {"uid": "job", "controller": True}],
    }
    fields = pod_fields({"nodeName": "n"}, status={"phase": "Succeeded"}, **metadata)
    member = FinishedMember(
        uid=PodUid("u"), namespace="ns", group="g", owner="job", succeeded=True, had_node=True
    )
    assert pod_event(MODIFIED, fields) == PodGone(PodUid("u"), member, stopped=True)
    assert listed_pod(fields) == member
    failed = pod_fields(status={"phase": "Failed"}, **metadata)
    gone = pod_event(MODIFIED, failed)
    assert isinstance(gone, PodGone)
    assert gone.finished is not None
    assert (gone.finished.succeeded, gone.finished.had_node) == (False, False)


def test_a_deleted_pod_is_gone_whatever_its_phase() -> None:
    assert pod_event(DELETED, pod_fields(status={"phase": "Running"})) == GONE


def test_a_pod_that_is_only_being_deleted_still_holds_what_it_holds() -> None:
    fields = pod_fields({"nodeName": "n"}, deletionTimestamp="2026-01-02T03:04:05Z")
    assert isinstance(pod_event(MODIFIED, fields), PodSeen)


def test_a_list_has_the_unfinished_pods_and_says_which_others_there_are() -> None:
    running = pod_fields(uid="1", status={"phase": "Running"})
    done = pod_fields(uid="2", status={"phase": "Succeeded"})
    assert [listed_pod(running), listed_pod(done)] == [pod.to_domain(running), "2"]


def test_nodes_come_and_go() -> None:
    assert node_event(ADDED, NODE) == NodeSeen(node.to_domain(NODE))
    assert node_event(MODIFIED, NODE) == NodeSeen(node.to_domain(NODE))
    assert node_event(DELETED, NODE) == NodeGone(NodeName("n"))


def test_bookmarks_are_no_events_although_their_objects_are_nearly_empty() -> None:
    bookmark = (
        b'{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":'
        b'{"resourceVersion":"12746","creationTimestamp":null},"spec":{"containers":null},'
        b'"status":{}}}'
    )
    line = Codec(PodFields).line(bookmark)
    assert (line.type, line.resource_version, line.problem) == (BOOKMARK, "12746", None)
    assert pod_event(BOOKMARK, pod_fields()) is None
    assert node_event(BOOKMARK, NODE) is None
