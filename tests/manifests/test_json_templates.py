"""Templates of `-o jsonpath=`, as in kubectl's documentation of them."""

import pytest

from kubeshare_py.manifests.json_paths import BadPath
from kubeshare_py.manifests.json_templates import template

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
