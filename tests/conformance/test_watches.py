"""Watches: what each watcher sees, and from when."""

import pytest

from kubeshare_py.embedded_cluster.kinds.core_v1 import CONFIG_MAPS
from kubeshare_py.embedded_cluster.protocol.rendering import Rendering
from kubeshare_py.embedded_cluster.protocol.watches import Subscription
from tests.embedded_cluster.api_client import MAPS, PODS, TABLE, Api


def labelled(api: Api, name: str, value: str) -> None:
    api.post(MAPS, {"metadata": {"name": name, "labels": {"x": value}}})


def test_changes_arrive_in_order_with_rising_versions(api: Api) -> None:
    watch = api.watch(MAPS)
    labelled(api, "a", "1")
    api.patch(f"{MAPS}/a", {"data": {"k": "v"}})
    api.delete(f"{MAPS}/a")
    events = watch.events()
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert events[0]["object"]["kind"] == "ConfigMap"


def test_a_watch_without_version_begins_with_what_is_there(api: Api) -> None:
    labelled(api, "a", "1")
    assert api.watch(MAPS).types() == ["ADDED"]


def test_a_watch_from_a_version_replays_what_came_after(api: Api) -> None:
    labelled(api, "a", "1")
    version = api.get(MAPS)["metadata"]["resourceVersion"]
    labelled(api, "b", "1")
    watch = api.watch(f"{MAPS}?resourceVersion={version}")
    labelled(api, "c", "1")
    assert [event["object"]["metadata"]["name"] for event in watch.events()] == ["b", "c"]


def test_leaving_a_selector_is_deleted_with_the_old_state_and_the_new_version(api: Api) -> None:
    labelled(api, "a", "1")
    version = api.get(MAPS)["metadata"]["resourceVersion"]
    watch = api.watch(f"{MAPS}?resourceVersion={version}&labelSelector=x=1")
    changed = api.patch(f"{MAPS}/a", {"metadata": {"labels": {"x": "2"}}})
    (gone,) = watch.events()
    assert gone["type"] == "DELETED"
    assert gone["object"]["metadata"]["labels"] == {"x": "1"}
    new_version = changed["metadata"]["resourceVersion"]
    assert gone["object"]["metadata"]["resourceVersion"] == new_version
    api.patch(f"{MAPS}/a", {"metadata": {"labels": {"x": "1"}}})
    assert watch.types() == ["ADDED"]


def test_a_bound_pod_looks_deleted_to_a_watch_of_unbound_pods(api: Api) -> None:
    watch = api.watch(f"{PODS}?fieldSelector=spec.nodeName=")
    api.pod()
    api.bind()
    added, gone = watch.events()
    assert (added["type"], gone["type"]) == ("ADDED", "DELETED")
    assert "nodeName" not in gone["object"]["spec"]
    assert "deletionTimestamp" not in gone["object"]["metadata"]


def test_even_a_pod_gone_at_once_is_first_seen_being_deleted(api: Api) -> None:
    watch = api.watch(PODS)
    api.pod()
    api.delete(f"{PODS}/p")
    _, marked, gone = watch.events()
    assert (marked["type"], gone["type"]) == ("MODIFIED", "DELETED")
    assert marked["object"]["metadata"]["deletionGracePeriodSeconds"] == 0


def test_a_kubelet_sees_only_the_pods_of_its_node(api: Api) -> None:
    mine, other = (api.watch(f"{PODS}?fieldSelector=spec.nodeName={n}") for n in ("n1", "n2"))
    api.pod()
    api.bind()
    api.delete(f"{PODS}/p")
    api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert mine.types() == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    assert other.types() == []


def test_initial_events_end_with_a_marked_bookmark(api: Api) -> None:
    labelled(api, "a", "1")
    query = "resourceVersionMatch=NotOlderThan&sendInitialEvents=true&allowWatchBookmarks=true"
    before = int(api.revision())
    added, bookmark = api.watch(f"{MAPS}?{query}").events()
    assert (added["type"], bookmark["type"]) == ("ADDED", "BOOKMARK")
    metadata = bookmark["object"]["metadata"]
    assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}
    # A real server writes its own Leases meanwhile.
    assert before <= int(metadata["resourceVersion"]) <= int(api.revision())


@pytest.mark.embedded_only("a real server forgets after minutes, not on demand")
def test_a_version_from_before_a_compaction_is_one_error_event(api: Api) -> None:
    labelled(api, "a", "1")
    version = api.get(MAPS)["metadata"]["resourceVersion"]
    labelled(api, "b", "1")
    api.compact()
    watch = api.watch(f"{MAPS}?resourceVersion={version}")
    (event,) = watch.events()
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert watch.answer.subscription.ended


@pytest.mark.embedded_only("a real server forgets after minutes, not on demand")
def test_a_fresh_list_can_be_watched_after_a_compaction(api: Api) -> None:
    labelled(api, "a", "1")
    api.compact()
    version = api.get(MAPS)["metadata"]["resourceVersion"]
    watch = api.watch(f"{MAPS}?resourceVersion={version}")
    labelled(api, "b", "1")
    assert watch.types() == ["ADDED"]


def test_a_future_version_is_silence(api: Api) -> None:
    watch = api.watch(f"{MAPS}?resourceVersion=999999999")
    assert watch.events() == []


@pytest.mark.embedded_only("it looks inside")
def test_a_closed_watch_receives_nothing_more(api: Api) -> None:
    watch = api.watch(MAPS)
    watch.answer.subscription.close()
    labelled(api, "a", "1")
    assert watch.events() == []


@pytest.mark.embedded_only("it looks inside")
def test_a_watcher_that_never_reads_is_cut(api: Api) -> None:
    store = api.service.store
    view = Rendering(resource=CONFIG_MAPS)
    subscription = Subscription(store, view, lambda _: True, limit=3)
    subscription.open()
    for name in "abcd":
        labelled(api, name, "1")
    assert subscription.ended
    assert subscription.take() == b""


def test_table_watches_send_the_columns_once(api: Api) -> None:
    watch = api.watch(PODS, TABLE)
    api.pod("p")
    api.pod("q")
    first, second = watch.events()
    assert first["object"]["columnDefinitions"][0]["name"] == "Name"
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][:3] == ["q", "0/1", "Pending"]


@pytest.mark.embedded_only("a real server sends bookmarks after a minute")
def test_a_bookmark_of_a_table_watch_has_a_row(api: Api) -> None:
    watch = api.watch(PODS, TABLE)
    watch.answer.subscription.bookmark()
    (bookmark,) = watch.events()
    assert bookmark["object"]["columnDefinitions"] is None
    assert bookmark["object"]["metadata"]["resourceVersion"] == api.revision()


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("x=1", "a"),
        ("x==1", "a"),
        ("x!=1", "bc"),
        ("x in (1,2)", "ab"),
        ("x notin (1)", "bc"),
        ("x", "ab"),
        ("!x", "c"),
        ("x,x!=2", "a"),
    ],
)
def test_label_selectors(api: Api, selector: str, names: str) -> None:
    labelled(api, "a", "1")
    labelled(api, "b", "2")
    api.post(MAPS, {"metadata": {"name": "c"}})
    found = api.get(f"{MAPS}?labelSelector={selector}")["items"]
    assert "".join(item["metadata"]["name"] for item in found) == names


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("spec.nodeName=n1", "a"),
        ("spec.nodeName=", "b"),
        ("spec.nodeName!=", "a"),
        ("status.phase!=Failed,status.phase!=Succeeded", "ab"),
        ("metadata.name=b", "b"),
        ("metadata.namespace=other", ""),
        ("spec.schedulerName=default-scheduler", "ab"),
    ],
)
def test_field_selectors_of_pods(api: Api, selector: str, names: str) -> None:
    api.pod("a")
    api.bind("a")
    api.pod("b")
    found = api.get(f"/api/v1/pods?fieldSelector={selector}")["items"]
    assert "".join(item["metadata"]["name"] for item in found) == names
