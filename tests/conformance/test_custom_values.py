"""Values of custom objects against their schema, in kube-apiserver's words.

One definition for all of them: a real server takes seconds to serve a new one.
"""

from typing import Any

from tests.conformance.definitions import (
    WIDGETS,
    causes,
    define,
    definition,
    schema_of,
    version,
    widget,
)
from tests.embedded_cluster.api_client import Api

NOWHERE = "<nil>"
STRING, INTEGER = {"type": "string"}, {"type": "integer"}
ENTRY = {"type": "object", "required": ["key"], "properties": {"key": STRING, "n": INTEGER}}
FIELDS: dict[str, Any] = {
    "s": STRING,
    "short": {"type": "string", "maxLength": 3, "minLength": 2, "pattern": "^[a-z]+$"},
    "one": {"type": "string", "enum": ["a", "b"]},
    "three": {"type": "integer", "enum": [1, 3]},
    "i": {"type": "integer", "minimum": 1, "maximum": 10},
    "small": {"type": "integer", "format": "int32"},
    "open": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "multipleOf": 2},
    "n": {"type": "number", "minimum": 0.5, "maximum": 1000000, "exclusiveMaximum": True},
    "b": {"type": "boolean"},
    "o": {"type": "object", "required": ["x"], "properties": {"x": STRING}},
    "l": {"type": "array", "minItems": 1, "maxItems": 2, "items": ENTRY},
    "keyed": {
        "type": "array",
        "items": ENTRY,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["key"],
    },
    "united": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
    "m": {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 2,
        "additionalProperties": INTEGER,
    },
    "either": {"x-kubernetes-int-or-string": True},
    "null": {"type": "string", "nullable": True},
    "any": {**STRING, "anyOf": [{"minLength": 2}, {"pattern": "^a"}]},
    "exactly": {
        "type": "object",
        "properties": {"x": STRING, "y": STRING},
        "oneOf": [{"required": ["x"]}, {"required": ["y"]}],
    },
    "all": {**STRING, "allOf": [{"minLength": 2}, {"pattern": "^a"}]},
    "not": {**STRING, "not": {"enum": ["x"]}},
    "when": {"type": "string", "format": "date-time"},
    "day": {"type": "string", "format": "date"},
    "ip": {"type": "string", "format": "ipv4"},
    "net": {"type": "string", "format": "cidr"},
    "uuid": {"type": "string", "format": "uuid"},
    "bytes": {"type": "string", "format": "byte"},
    "long": {"type": "string", "format": "duration"},
    "odd": {"type": "string", "format": "nobody-knows"},
}


def mistyped(path: str, wanted: str, found: str) -> tuple[str, str]:
    text = f'{path} in body must be of type {wanted}: "{found}"'
    return path, f'Invalid value: "{found}": {text}'


def should(name: str, value: str, text: str) -> tuple[str, str]:
    return f"spec.{name}", f"Invalid value: {value}: spec.{name} in body {text}"


def homeless(text: str) -> tuple[str, str]:
    return NOWHERE, f'Invalid value: "": {text}'


WRONG: list[tuple[str, Any, set[tuple[str, str]]]] = [
    ("s", 5, {mistyped("spec.s", "string", "integer")}),
    ("s", 1.5, {mistyped("spec.s", "string", "number")}),
    ("s", True, {mistyped("spec.s", "string", "boolean")}),
    ("s", [], {mistyped("spec.s", "string", "array")}),
    ("s", {}, {mistyped("spec.s", "string", "object")}),
    ("i", "x", {mistyped("spec.i", "integer", "string")}),
    (
        "i",
        1.5,
        {
            mistyped("spec.i", "integer", "number"),
            homeless("Checked value must be of type integer (default format) in spec.i"),
        },
    ),
    ("b", "true", {mistyped("spec.b", "boolean", "string")}),
    ("o", [], {mistyped("spec.o", "object", "array")}),
    ("l", "x", {mistyped("spec.l", "array", "string")}),
    ("either", True, {mistyped("spec.either", "integer,string", "boolean")}),
    ("united", [None], {mistyped("spec.united[0]", "string", "null")}),
    ("short", "abcd", {("spec.short", "Too long: may not be more than 3 bytes")}),
    ("short", "a", {should("short", '"a"', "should be at least 2 chars long")}),
    ("short", "AB", {should("short", '"AB"', "should match '^[a-z]+$'")}),
    ("short", "ab\n", {should("short", '"ab\\n"', "should match '^[a-z]+$'")}),
    ("one", "c", {("spec.one", 'Unsupported value: "c": supported values: "a", "b"')}),
    ("three", 2, {("spec.three", 'Unsupported value: 2: supported values: "1", "3"')}),
    ("i", 11, {should("i", "11", "should be less than or equal to 10")}),
    ("i", 0, {should("i", "0", "should be greater than or equal to 1")}),
    ("open", 0, {should("open", "0", "should be greater than 0")}),
    ("open", 3, {should("open", "3", "should be a multiple of 2")}),
    ("n", 0.25, {should("n", "0.25", "should be greater than or equal to 0.5")}),
    ("n", 1000000, {should("n", "1000000", "should be less than 1000000")}),
    ("n", 1000000.5, {should("n", "1.0000005e+06", "should be less than 1e+06")}),
    (
        "small",
        3000000000,
        {homeless("Checked value must be of type integer with format int32 in spec.small")},
    ),
    ("o", {}, {("spec.o.x", "Required value")}),
    ("l", [], {should("l", "0", "should have at least 1 items")}),
    ("l", [{}], {("spec.l[0].key", "Required value")}),
    (
        "l",
        [{"key": "a"}, {"key": 1}, {"key": "a"}],
        {
            ("spec.l", "Too many: 3: must have at most 2 items"),
            mistyped("spec.l[1].key", "string", "integer"),
        },
    ),
    (
        "keyed",
        [{"key": "a", "n": 1}, {"key": "a", "n": 2}],
        {("spec.keyed[1]", 'Duplicate value: {"key":"a"}')},
    ),
    ("united", ["a", "b", "a"], {("spec.united[2]", 'Duplicate value: "a"')}),
    ("m", {}, {should("m", "0", "should have at least 1 properties")}),
    ("m", {"a": "x"}, {mistyped("spec.m.a", "integer", "string")}),
    (
        "m",
        {"a": 1, "b": 2, "c": 3},
        {("spec.m", "Too many: 3: must have at most 2 items")},
    ),
    (
        "any",
        "b",
        {
            homeless('"spec.any" must validate at least one schema (anyOf)'),
            should("any", '"b"', "should be at least 2 chars long"),
        },
    ),
    (
        "exactly",
        {},
        {
            homeless(
                '"spec.exactly" must validate one and only one schema (oneOf). Found none valid'
            ),
            ("spec.exactly.x", "Required value"),
        },
    ),
    (
        "exactly",
        {"x": "", "y": ""},
        {
            homeless(
                '"spec.exactly" must validate one and only one schema (oneOf). '
                "Found 2 valid alternatives"
            )
        },
    ),
    (
        "all",
        "b",
        {
            homeless('"spec.all" must validate all the schemas (allOf). None validated'),
            should("all", '"b"', "should be at least 2 chars long"),
            should("all", '"b"', "should match '^a'"),
        },
    ),
    (
        "all",
        "bb",
        {
            homeless('"spec.all" must validate all the schemas (allOf)'),
            should("all", '"bb"', "should match '^a'"),
        },
    ),
    ("not", "x", {homeless('"spec.not" must not validate the schema (not)')}),
    ("when", "x", {mistyped("spec.when", "date-time", "x")}),
    ("when", 5, {mistyped("spec.when", "date-time", "int64")}),
    ("day", "2026-02-30", {mistyped("spec.day", "date", "2026-02-30")}),
    ("ip", "1.2.3", {mistyped("spec.ip", "ipv4", "1.2.3")}),
    ("net", "1.2.3.4", {mistyped("spec.net", "cidr", "1.2.3.4")}),
    ("uuid", "x", {mistyped("spec.uuid", "uuid", "x")}),
    ("bytes", "%", {mistyped("spec.bytes", "byte", "%")}),
    ("long", "soon", {mistyped("spec.long", "duration", "soon")}),
]

RIGHT: list[tuple[str, Any]] = [
    ("s", ""),
    ("short", "abc"),
    ("short", None),
    ("one", "b"),
    ("three", 3),
    ("i", 10),
    ("small", -(2**31)),
    ("open", 2),
    ("n", 0.5),
    ("n", 1),
    ("o", {"x": ""}),
    ("l", [{"key": "a"}, {"key": "a"}]),
    ("keyed", [{"key": "a"}, {"key": "b"}]),
    ("united", []),
    ("m", {"a": 1}),
    ("either", 1),
    ("either", "1"),
    ("null", None),
    ("any", "a"),
    ("exactly", {"y": ""}),
    ("all", "ab"),
    ("not", "y"),
    ("when", "2026-01-01T00:00:00Z"),
    ("when", "2026-01-01T00:00:00.123456789+02:00"),
    ("day", "2026-02-28"),
    ("ip", "1.2.3.4"),
    ("net", "10.0.0.0/8"),
    ("uuid", "5C1FE1E8-0000-4000-8000-000000000000"),
    ("bytes", "aGk="),
    ("long", "1h30m"),
    ("odd", "anything"),
]


def test_values_are_judged_by_the_schema(api: Api) -> None:
    define(api, definition(version(schema=schema_of(FIELDS))))
    url = f"{WIDGETS}?dryRun=All"
    for field, value, expected in WRONG:
        status = api.post(url, widget(spec={field: value}))
        assert (api.status, status["reason"]) == (422, "Invalid"), (field, value)
        assert causes(status) == expected
        assert status["details"]["kind"] == "Widget"
    for field, value in RIGHT:
        answer = api.post(url, widget(spec={field: value}))
        assert answer["kind"] == "Widget", (field, value, answer)


def test_several_problems_are_told_at_once(api: Api) -> None:
    schema = schema_of({"a": INTEGER, "b": STRING})
    schema["properties"]["spec"]["required"] = ["b", "c"]
    schema["required"] = ["spec", "other"]
    define(api, definition(version(schema=schema)))
    status = api.post(WIDGETS, widget(spec={"a": "x"}))
    assert causes(status) == {
        mistyped("spec.a", "integer", "string"),
        ("spec.b", "Required value"),
        ("spec.c", "Required value"),
        ("other", "Required value"),
    }
    message = 'Widget.example.com "w" is invalid: ['
    assert status["message"].startswith(message)
