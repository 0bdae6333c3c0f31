"""Objects that placement depends on: how their lists and changes become events."""

import json
from typing import Any

import pytest

from kubeshare_py.domain.cluster_objects import ObjectKey, WatchedKind
from kubeshare_py.domain.events import ObjectGone, ObjectSeen, ObjectsListed
from kubeshare_py.manifests.events import WATCHED, WatchedObjects
from kubeshare_py.manifests.watch import Changes, Codec, ListResult, Problem
from tests.valid_objects import OBJECTS


def key_in(written: dict[str, Any]) -> ObjectKey:
    meta = written["metadata"]
    return ObjectKey(meta.get("namespace", ""), meta["name"])


def test_each_kind_is_followed_once_where_its_resource_is() -> None:
    assert sorted(one.kind for one in WATCHED) == sorted(WatchedKind)
    for one in WATCHED:
        assert one.path.rpartition("/")[2] == one.kind


@pytest.mark.parametrize("watched", WATCHED, ids=lambda watched: watched.kind)
def test_changes_of_an_object_are_events_of_its_kind(watched: WatchedObjects) -> None:
    written = OBJECTS[watched.kind]
    codec: Codec[Any] = Codec(watched.fields)
    lines = [
        codec.line(json.dumps({"type": change, "object": written}).encode())
        for change in ("ADDED", "DELETED")
    ]
    seen, gone = watched.translation().events(Changes(changed=lines))
    assert isinstance(seen, ObjectSeen)
    assert (seen.object.kind, seen.object.key) == (watched.kind, key_in(written))
    assert gone == ObjectGone(watched.kind, key_in(written))


@pytest.mark.parametrize("watched", WATCHED, ids=lambda watched: watched.kind)
def test_a_list_names_what_it_could_not_read(watched: WatchedObjects) -> None:
    item = watched.to_domain(
        Codec(watched.fields).page(json.dumps({"items": [OBJECTS[watched.kind]]}).encode()).items[0]
    )
    problem = Problem(namespace="ns", name="odd", uid="u", text="`$.metadata` is odd")
    result = ListResult(items=[item], problems=[problem], asked_at=1.0)
    *_, listed = watched.translation().events(result)
    odd = frozenset({ObjectKey("ns", "odd")})
    assert listed == ObjectsListed(watched.kind, (item,), unreadable=odd)
