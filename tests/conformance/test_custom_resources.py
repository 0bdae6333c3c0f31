"""Custom objects: all verbs, tables, scopes and namespaces."""

import re
from typing import Any

import pytest

from tests.conformance.definitions import (
    ANYTHING,
    GROUP,
    SIZED,
    WIDGETS,
    WITH_STATUS,
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
from tests.embedded_cluster.api_client import APPLY, JSON_PATCH, STRATEGIC, TABLE, Api


def names_of(listed: Any) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


def test_a_new_object_gets_defaults_and_loses_what_is_unknown(api: Api) -> None:
    define(api, definition(WITH_STATUS))
    body = widget(spec={"size": 1, "odd": {"deep": 1}}, status={"phase": "x"}, other=1)
    created = api.post(WIDGETS, body)
    assert (api.status, created["spec"]) == (201, {"size": 1, "color": "red"})
    assert {*created} == {"apiVersion", "kind", "metadata", "spec"}
    metadata = created["metadata"]
    assert (metadata["generation"], metadata["namespace"]) == (1, "fs")
    assert sorted(warnings(api)) == ['unknown field "other"', 'unknown field "spec.odd"']
    assert api.post(WIDGETS, widget())["reason"] == "AlreadyExists"
    made = {"generateName": "g-"}
    assert api.post(WIDGETS, widget(metadata=made))["metadata"]["name"].startswith("g-")
    dry = api.post(f"{WIDGETS}?dryRun=All", widget("dry"))
    assert dry["metadata"]["name"] not in names_of(api.get(WIDGETS))


def test_strict_requests_with_unknown_fields_are_refused(api: Api) -> None:
    define(api, spec_of(size={"type": "integer"}, l={"type": "array", "items": schema_of()}))
    body = widget(spec={"odd": 1, "l": [{"odd": 1}]}, other=1)
    body["metadata"]["odd"] = 1
    status = api.post(f"{WIDGETS}?fieldValidation=Strict", body)
    assert (api.status, status["message"]) == (
        400,
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: '
        'unknown field "metadata.odd", unknown field "other", unknown field "spec.l[0].odd", '
        'unknown field "spec.odd"',
    )
    api.post(WIDGETS, widget())
    status = api.patch(f"{W}?fieldValidation=Strict", {"spec": {"odd": 1}})
    (cause,) = status["details"]["causes"]
    assert (api.status, cause["field"]) == (422, "patch")
    assert cause["message"].endswith('strict decoding error: unknown field "spec.odd"')
    api.post(f"{WIDGETS}?fieldValidation=Ignore", widget("i", {"odd": 1}))
    assert (api.status, warnings(api)) == (201, [])


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        ({"kind": "Gadget"}, 422, "must be Widget"),
        ({"kind": ""}, 400, "the object provided is unrecognized (must be of type Widget)"),
        ({"apiVersion": "example.com/v2"}, 400, "does not match the expected API version"),
        ({"metadata": {"name": "BAD"}}, 422, "a lowercase RFC 1123 subdomain"),
        ({"metadata": {"name": "w", "labels": {"a": 1}}}, 400, "cannot unmarshal number"),
        ({"metadata": {}}, 422, "metadata.name: Required value: name or generateName is required"),
        ({"metadata": {"name": "w", "namespace": "other"}}, 400, "namespace of the provided"),
    ],
)
def test_objects_that_are_no_such_objects(
    api: Api, change: dict[str, Any], code: int, text: str
) -> None:
    define(api, definition())
    status = api.post(WIDGETS, {**widget(), **change})
    assert api.status == code
    assert text in status["message"]


def test_whole_numbers_nulls_and_preserved_parts_are_kept_as_they_are(api: Api) -> None:
    any_part = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    define(
        api,
        spec_of(
            n={"type": "integer"},
            null={"type": "string", "nullable": True},
            plain={"type": "string"},
            filled={"type": "string", "default": "x"},
            any=any_part,
        ),
    )
    anything: dict[str, Any] = {"a": None, "b": [], "c": {"d": ""}}
    sent = {"n": 2.0, "null": None, "plain": None, "filled": None, "any": anything}
    created = api.post(WIDGETS, widget(spec=sent))
    assert created["spec"] == {"n": 2, "null": None, "filled": "x", "any": anything}


def test_objects_without_a_schema_keep_everything(api: Api) -> None:
    define(api, definition(version(schema=ANYTHING)))
    sent = {"spec": None, "status": {"a": 1}, "other": [1, {"b": None}]}
    created = api.post(WIDGETS, {**widget(), **sent})
    assert {key: created[key] for key in sent} == sent


def test_lists_have_pages_kinds_and_selectors(api: Api) -> None:
    fields = [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]
    define(api, definition(version(schema=SIZED, selectableFields=fields)))
    for number, name in enumerate(("a", "b", "c")):
        body = widget(name, {"size": number, "color": "red" if number else "blue"})
        body["metadata"]["labels"] = {"n": str(number)}
        api.post(WIDGETS, body)
    page = api.get(f"{WIDGETS}?limit=2")
    assert (page["kind"], page["apiVersion"], names_of(page)) == (
        "WidgetList",
        "example.com/v1",
        ["a", "b"],
    )
    assert {(one["kind"], one["apiVersion"]) for one in page["items"]} == {
        ("Widget", "example.com/v1")
    }
    assert page["metadata"]["remainingItemCount"] == 1
    more = api.get(f"{WIDGETS}?limit=2&continue={page['metadata']['continue']}")
    assert names_of(more) == ["c"]
    for query, found in (
        ("labelSelector=n in (1,2)", ["b", "c"]),
        ("fieldSelector=metadata.name=b", ["b"]),
        ("fieldSelector=metadata.namespace!=fs", []),
        ("fieldSelector=spec.color=red,spec.size=1", ["b"]),
        ("fieldSelector=spec.color!=red", ["a"]),
    ):
        assert names_of(api.get(f"{WIDGETS}?{query}")) == found, query
    assert names_of(api.get(f"{GROUP}/v1/widgets")) == ["a", "b", "c"]
    status = api.get(f"{WIDGETS}?fieldSelector=spec.other=1")
    assert (api.status, status["message"]) == (400, "field label not supported: spec.other")


def test_watches_see_what_the_selector_matches(api: Api) -> None:
    fields = [{"jsonPath": ".spec.color"}]
    define(api, definition(version(schema=SIZED, selectableFields=fields)))
    watch = api.watch(f"{WIDGETS}?fieldSelector=spec.color=red")
    api.post(WIDGETS, widget("a", {"color": "blue"}))
    api.post(WIDGETS, widget("b"))
    api.patch(f"{WIDGETS}/a", {"spec": {"color": "red"}})
    api.patch(f"{WIDGETS}/b", {"spec": {"color": "blue"}})
    api.delete(f"{WIDGETS}/a")
    seen = [(event["type"], event["object"]["metadata"]["name"]) for event in watch.events()]
    assert seen == [("ADDED", "b"), ("ADDED", "a"), ("DELETED", "b"), ("DELETED", "a")]


def test_patches_of_three_kinds_and_no_strategic_ones(api: Api) -> None:
    define(api, definition(WITH_STATUS))
    api.post(WIDGETS, widget(spec={"size": 1}))
    assert api.patch(W, {"spec": {"size": 2, "color": None}})["spec"] == {
        "size": 2,
        "color": "red",
    }
    change = [{"op": "replace", "path": "/spec/size", "value": 3}]
    assert api.patch(W, change, JSON_PATCH)["metadata"]["generation"] == 3
    same = api.patch(W, {"spec": {"size": 3}})["metadata"]
    assert (same["generation"], same["resourceVersion"]) == (
        3,
        api.get(W)["metadata"]["resourceVersion"],
    )
    labelled = api.patch(W, {"metadata": {"labels": {"a": "b"}}})["metadata"]
    assert (labelled["generation"], labelled["labels"]) == (3, {"a": "b"})
    status = api.patch(W, {"spec": {"size": 4}}, STRATEGIC)
    assert (api.status, status["message"]) == (
        415,
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
    )
    api.patch(W, [{"op": "test", "path": "/spec/size", "value": 9}], JSON_PATCH)
    assert api.status == 422


def test_a_put_needs_the_version_that_it_changes(api: Api) -> None:
    define(api, definition(WITH_STATUS))
    created = api.post(WIDGETS, widget(spec={"size": 1}))
    status = api.put(W, widget(spec={"size": 2}))
    assert causes(status) == {
        ("metadata.resourceVersion", "Invalid value: 0: must be specified for an update")
    }
    assert status["details"]["kind"] == "widgets"
    created["spec"]["size"] = 5
    assert api.put(W, created)["metadata"]["generation"] == 2
    assert api.put(W, created)["reason"] == "Conflict"
    assert api.put(f"{WIDGETS}/new", widget("new"))["reason"] == "NotFound"


def test_server_side_apply_merges_by_the_schema(api: Api) -> None:
    entry = {
        "type": "object",
        "required": ["key"],
        "properties": {"key": {"type": "string"}, "value": {"type": "integer"}},
    }
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"]}
    define(
        api,
        spec_of(
            keyed={"type": "array", "items": entry, **keyed},
            united={
                "type": "array",
                "items": {"type": "string"},
                "x-kubernetes-list-type": "set",
            },
            plain={"type": "array", "items": {"type": "string"}},
            map={"type": "object", "additionalProperties": {"type": "string"}},
        ),
    )

    def apply(who: str, spec: Any) -> Any:
        return api.patch(f"{W}?fieldManager={who}&force=true", widget(spec=spec), APPLY)

    first = {
        "keyed": [{"key": "a", "value": 1}],
        "united": ["a"],
        "plain": ["a"],
        "map": {"a": "1"},
    }
    assert apply("me", first)["spec"] == first
    assert api.status == 201
    second = apply(
        "you", {"keyed": [{"key": "b"}], "united": ["b"], "plain": ["b"], "map": {"b": "2"}}
    )
    assert (api.status, second["spec"]) == (
        200,
        {
            "keyed": [{"key": "a", "value": 1}, {"key": "b"}],
            "united": ["a", "b"],
            "plain": ["b"],
            "map": {"a": "1", "b": "2"},
        },
    )
    changed = apply("you", {"keyed": [{"key": "a", "value": 2}, {"key": "b"}]})
    assert changed["spec"]["keyed"] == [{"key": "a", "value": 2}, {"key": "b"}]
    status = apply("me", {"odd": 1})
    assert (api.status, status["message"].partition(": ")[2]) == (
        500,
        ".spec.odd: field not declared in schema",
    )
    nameless = {"metadata": {"name": "w"}, "spec": {}}
    status = api.patch(f"{W}?fieldManager=me", nameless, APPLY)
    assert (api.status, status["message"]) == (400, "invalid object type: /, Kind=")


def test_objects_are_deleted_one_by_one_by_selector_and_when_nobody_holds_them(api: Api) -> None:
    define(api, definition())
    for name in ("a", "b", "c"):
        body = widget(name)
        body["metadata"]["labels"] = {"name": name}
        uid = api.post(WIDGETS, body)["metadata"]["uid"]
    gone = api.delete(f"{WIDGETS}/c")
    assert (gone["status"], gone["details"]) == (
        "Success",
        {"name": "c", "group": "example.com", "kind": "widgets", "uid": uid},
    )
    assert names_of(api.delete(f"{WIDGETS}?labelSelector=name=a")) == ["a"]
    assert names_of(api.get(WIDGETS)) == ["b"]
    missing = api.get(f"{WIDGETS}/a")
    assert missing["message"] == 'widgets.example.com "a" not found'
    api.post(WIDGETS, widget(metadata={"name": "held", "finalizers": ["example.com/hold"]}))
    watch = api.watch(f"{WIDGETS}?fieldSelector=metadata.name=held")
    watch.events()
    held = api.delete(f"{WIDGETS}/held")
    assert (held["kind"], held["metadata"]["generation"]) == ("Widget", 2)
    api.patch(f"{WIDGETS}/held", {"metadata": {"finalizers": None}})
    assert watch.types() == ["MODIFIED", "DELETED"]


def test_kinds_of_the_cluster_have_no_namespace(api: Api) -> None:
    url = f"{GROUP}/v1/widgets"
    define(api, definition(scope="Cluster"), url)
    created = api.post(url, widget(metadata={"name": "w", "namespace": "fs"}))
    assert (api.status, created["metadata"].get("namespace")) == (201, None)
    api.get(WIDGETS)
    assert (api.status, api.answer.body) == (404, b"404 page not found\n")
    api.get(f"{url}?fieldSelector=metadata.namespace=fs")
    assert api.status == 400


def test_what_is_not_served_is_a_page_that_is_not_found(api: Api) -> None:
    define(api, definition())
    for url in (f"{GROUP}/v1/gadgets", f"{GROUP}/v2/widgets", f"{GROUP}/v2"):
        assert api.get(url) == "404 page not found\n"
    api.post(f"{GROUP}/v1/widgets", widget())
    assert api.status == 404
    api.post(WIDGETS, widget())
    assert api.get(f"{W}/other")["details"]["name"] == "w"
    api.post(f"{W}/other", {})
    assert api.status == 404


def test_tables_have_the_declared_columns(api: Api) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Part", "type": "number", "jsonPath": ".spec.part"},
        {"name": "Flag", "type": "boolean", "jsonPath": ".spec.flag", "priority": 1},
        {"name": "Keys", "type": "string", "jsonPath": ".spec.list[*].key", "description": "d"},
        {"name": "Ready", "type": "string", "jsonPath": '.spec.list[?(@.key=="b")].value'},
        {"name": "Whole", "type": "string", "jsonPath": ".spec.list[0]"},
        {"name": "Label", "type": "string", "jsonPath": r".metadata.labels.a\.b/c"},
        {"name": "Wrong", "type": "integer", "jsonPath": ".metadata.name"},
        {"name": "None", "type": "string", "jsonPath": ".spec.none"},
        {"name": "Null", "type": "string", "jsonPath": ".spec.null"},
        {"name": "Nought", "type": "integer", "jsonPath": ".spec.null"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    define(api, definition(version(additionalPrinterColumns=columns)))
    listed = [{"key": "a", "value": 1}, {"key": "b", "value": "yes"}]
    body = widget(spec={"size": 3, "part": 1.5, "flag": True, "list": listed, "null": None})
    body["metadata"]["labels"] = {"a.b/c": "x"}
    api.post(WIDGETS, body)
    table = api.get(WIDGETS, TABLE)
    first, *others = table["columnDefinitions"]
    assert first["name"] == "Name"
    assert [column["priority"] for column in others] == [0, 0, 1, *[0] * 9]
    assert others[3]["description"] == "d"
    generic = "Custom resource definition column (in JSONPath format): .spec.size"
    assert others[0]["description"] == generic
    *cells, age = table["rows"][0]["cells"]
    whole = '{"key":"a","value":1}'
    assert cells == ["w", 3, 1.5, True, "a", "yes", whole, "x", None, None, "<no value>", None]
    assert re.fullmatch(r"\d+s", age)


def test_tables_without_columns_have_the_age(api: Api) -> None:
    define(api, definition())
    api.post(WIDGETS, widget())
    table = api.get(f"{WIDGETS}?includeObject=None", TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]
    assert table["columnDefinitions"][1]["type"] == "date"
    assert re.fullmatch(r"\d+s", table["rows"][0]["cells"][1])
    partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    assert api.get(WIDGETS, partial)["items"][0]["kind"] == "PartialObjectMetadata"


def test_a_namespace_takes_its_custom_objects_along(api: Api) -> None:
    define(api, definition())
    url = f"{GROUP}/v1/namespaces/going/widgets"
    assert api.post(url, widget())["reason"] == "NotFound"
    api.post("/api/v1/namespaces", {"metadata": {"name": "going"}})
    api.post(url, widget())
    api.delete("/api/v1/namespaces/going")
    api.expect_eventually(
        lambda: (api.get(f"{url}/w"), api.status)[1], lambda status: status == 404
    )
    api.expect_eventually(
        lambda: api.get("/api/v1/namespaces/going")["kind"], lambda kind: kind == "Status"
    )


@pytest.mark.embedded_only("a real server evaluates them")
def test_expressions_refuse_nothing(api: Api) -> None:
    rule = {"rule": "self.size > 1", "message": "too small"}
    spec = {**SIZED["properties"]["spec"], "x-kubernetes-validations": [rule]}
    schema = {"type": "object", "properties": {"spec": spec}}
    created = define(api, definition(version(schema=schema)))
    kept = created["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert kept["x-kubernetes-validations"] == [rule]
    assert api.post(WIDGETS, widget(spec={"size": 0}))["kind"] == "Widget"
