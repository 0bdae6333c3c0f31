"""Kinds that definitions make are derived from what is stored, whatever became of that."""

from tests.conformance.definitions import DEFINITIONS, WIDGETS, definition, version, widget
from tests.embedded_cluster.api_client import Api


def test_a_restored_store_serves_the_kinds_that_it_had() -> None:
    api = Api()
    before = api.service.store.backup()
    api.post(DEFINITIONS, definition())
    api.post(WIDGETS, widget())
    with_widgets = api.service.store.backup()
    api.delete(f"{DEFINITIONS}/widgets.example.com")
    api.get(WIDGETS)
    assert api.status == 404
    api.service.store.restore(with_widgets)
    assert [item["metadata"]["name"] for item in api.get(WIDGETS)["items"]] == ["w"]
    api.service.store.restore(before)
    api.get(WIDGETS)
    assert api.status == 404


def test_objects_of_versions_that_are_no_longer_served_are_deleted_with_their_namespace() -> None:
    api = Api()
    api.post(DEFINITIONS, definition())
    api.post(WIDGETS, widget())
    hidden = {"spec": {"versions": [version(served=False)]}}
    api.patch(f"{DEFINITIONS}/widgets.example.com", hidden)
    api.get(WIDGETS)
    assert api.status == 404
    api.delete("/api/v1/namespaces/fs")
    api.get("/api/v1/namespaces/fs")
    assert api.status == 404
