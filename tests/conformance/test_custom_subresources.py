"""Status and scale of custom objects."""

from typing import Any

from tests.conformance.definitions import (
    SIZED,
    WIDGETS,
    WITH_SCALE,
    WITH_STATUS,
    W,
    causes,
    define,
    definition,
    version,
    widget,
)
from tests.embedded_cluster.api_client import JSON_PATCH, STRATEGIC, Api


def test_the_status_changes_through_its_own_url_and_nothing_else_does(api: Api) -> None:
    define(api, definition(WITH_STATUS))
    api.post(WIDGETS, widget(spec={"size": 1}))
    before = api.get(W)
    ignored = api.patch(W, {"status": {"phase": "x"}})
    assert ignored["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    change = {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 9}, "status": {"phase": "y"}}
    changed = api.patch(f"{W}/status", change)
    assert changed["status"] == {"phase": "y"}
    assert changed["spec"] == before["spec"]
    assert changed["metadata"]["generation"] == 1
    assert "labels" not in changed["metadata"]
    status = api.patch(f"{W}/status", {"status": {"phase": 1}})
    message = 'Invalid value: "integer": phase in body must be of type string: "integer"'
    assert causes(status) == {("status.phase", message)}
    assert api.put(f"{W}/status", {**changed, "status": {}})["status"] == {}
    assert api.get(f"{W}/status")["kind"] == "Widget"


def test_without_that_url_the_status_is_a_field_as_any_other(api: Api) -> None:
    define(api, definition(version(schema=SIZED)))
    created = api.post(WIDGETS, widget(status={"phase": "x"}))
    assert created["status"] == {"phase": "x"}
    assert api.patch(W, {"status": {"phase": "y"}})["metadata"]["generation"] == 2
    status = api.patch(f"{W}/status", {"status": {}})
    assert (api.status, status["details"]) == (
        404,
        {"name": "w", "group": "example.com", "kind": "widgets"},
    )


def test_scale_shows_and_changes_the_replicas(api: Api) -> None:
    define(api, definition(WITH_SCALE))
    api.post(WIDGETS, widget())
    status = api.get(f"{W}/scale")
    assert (api.status, status["message"]) == (
        500,
        'Internal error occurred: the spec replicas field ".spec.size" does not exist',
    )
    scale = api.patch(f"{W}/scale", {"spec": {"replicas": 3}})
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 3}, {"replicas": 0})
    api.patch(f"{W}/status", {"status": {"replicas": 2, "selector": "a=b"}})
    put: dict[str, Any] = {"metadata": {"name": "w", "namespace": "fs"}, "spec": {"replicas": 5}}
    scale = api.put(f"{W}/scale", put)
    assert (scale["spec"], scale["status"]) == (
        {"replicas": 5},
        {"replicas": 2, "selector": "a=b"},
    )
    found = api.get(W)
    assert (found["spec"]["size"], found["metadata"]["generation"]) == (5, 3)
    assert scale["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
    change = [{"op": "replace", "path": "/spec/replicas", "value": 0}]
    assert api.patch(f"{W}/scale", change, JSON_PATCH)["spec"] == {}
    api.post(WIDGETS, widget("wrong", {"size": -1}))
    assert api.status == 422
    put["spec"]["replicas"] = -1
    text = "Invalid value: -1: should be a non-negative integer"
    assert causes(api.put(f"{W}/scale", put)) == {(".spec.size", text)}
    stale = {"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 1}}
    assert api.patch(f"{W}/scale", stale)["reason"] == "Conflict"
    api.patch(f"{W}/scale", {"spec": {"replicas": 1}}, STRATEGIC)
    assert api.status == 415
    api.patch(W, {"spec": {"size": -2}})
    assert api.status == 422
