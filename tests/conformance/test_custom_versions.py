"""Versions of a custom kind, and what a changed definition does to objects that are there."""

from tests.conformance.definitions import (
    GROUP,
    SIZED,
    WIDGET,
    WIDGETS,
    W,
    causes,
    define,
    definition,
    schema_of,
    spec_of,
    version,
    warnings,
    widget,
)
from tests.embedded_cluster.api_client import Api


def test_every_version_shows_the_fields_that_it_has(api: Api) -> None:
    text = {"type": "string"}
    old = version("v1alpha1", schema_of({"a": {**text, "default": "A"}, "old": text}))
    new = version("v1", schema_of({"a": text, "new": {**text, "default": "N"}}))
    old |= {"storage": False, "deprecated": True}
    define(api, definition(old, new))
    url = f"{GROUP}/v1alpha1/namespaces/fs/widgets"
    watch = api.watch(WIDGETS)
    created = api.post(url, {**widget(spec={"old": "x"}), "apiVersion": "example.com/v1alpha1"})
    assert (created["apiVersion"], created["spec"]) == ("example.com/v1alpha1", {"a": "A"})
    deprecated = "example.com/v1alpha1 Widget is deprecated; use example.com/v1 Widget"
    assert warnings(api) == [deprecated]
    found = api.get(W)
    assert (found["apiVersion"], found["spec"]) == ("example.com/v1", {"a": "A", "new": "N"})
    assert warnings(api) == []
    assert [event["object"]["spec"] for event in watch.events()] == [{"a": "A", "new": "N"}]
    assert api.get(f"{url}/w")["spec"] == {"a": "A"}
    assert created["metadata"]["uid"] == found["metadata"]["uid"]


def test_a_changed_definition_ends_watches_and_fills_in_new_defaults(api: Api) -> None:
    define(api, definition(version(schema=SIZED)))
    api.post(WIDGETS, widget(spec={"size": 1}))
    watch = api.watch(WIDGETS)
    watch.events()
    wider = schema_of({"size": {"type": "integer"}, "later": {"type": "string", "default": "L"}})
    api.patch(WIDGET, {"spec": {"versions": [version(schema=wider)]}})
    api.expect_eventually(
        lambda: api.get(W)["spec"], lambda spec: spec == {"size": 1, "later": "L"}
    )
    assert api.get(W)["metadata"]["generation"] == 1
    api.expect_eventually(watch.is_over, bool)


def test_what_is_invalid_may_stay_but_not_come(api: Api) -> None:
    text = {"type": "string"}
    inner = {"type": "object", "properties": {"x": text, "y": text}}
    define(api, spec_of(a=text, b=inner))
    api.post(WIDGETS, widget(spec={"a": "long", "b": {"x": "long"}}))
    short = {"type": "string", "maxLength": 2}
    inner = {"type": "object", "required": ["y"], "properties": {"x": short, "y": text}}
    narrow = version(schema=schema_of({"a": short, "b": inner}))
    api.patch(WIDGET, {"spec": {"versions": [narrow]}})
    api.expect_eventually(
        lambda: api.post(f"{WIDGETS}?dryRun=All", widget("x", {"a": "long"}))["kind"],
        lambda kind: kind == "Status",
    )
    too_long = "Too long: may not be more than 2 bytes"
    assert api.patch(W, {"metadata": {"labels": {"x": "y"}}})["kind"] == "Widget"
    assert causes(api.patch(W, {"spec": {"a": "longer"}})) == {("spec.a", too_long)}
    assert api.patch(W, {"spec": {"b": {"y": "k"}}})["kind"] == "Widget"
    change = {"spec": {"b": {"x": "longer", "y": None}}}
    assert causes(api.patch(W, change)) == {
        ("spec.b.x", too_long),
        ("spec.b.y", "Required value"),
    }


def test_what_is_there_twice_may_stay_but_not_come(api: Api) -> None:
    texts = {"type": "array", "items": {"type": "string"}}
    define(api, spec_of(l=texts))
    api.post(WIDGETS, widget(spec={"l": ["a", "a"]}))
    api.post(WIDGETS, widget("fine", {"l": ["a"]}))
    united = version(schema=schema_of({"l": {**texts, "x-kubernetes-list-type": "set"}}))
    api.patch(WIDGET, {"spec": {"versions": [united]}})
    change = {"spec": {"l": ["b", "b"]}}
    twice = {("spec.l[1]", 'Duplicate value: "b"')}
    url = f"{WIDGETS}/fine"
    api.expect_eventually(
        lambda: api.patch(f"{url}?dryRun=All", change)["kind"], lambda kind: kind == "Status"
    )
    assert causes(api.patch(url, change)) == twice
    assert api.patch(W, change)["spec"] == {"l": ["b", "b"]}
