"""JSONPath as printer columns use it."""

from typing import Any

import pytest

from kubeshare_py.manifests.json_paths import BadPath, found_at, template

OBJECT = {
    "spec": {
        "a": 1,
        "list": [{"key": "x", "n": 1, "on": True}, {"key": "y]", "n": 2}],
        "map": {"a.b": "c", "z": "d"},
        "odd": {"a/b": 1, "a:b": 2, "1a": 3, "x.y/z-w": 4},
    }
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.a", [1]),
        ("spec.a", [1]),
        (".", [OBJECT]),
        (".spec.list[*].key", ["x", "y]"]),
        (".spec.list[0].key", ["x"]),
        (".spec.list[-1]['key']", ["y]"]),
        (".spec.list[5].key", []),
        (".spec.list[0,1].n", [1, 2]),
        (".spec.list[1:].n", [2]),
        (r".spec.map.a\.b", ["c"]),
        (".spec.map['a.b']", ["c"]),
        (".spec.map.*", ["c", "d"]),
        ("..key", ["x", "y]"]),
        (".spec.list[1]..", [{"key": "y]", "n": 2}, "y]", 2]),
        (".spec.odd.a/b", [1]),
        (".spec.odd.a:b", [2]),
        (".spec.odd.1a", [3]),
        (r".spec.odd.x\.y/z-w", [4]),
        ('.spec.list[?(@.key=="x")].n', [1]),
        (".spec.list[?(@.key=='y]')].n", [2]),
        (".spec.list[?(@.n>1)].key", ["y]"]),
        (".spec.list[?(@.n != 1)].key", ["y]"]),
        (".spec.list[?(@.on==true)].key", ["x"]),
        (".spec.list[?(@.on)].key", ["x"]),
        (".spec.list[?(@.key>1)].key", []),
        (".spec.list[?(@.key!=1)].key", []),
        (".spec.list[?(@.on!=false)].key", ["x"]),
        (".spec.list[?(@.missing!='x')].key", []),
        (".spec.a.deeper[0]", []),
        (".nothing", []),
    ],
)
def test_paths_lead_to_values(path: str, found: list[Any]) -> None:
    assert found_at(path, OBJECT) == found


@pytest.mark.parametrize("path", [".a[", ".a[x]", ".a[]", ".a[?(@.b==c)]", ".a[?x]", ".a b"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(BadPath):
        found_at(path, OBJECT)


# --- Templates of `-o jsonpath=`, as in kubectl's documentation of them ---------------------------


DOCUMENT = {
    "pods": [
        {"name": "a", "milli": 500, "state": "bound", "cards": ["x", "y"]},
        {"name": "b c", "milli": 1000, "state": "waiting", "cards": []},
    ],
    "ready": True,
}


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("{.pods[*].name}", "a b c"),
        ("{$.pods[0].milli}", "500"),
        ("{.ready}", "true"),
        ("{.pods[0].cards}", '["x","y"]'),
        ("{.pods[1]}", '{"name":"b c","milli":1000,"state":"waiting","cards":[]}'),
        ("{.pods[*]['name','milli']}", "a 500 b c 1000"),
        ('{.pods[?(@.state=="waiting")].name}', "b c"),
        ("{.pods[?(@.milli > 600)].name}", "b c"),
        ("names: {.pods[0].name}!", "names: a!"),
        ('{range .pods[*]}{.name}{"\\t"}{.milli}{"\\n"}{end}', "a\t500\nb c\t1000\n"),
        ("{range .pods[*]}{@.name},{range .cards[*]}<{@}>{end};{end}", "a,<x><y>;b c,;"),
        ("{.pods[0].name}{' is '}{.pods[0].state}", "a is bound"),
        ('{.pods[0].name "-" .pods[0].milli}', "a-500"),
        ("{.nothing.there}", ""),
        (".pods[0].name", "a"),
        ("pods[0].name", "a"),
        ("", ""),
    ],
)
def test_what_is_printed(text: str, printed: str) -> None:
    assert template(text)(DOCUMENT) == printed


@pytest.mark.parametrize(
    "text", ["{.pods", "{range .pods[*]}{.name}", "{end}", "{pods}", "{.pods[}", "{.pods[?(x)]}"]
)
def test_what_is_no_template_is_refused(text: str) -> None:
    with pytest.raises(BadPath):
        template(text)
