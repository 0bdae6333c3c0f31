"""CustomResourceDefinitions: what they must say, what becomes of them."""

from functools import partial
from typing import Any

import pytest

from tests.conformance.definitions import (
    DEFINITIONS,
    GROUP,
    WIDGETS,
    conditions,
    define,
    definition,
    established,
    schema_of,
    version,
    warnings,
    widget,
)
from tests.embedded_cluster.api_client import APPLY, JSON_PATCH, MERGE, STRATEGIC, TABLE, Api

WIDGET = f"{DEFINITIONS}/widgets.example.com"
SCHEMA = "spec.validation.openAPIV3Schema"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def schema(**properties: Any) -> dict[str, Any]:
    """A definition whose only version has these properties."""
    return definition(version(schema={"type": "object", "properties": properties}))


def renamed(**names: Any) -> dict[str, Any]:
    return definition(names=names)


def scaled(**paths: str) -> dict[str, Any]:
    return definition(version(subresources={"scale": paths}))


def printed(**column: Any) -> dict[str, Any]:
    return definition(version(additionalPrinterColumns=[column]))


def selectable(*paths: str) -> dict[str, Any]:
    fields = [{"jsonPath": path} for path in paths]
    spec = {"a": {"type": "string"}, "o": {"type": "object"}}
    return definition(version(schema=schema_of(spec), selectableFields=fields))


def listed(**entries: Any) -> dict[str, Any]:
    """A definition with a list of objects that have the field a."""
    items = {"type": "object", "properties": {"a": {"type": "string"}}}
    return schema(l={"type": "array", "items": items, **entries})


def test_a_new_definition_gets_the_names_that_it_left_out(api: Api) -> None:
    created = api.post(DEFINITIONS, definition())
    names, spec = created["spec"]["names"], created["spec"]
    assert (names["singular"], names["listKind"]) == ("widget", "WidgetList")
    assert spec["conversion"] == {"strategy": "None"}
    assert created["metadata"]["generation"] == 1
    assert created["status"] == {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": ["v1"],
    }


def test_its_names_are_accepted_and_its_kind_is_established(api: Api) -> None:
    watch = api.watch(DEFINITIONS)
    api.post(DEFINITIONS, definition(names={"shortNames": ["wd"]}))
    established(api, "widgets.example.com")
    seen = [(event["type"], conditions(event["object"])) for event in watch.events()]
    assert seen == [
        ("ADDED", {}),
        ("MODIFIED", {"NamesAccepted": "True", "Established": "False"}),
        ("MODIFIED", {"NamesAccepted": "True", "Established": "True"}),
    ]
    found = api.get(WIDGET)
    assert found["status"]["acceptedNames"] == found["spec"]["names"]
    reasons = {one["type"]: one["reason"] for one in found["status"]["conditions"]}
    assert reasons == {"NamesAccepted": "NoConflicts", "Established": "InitialNamesAccepted"}


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        (
            {**definition(), "metadata": {"name": "x.example.com"}},
            "metadata.name",
            'Invalid value: "x.example.com": must be spec.names.plural+"."+spec.group',
        ),
        (
            {**definition(group="example"), "metadata": {"name": "widgets.example"}},
            "spec.group",
            'Invalid value: "example": should be a domain with at least one dot',
        ),
        (
            definition(scope="Global"),
            "spec.scope",
            'Unsupported value: "Global": supported values: "Cluster", "Namespaced"',
        ),
        (definition(scope=""), "spec.scope", "Required value"),
        (
            definition({**version(), "schema": None}),
            "spec.versions[0].schema.openAPIV3Schema",
            "Required value",
        ),
        (
            renamed(listKind="Widget"),
            "spec.names.listKind",
            "kind and listKind may not be the same",
        ),
        (renamed(shortNames=["W"]), "spec.names.shortNames[0]", "a DNS-1035 label must consist"),
        (definition(version("V1")), "spec.versions[0].name", "a DNS-1035 label must consist"),
        (
            definition(version("v1"), version("v2")),
            "spec.versions",
            "must have exactly one version marked as storage version",
        ),
        (
            definition(version(), {**version(), "storage": False}),
            "spec.versions",
            "must contain unique version names",
        ),
        (
            definition(version(deprecationWarning="x")),
            "spec.versions[0].deprecationWarning",
            "can only be set for deprecated versions",
        ),
        (
            definition(version(schema={"type": "string"})),
            f"{SCHEMA}.type",
            'Invalid value: "string": must be object at the root',
        ),
        (
            schema(a={"properties": {}}),
            f"{SCHEMA}.properties[a].type",
            "Required value: must not be empty for specified object fields",
        ),
        (
            schema(a={"type": "array"}),
            f"{SCHEMA}.properties[a].items",
            "Required value: must be specified",
        ),
        (
            schema(a={"type": "map"}),
            f"{SCHEMA}.properties[a].type",
            'Unsupported value: "map": supported values: "array", "boolean", "integer", "number"',
        ),
        (
            schema(a={"type": "string", "anyOf": [{"type": "string"}]}),
            f"{SCHEMA}.properties[a].anyOf[0].type",
            "Forbidden: must be empty to be structural",
        ),
        (
            definition(version(schema={"type": "object", "anyOf": [{"properties": {"b": {}}}]})),
            f"{SCHEMA}.properties[b]",
            f"Required value: because it is defined in {SCHEMA}.anyOf[0].properties[b]",
        ),
        (
            schema(a={"type": "string", "$ref": "#/x"}),
            f"{SCHEMA}.properties[a].$ref",
            "Forbidden: $ref is not supported",
        ),
        (
            schema(a={"type": "array", "items": [{"type": "string"}]}),
            f"{SCHEMA}.properties[a].items",
            "Forbidden: items must be a schema object and not an array",
        ),
        (
            schema(
                a={
                    "type": "object",
                    "properties": {"b": {"type": "string"}},
                    "additionalProperties": {"type": "string"},
                }
            ),
            f"{SCHEMA}.properties[a].additionalProperties",
            "Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            schema(a={"type": "string", "pattern": "("}),
            f"{SCHEMA}.properties[a].pattern",
            'Invalid value: "(": must be a valid regular expression, but isn\'t: ',
        ),
        (
            schema(a={"type": "string", "default": 5}),
            f"{SCHEMA}.properties[a].default",
            'Invalid value: "integer":  in body must be of type string: "integer"',
        ),
        (
            schema(a={"type": "object", "default": {"b": 1}}),
            f"{SCHEMA}.properties[a].default",
            'Invalid value: {"b":1}: must not have unknown fields',
        ),
        (
            schema(metadata={"type": "object", "properties": {"labels": {"type": "object"}}}),
            f"{SCHEMA}.properties[metadata]",
            "Forbidden: must not specify anything other than name and generateName, but metadata",
        ),
        (
            listed(**{"x-kubernetes-list-type": "map"}),
            f"{SCHEMA}.properties[l].x-kubernetes-list-map-keys",
            "Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            listed(**{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
            f"{SCHEMA}.properties[l].items.properties[a].default",
            "Required value: this property is in x-kubernetes-list-map-keys, so it must have a",
        ),
        (
            listed(**{"x-kubernetes-list-type": "bag"}),
            f"{SCHEMA}.properties[l].x-kubernetes-list-type",
            'Unsupported value: "bag": supported values: "atomic", "set", "map"',
        ),
        (
            listed(**{"x-kubernetes-list-type": "set"}),
            f"{SCHEMA}.properties[l].items.x-kubernetes-map-type",
            "must be atomic as item of a list with x-kubernetes-list-type=set",
        ),
        (
            scaled(specReplicasPath=".replicas", statusReplicasPath=".status.replicas"),
            "spec.subresources.scale.specReplicasPath",
            'Invalid value: ".replicas": should be a json path under .spec',
        ),
        (
            printed(name="A", type="text", jsonPath=".a"),
            "spec.additionalPrinterColumns[0].type",
            'Invalid value: "text": must be one of boolean,date,integer,number,string',
        ),
        (
            printed(name="A", type="string", jsonPath="a"),
            "spec.additionalPrinterColumns[0].JSONPath",
            'Invalid value: "a": must be a simple json path starting with .',
        ),
        (
            selectable(".spec.b"),
            "spec.selectableFields[0].jsonPath",
            'Invalid value: ".spec.b": is an invalid path: does not refer to a valid field',
        ),
        (
            selectable(".spec.o"),
            "spec.selectableFields[0].jsonPath",
            "must point to a field of type string, boolean or integer.",
        ),
        (
            selectable(".spec.a", ".spec.a"),
            "spec.selectableFields[1].jsonPath",
            'Duplicate value: ".spec.a"',
        ),
        (
            definition(conversion={"strategy": "Other"}),
            "spec.conversion.strategy",
            'Unsupported value: "Other": supported values: "None", "Webhook"',
        ),
        (
            definition(preserveUnknownFields=True),
            "spec.preserveUnknownFields",
            "Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields",
        ),
        (
            {**definition(group="x.k8s.io"), "metadata": {"name": "widgets.x.k8s.io"}},
            "metadata.annotations[api-approved.kubernetes.io]",
            "Required value: protected groups must have approval annotation",
        ),
    ],
)
def test_definitions_that_are_refused(api: Api, body: Any, field: str, message: str) -> None:
    status = api.post(f"{DEFINITIONS}?dryRun=All", body)
    assert api.status == 422, status
    found = [one["message"] for one in status["details"]["causes"] if one["field"] == field]
    assert any(message in text for text in found), status["message"]


@pytest.mark.parametrize("body", [definition(), schema(a={"x-kubernetes-int-or-string": True})])
def test_definitions_that_are_not(api: Api, body: Any) -> None:
    assert api.post(f"{DEFINITIONS}?dryRun=All", body)["kind"] == "CustomResourceDefinition"


def test_empty_and_false_values_stay_where_they_mean_something(api: Api) -> None:
    fields = {
        "s": {"type": "string", "default": "", "enum": ["", "a"]},
        "i": {"type": "integer", "default": 0, "minimum": 0},
        "b": {"type": "boolean", "default": False, "nullable": True},
        "o": {"type": "object", "default": {}, "additionalProperties": {"type": "string"}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    created = api.post(f"{DEFINITIONS}?dryRun=All", schema(**fields))
    found = created["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert found["properties"] == fields


def test_unknown_fields_are_reported_but_for_schemas_in_lists_and_maps(api: Api) -> None:
    body = schema(
        a={"type": "string", "odd": 1},
        l={"type": "array", "items": {"type": "string", "odd": 1}},
        m={"type": "object", "additionalProperties": {"type": "string", "odd": 1}},
    )
    body["spec"]["odd"] = 1
    status = api.post(f"{DEFINITIONS}?fieldValidation=Strict", body)
    where = "spec.versions[0].schema.openAPIV3Schema"
    assert api.status == 400
    assert {*status["message"].partition("strict decoding error: ")[2].split(", ")} == {
        'unknown field "spec.odd"',
        f'unknown field "{where}.properties.a.odd"',
    }
    created = api.post(f"{DEFINITIONS}?dryRun=All", body)
    assert len(warnings(api)) == 2
    assert "odd" not in str(created["spec"])


def test_names_that_another_definition_has_are_not_given_twice(api: Api) -> None:
    define(api, definition(names={"shortNames": ["wd"]}))
    api.post(DEFINITIONS, definition(kind="Thing", names={"shortNames": ["wd"]}))
    url = f"{DEFINITIONS}/things.example.com"
    api.expect_eventually(lambda: api.get(url), lambda found: bool(conditions(found)))
    found = api.get(url)
    assert conditions(found) == {"NamesAccepted": "False", "Established": "False"}
    reasons = {(one["reason"], one["message"]) for one in found["status"]["conditions"]}
    assert reasons == {
        ("ShortNamesConflict", '"wd" is already in use'),
        ("NotAccepted", "not all names are accepted"),
    }
    assert "shortNames" not in found["status"]["acceptedNames"]
    api.get(f"{GROUP}/v1/namespaces/fs/things")
    assert api.status == 404
    api.delete(WIDGET)
    established(api, "things.example.com")


def test_a_kind_that_another_definition_has_is_not_given_twice_either(api: Api) -> None:
    define(api, definition())
    body = definition(kind="Gadget", names={"kind": "Widget", "categories": ["all"]})
    api.post(DEFINITIONS, body)
    url = f"{DEFINITIONS}/gadgets.example.com"
    api.expect_eventually(lambda: api.get(url), lambda found: bool(conditions(found)))
    found = api.get(url)["status"]
    assert {one["message"] for one in found["conditions"]} == {
        '"WidgetList" is already in use',
        "not all names are accepted",
    }
    names = {"plural": "gadgets", "kind": "", "categories": ["all"]}
    assert found["acceptedNames"] == names


def test_a_kind_that_is_established_keeps_its_names_and_its_scope(api: Api) -> None:
    define(api, definition())
    change = {"group": "e.f", "scope": "Cluster", "names": {"plural": "x", "kind": "X"}}
    status = api.patch(WIDGET, {"spec": change})
    fixed = [one["field"] for one in status["details"]["causes"] if "immutable" in one["message"]]
    assert fixed == ["spec.scope", "spec.names.kind", "spec.group", "spec.names.plural"]


def test_versions_that_objects_were_stored_in_are_remembered(api: Api) -> None:
    define(api, definition(version("v1"), version("v2", storage=False)))
    turn = [
        {"op": "replace", "path": "/spec/versions/0/storage", "value": False},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": True},
    ]
    changed = api.patch(WIDGET, turn, JSON_PATCH)
    assert changed["status"]["storedVersions"] == ["v1", "v2"]
    assert changed["metadata"]["generation"] == 2
    status = api.patch(WIDGET, {"spec": {"versions": [version("v2")]}})
    (cause,) = status["details"]["causes"]
    assert cause["field"] == "status.storedVersions[0]"
    assert cause["message"].startswith('Invalid value: "v1": missing from spec.versions; v1 was')
    api.patch(f"{WIDGET}/status", {"status": {"storedVersions": ["v2"]}})
    api.patch(WIDGET, {"spec": {"versions": [version("v2")]}})
    assert api.status == 200


def test_definitions_change_in_every_way(api: Api) -> None:
    body = definition()
    assert api.patch(f"{WIDGET}?fieldManager=me", body, APPLY)["kind"] == body["kind"]
    assert api.status == 201
    established(api, "widgets.example.com")
    for number, kind in enumerate((MERGE, STRATEGIC, APPLY)):
        head = {key: body[key] for key in ("apiVersion", "kind")}
        change = {**head, "metadata": {"name": "widgets.example.com", "labels": {"n": str(number)}}}
        query = "fieldManager=me"
        if kind == APPLY:
            change["spec"] = body["spec"]
            query += "&force=true"
        changed = api.patch(f"{WIDGET}?{query}", change, kind)
        assert changed["metadata"]["labels"] == {"n": str(number)}
    assert changed["metadata"]["generation"] == 1
    status = api.put(WIDGET, body)
    assert (api.status, status["details"]["causes"][0]["field"]) == (
        422,
        "metadata.resourceVersion",
    )
    changed["spec"]["names"]["categories"] = ["all"]
    assert api.put(WIDGET, changed)["metadata"]["generation"] == 2
    api.expect_eventually(
        lambda: api.get(WIDGET)["status"]["acceptedNames"].get("categories"),
        lambda categories: categories == ["all"],
    )


def test_definitions_in_tables_say_when_they_were_made(api: Api) -> None:
    created = api.post(DEFINITIONS, definition())
    table = api.get(DEFINITIONS, TABLE)
    columns = [(column["name"], column["type"]) for column in table["columnDefinitions"]]
    assert columns == [("Name", "string"), ("Created At", "date")]
    made = created["metadata"]["creationTimestamp"]
    assert [row["cells"] for row in table["rows"]] == [["widgets.example.com", made]]


def test_a_definition_that_is_deleted_takes_its_objects_along(api: Api) -> None:
    define(api, definition())
    api.post(WIDGETS, widget())
    watch, definitions = api.watch(WIDGETS), api.watch(DEFINITIONS)
    watch.events(), definitions.events()
    deleted = api.delete(WIDGET)
    assert deleted["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert deleted["metadata"]["generation"] == 1
    assert conditions(deleted)["Terminating"] == "True"
    api.expect_eventually(lambda: (api.get(WIDGET), api.status)[1], lambda status: status == 404)
    assert [(one["type"], one["object"]["metadata"]["name"]) for one in watch.events()] == [
        ("DELETED", "w")
    ]
    assert definitions.events()[-1]["type"] == "DELETED"
    for url in (WIDGETS, f"{GROUP}/v1", GROUP):
        answered = partial(api.get, url)
        api.expect_eventually(answered, lambda answer: answer == "404 page not found\n")
    assert "example.com" not in {group["name"] for group in api.get("/apis")["groups"]}


def test_it_waits_for_objects_that_somebody_holds(api: Api) -> None:
    define(api, definition())
    api.post(WIDGETS, widget(metadata={"name": "held", "finalizers": ["example.com/hold"]}))
    api.delete(WIDGET)
    held = f"{WIDGETS}/held"
    api.expect_eventually(
        lambda: api.get(held), lambda found: "deletionTimestamp" in found["metadata"]
    )
    assert conditions(api.get(WIDGET))["Terminating"] == "True"
    status = api.post(WIDGETS, widget("new"))
    assert (api.status, status["message"]) == (
        403,
        'widgets.example.com "new" is forbidden: create not allowed while custom resource '
        "definition is terminating",
    )
    assert "object is being deleted" in api.post(DEFINITIONS, definition())["message"]
    api.expect_eventually(
        lambda: api.get(f"{GROUP}/v1")["resources"][0]["verbs"],
        lambda verbs: {*verbs} == {"delete", "deletecollection", "get", "list", "watch"},
    )
    api.patch(held, {"metadata": {"finalizers": None}})
    api.expect_eventually(lambda: (api.get(WIDGET), api.status)[1], lambda status: status == 404)


def test_the_versions_of_a_group_are_in_the_order_of_their_rank(api: Api) -> None:
    names = ("v1alpha1", "v2beta1", "v1", "v10", "v3", "foo1")
    versions = [version(name, storage=name == "v1", served=name != "v3") for name in names]
    define(api, definition(*versions))
    ranked = ["v10", "v1", "v2beta1", "v1alpha1", "foo1"]
    url = f"{GROUP}/v10/namespaces/fs/widgets"
    api.expect_eventually(lambda: (api.get(url), api.status)[1], lambda status: status == 200)
    api.expect_eventually(
        lambda: len(api.get(GROUP).get("versions", [])), lambda count: count == len(ranked)
    )
    found = api.get(GROUP)
    assert [one["version"] for one in found["versions"]] == ranked
    assert found["preferredVersion"] == {"groupVersion": "example.com/v10", "version": "v10"}
    for group in api.get("/apis", AGGREGATED)["items"]:
        if group["metadata"]["name"] == "example.com":
            assert [one["version"] for one in group["versions"]] == ranked
    api.get(f"{GROUP}/v3")
    assert api.answer.body == b"404 page not found\n"


def test_discovery_shows_names_categories_and_subresources(api: Api) -> None:
    parts = {
        "status": {},
        "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
    }
    names = {"shortNames": ["wd"], "categories": ["all"], "singular": "gizmo"}
    define(api, definition(version(subresources=parts), names=names))
    api.expect_eventually(lambda: api.get(f"{GROUP}/v1"), lambda found: "resources" in found)
    rows = {row["name"]: row for row in api.get(f"{GROUP}/v1")["resources"]}
    assert {*rows} == {"widgets", "widgets/status", "widgets/scale"}
    shown = {
        key: rows["widgets"][key]
        for key in ("singularName", "kind", "namespaced", *names)
        if key != "singular"
    }
    assert shown == {
        "singularName": "gizmo",
        "kind": "Widget",
        "namespaced": True,
        "shortNames": ["wd"],
        "categories": ["all"],
    }
    scale = rows["widgets/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
    groups = api.get("/apis", AGGREGATED)["items"]
    (group,) = (one for one in groups if one["metadata"]["name"] == "example.com")
    (resource,) = group["versions"][0]["resources"]
    kind = {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert resource["responseKind"] == kind
    assert {part["subresource"]: part["responseKind"] for part in resource["subresources"]} == {
        "status": kind,
        "scale": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
    }


def test_openapi_documents_have_the_schema_and_change_with_it(api: Api) -> None:
    def url() -> str:
        paths = api.get("/openapi/v3")["paths"]
        return str(paths.get("apis/example.com/v1", {}).get("serverRelativeURL", ""))

    def schemas() -> Any:
        document = api.get(url() or "/openapi/v3")
        return document.get("components", {}).get("schemas") if api.status == 200 else None

    size = {"type": "integer", "description": "How big."}
    define(api, definition(version(schema=schema_of({"size": size}))))
    api.expect_eventually(schemas, bool)
    first, found = url(), schemas()["com.example.v1.Widget"]
    kind = {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert found["x-kubernetes-group-version-kind"] == [kind]
    assert found["properties"]["spec"]["properties"] == {"size": size}
    assert {"apiVersion", "kind", "metadata"} < {*found["properties"]}
    wider = schema_of({"size": size, "color": {"type": "string"}})
    api.patch(WIDGET, {"spec": {"versions": [version(schema=wider)]}})
    api.expect_eventually(url, lambda now: now not in ("", first))


@pytest.mark.embedded_only("a real server asks the webhook")
def test_conversion_by_webhook_is_refused(api: Api) -> None:
    status = api.post(DEFINITIONS, definition(conversion={"strategy": "Webhook"}))
    assert status["details"]["causes"][0]["field"] == "spec.conversion.strategy"
