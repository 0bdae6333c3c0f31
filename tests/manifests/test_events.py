from typing import Any

import msgspec
import pytest

from kubeshare_py.domain.cluster_objects import GroupApi
from kubeshare_py.domain.events import (
    BudgetGone,
    BudgetsListed,
    Event,
    FinishedMember,
    NodeGone,
    NodeSeen,
    NodesListed,
    PodGone,
    PodGroupGone,
    PodGroupsListed,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.values import replace
from kubeshare_py.manifests import node
from kubeshare_py.manifests.events import (
    BUDGET_EVENTS,
    NODE_EVENTS,
    POD_EVENTS,
    BadAllocation,
    Translation,
    pod_group_events,
)
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pods import pod
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.manifests.watch import (
    ADDED,
    BOOKMARK,
    DELETED,
    MODIFIED,
    Changes,
    Codec,
    ListResult,
    Problem,
    WatchLine,
)
from tests.manifests.written import pod_fields

NODE = msgspec.json.decode(b'{"metadata":{"name":"n"}}', type=NodeFields)
GONE = PodGone(PodUid("u"))


def a_list(translation: Translation[Any, Any], *found: Any) -> ListResult[Any]:
    """What a watch makes of a list of these objects, and of those that cannot be decoded."""
    problems = [one for one in found if isinstance(one, Problem)]
    items = [translation.reduce(one) for one in found if not isinstance(one, Problem)]
    return ListResult(items=items, problems=problems, asked_at=7.0)


@pytest.mark.parametrize("change", [ADDED, MODIFIED])
@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown"])
def test_an_unfinished_pod_is_seen(change: str, phase: str) -> None:
    fields = pod_fields(status={"phase": phase})
    assert POD_EVENTS.event(change, fields) == PodSeen(pod.to_domain(fields))


@pytest.mark.parametrize("change", [ADDED, MODIFIED, DELETED])
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_is_gone(change: str, phase: str) -> None:
    assert POD_EVENTS.event(change, pod_fields(status={"phase": phase})) == replace(
        GONE, stopped=True
    )


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
    assert POD_EVENTS.event(MODIFIED, fields) == PodGone(PodUid("u"), member, stopped=True)
    assert POD_EVENTS.reduce(fields) == member
    failed = pod_fields(status={"phase": "Failed"}, **metadata)
    gone = POD_EVENTS.event(MODIFIED, failed)
    assert isinstance(gone, PodGone)
    assert gone.finished is not None
    assert (gone.finished.succeeded, gone.finished.had_node) == (False, False)


def test_a_deleted_pod_is_gone_whatever_its_phase() -> None:
    assert POD_EVENTS.event(DELETED, pod_fields(status={"phase": "Running"})) == GONE


def test_a_pod_that_is_only_being_deleted_still_holds_what_it_holds() -> None:
    fields = pod_fields({"nodeName": "n"}, deletionTimestamp="2026-01-02T03:04:05Z")
    assert isinstance(POD_EVENTS.event(MODIFIED, fields), PodSeen)


def test_a_list_has_the_unfinished_pods_and_says_which_others_there_are() -> None:
    labels = {"group_name": "g", "group_headcount": "4", "group_threshold": "0.5"}
    grouped = {"labels": {f"sharedgpu/{name}": value for name, value in labels.items()}}
    running = pod_fields(uid="1", status={"phase": "Running"})
    done = pod_fields(uid="2", status={"phase": "Succeeded"})
    over = pod_fields(uid="3", status={"phase": "Failed"}, **grouped)
    unreadable = Problem(text="odd", namespace="ns", name="x", uid="4")
    (problem, event) = POD_EVENTS.events(a_list(POD_EVENTS, running, done, over, unreadable))
    assert problem == unreadable
    assert isinstance(event, PodsListed)
    assert event.pods == (pod.to_domain(running),)
    assert [member.uid for member in event.finished] == ["3"]
    assert event.stopped == {"2", "3"}
    assert event.unreadable == {"4"}
    assert event.asked_at == 7.0


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, [0]), (250, [250]), (251, [250, 1]), (600, [250, 250, 100])]
)
def test_a_long_list_of_nodes_comes_in_portions_by_name(count: int, sizes: list[int]) -> None:
    names = [f"n{number:03}" for number in range(count)]
    texts = [b'{"metadata":{"name":"%s"}}' % name.encode() for name in reversed(names)]
    nodes = [msgspec.json.decode(text, type=NodeFields) for text in texts]
    problem, *events = NODE_EVENTS.events(a_list(NODE_EVENTS, *nodes, ODD))
    portions = [one for one in events if isinstance(one, NodesListed)]
    assert problem == ODD
    assert [len(one.nodes) for one in portions] == sizes
    assert [node.name for one in portions for node in one.nodes] == names
    assert [one.more for one in portions] == [True] * (len(sizes) - 1) + [False]
    assert [*frozenset().union(*(one.unreadable for one in portions))] == ["x"]


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, [0]), (250, [250]), (251, [0, 250, 1]), (600, [0, 250, 250, 100])]
)
def test_a_long_list_of_pods_comes_in_portions_the_first_of_which_names_all(
    count: int, sizes: list[int]
) -> None:
    uids = [f"u{number:03}" for number in range(count)]
    pods = [pod_fields(uid=uid, name=f"p-{uid}") for uid in uids]
    done = pod_fields(uid="done", status={"phase": "Succeeded"})
    problem, *events = POD_EVENTS.events(a_list(POD_EVENTS, *pods, done, ODD))
    portions = [one for one in events if isinstance(one, PodsListed)]
    assert problem == ODD
    assert [len(one.pods) for one in portions] == sizes
    assert [found.uid for one in portions for found in one.pods] == uids
    assert [one.more for one in portions] == [True] * (len(sizes) - 1) + [False]
    assert [one.continues for one in portions] == [False] + [True] * (len(sizes) - 1)
    assert {one.asked_at for one in portions} == {7.0}
    first, last = portions[0], portions[-1]
    assert first.to_come == ({*uids} if first.more else frozenset())
    assert [*first.unreadable] == [*last.unreadable] == ["4"]
    assert [*first.stopped] == [*last.stopped] == ["done"]


X = GroupApi.COSCHEDULING
ODD = Problem(text="odd", namespace="ns", name="x", uid="4")
NAMELESS = Problem(text="odd")
TRANSLATIONS = pytest.mark.parametrize(
    ("translation", "unreadable", "gone"),
    [
        (POD_EVENTS, PodsListed((), 7.0, frozenset({PodUid("4")})), PodGone(PodUid("4"))),
        (NODE_EVENTS, NodesListed((), frozenset({NodeName("x")})), NodeGone(NodeName("x"))),
        (
            BUDGET_EVENTS,
            BudgetsListed((), frozenset({PodKey("ns", "x")})),
            BudgetGone(PodKey("ns", "x")),
        ),
        (
            pod_group_events(X),
            PodGroupsListed(X, (), unreadable=frozenset({("ns", "x")})),
            PodGroupGone(X, "ns", "x"),
        ),
    ],
)


@TRANSLATIONS
def test_an_object_of_a_list_that_cannot_be_decoded_is_named_in_its_event(
    translation: Translation[Any, Any], unreadable: Event, gone: Event
) -> None:
    assert list(translation.events(a_list(translation, ODD))) == [ODD, unreadable]


@TRANSLATIONS
def test_a_change_of_an_object_that_cannot_be_decoded_is_no_event_and_its_deletion_is_one(
    translation: Translation[Any, Any], unreadable: Event, gone: Event
) -> None:
    lines: list[WatchLine[Any]] = [
        WatchLine(type=change, problem=ODD) for change in (ADDED, MODIFIED, DELETED)
    ]
    assert list(translation.events(Changes(changed=lines))) == [ODD, ODD, ODD, gone]


@TRANSLATIONS
def test_a_deletion_of_an_object_without_a_readable_name_is_no_event(
    translation: Translation[Any, Any], unreadable: Event, gone: Event
) -> None:
    lines: list[WatchLine[Any]] = [WatchLine(type=DELETED, problem=NAMELESS)]
    assert list(translation.events(Changes(changed=lines))) == [NAMELESS]


def test_changes_keep_their_order_and_what_cannot_be_read_is_told_among_them() -> None:
    unreadable = Problem(text="odd", name="x")
    lines = [
        WatchLine(type=ADDED, item=NODE),
        WatchLine(type=MODIFIED, problem=unreadable),
        WatchLine(type=BOOKMARK),
        WatchLine(type=DELETED, item=NODE),
    ]
    found = list(NODE_EVENTS.events(Changes(changed=lines)))
    assert found == [NodeSeen(node.to_domain(NODE)), unreadable, NodeGone(NodeName("n"))]


@pytest.mark.parametrize("is_list", [True, False])
def test_an_allocation_that_cannot_be_read_is_told_before_its_pod(is_list: bool) -> None:
    odd = pod_fields({"nodeName": "n"}, annotations={"sharedgpu/allocation": "{"})
    news = (
        a_list(POD_EVENTS, odd) if is_list else Changes(changed=[WatchLine(type=ADDED, item=odd)])
    )
    (bad, event) = POD_EVENTS.events(news)
    assert isinstance(bad, BadAllocation)
    assert (bad.key, bad.text) == (PodKey("ns", "p"), pod.to_domain(odd).allocation_problem)
    assert isinstance(event, PodsListed if is_list else PodSeen)


def test_nodes_come_and_go() -> None:
    assert NODE_EVENTS.event(ADDED, NODE) == NodeSeen(node.to_domain(NODE))
    assert NODE_EVENTS.event(MODIFIED, NODE) == NodeSeen(node.to_domain(NODE))
    assert NODE_EVENTS.event(DELETED, NODE) == NodeGone(NodeName("n"))


def test_bookmarks_are_no_events_although_their_objects_are_nearly_empty() -> None:
    bookmark = (
        b'{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":'
        b'{"resourceVersion":"12746","creationTimestamp":null},"spec":{"containers":null},'
        b'"status":{}}}'
    )
    codec = Codec(PodFields)
    line = codec.line(bookmark)
    assert (line.type, codec.version(line), line.problem) == (BOOKMARK, "12746", None)
    assert POD_EVENTS.event(BOOKMARK, pod_fields()) is None
    assert NODE_EVENTS.event(BOOKMARK, NODE) is None
