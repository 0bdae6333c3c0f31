"""Merging: strategic directives, merge patches, quantities, ages."""

from typing import Any

import pytest

from kubeshare_py.domain.quantity import BadQuantity
from kubeshare_py.embedded_cluster.protocol.merge import (
    REPLACED,
    PatchProblem,
    merge_patch,
    strategic_merge,
)
from kubeshare_py.embedded_cluster.protocol.quantities import canonical
from kubeshare_py.views.ages import duration

KEYS = {"conditions": "type", "containers": "name", "finalizers": "", "selector": REPLACED}
A = {"type": "A", "status": "True"}
B = {"type": "B", "status": "True"}


@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [
        ({"conditions": [A]}, {"conditions": [B]}, {"conditions": [B, A]}),
        (
            {"conditions": [A]},
            {"conditions": [{"type": "A", "status": "False"}]},
            {"conditions": [{"type": "A", "status": "False"}]},
        ),
        (
            {"conditions": [A, B]},
            {"conditions": [{"$patch": "delete", "type": "A"}]},
            {"conditions": [B]},
        ),
        (
            {"conditions": [A, B]},
            {"conditions": [{"$patch": "replace"}, {"type": "C"}]},
            {"conditions": [{"type": "C"}]},
        ),
        ({"selector": {"a": "b"}}, {"selector": {"c": "d"}}, {"selector": {"c": "d"}}),
        (
            {"selector": {"a": "b"}},
            {"selector": {"$patch": "replace", "c": "d"}},
            {"selector": {"c": "d"}},
        ),
        ({"finalizers": ["a", "c"]}, {"finalizers": ["b", "a"]}, {"finalizers": ["b", "a", "c"]}),
        (
            {"finalizers": ["a", "b"]},
            {"$deleteFromPrimitiveList/finalizers": ["a"]},
            {"finalizers": ["b"]},
        ),
        (
            {"containers": [{"name": "a"}, {"name": "b"}]},
            {
                "$setElementOrder/containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}],
                "containers": [{"name": "c"}],
            },
            {"containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}]},
        ),
        (
            {"containers": [{"name": "a"}, {"name": "b"}]},
            {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]},
            {"containers": [{"name": "b"}, {"name": "a"}]},
        ),
        (
            {"strategy": {"type": "Rolling", "rolling": {"max": 1}}},
            {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
            {"strategy": {"type": "Recreate"}},
        ),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": {"b": 1}}, {"a": {"$patch": "replace", "c": 2}}, {"a": {"c": 2}}),
        ({"a": {"b": 1}, "x": 1}, {"a": {"$patch": "delete"}}, {"x": 1}),
        ({"tolerations": [1, 2]}, {"tolerations": [3]}, {"tolerations": [3]}),
        ({}, {"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 1}}}),
    ],
)
def test_strategic_merge(original: Any, patch: Any, result: Any) -> None:
    assert strategic_merge(original, patch, KEYS) == result


@pytest.mark.parametrize(
    "patch", [{"$patch": "explode"}, {"conditions": [{"status": "True"}]}, {"conditions": ["x"]}]
)
def test_bad_directives_are_refused(patch: Any) -> None:
    with pytest.raises(PatchProblem):
        strategic_merge({}, patch, KEYS)


def test_a_merge_patch_changes_no_argument() -> None:
    original, patch = {"a": {"b": 1}, "l": [1]}, {"a": {"b": None, "c": {"d": None}}, "l": [2]}
    assert merge_patch(original, patch) == {"a": {"c": {}}, "l": [2]}
    assert original == {"a": {"b": 1}, "l": [1]}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1000m", "1"),
        ("1000", "1k"),
        ("8", "8"),
        ("0", "0"),
        ("1e3", "1k"),
        ("0.1n", "1n"),
        ("100", "100"),
        ("-1", "-1"),
        ("-1.5Gi", "-1536Mi"),
        ("-0.1n", "-1n"),
        ("1500Mi", "1500Mi"),
        ("1.5", "1500m"),
        ("0.5Ki", "512"),
        ("12345678901234567890123456789012345", "12345678901234567890123456789012345"),
        ("2Ki", "2Ki"),
        ("1000Ki", "1000Ki"),
    ],
)
def test_quantities_are_stored_in_canonical_form(given: str, stored: str) -> None:
    assert canonical(given) == stored


@pytest.mark.parametrize("text", ["", "many", "1KiB", "1 Gi", "--1", "1\n", "\u0661", "1e9999999"])
def test_other_texts_are_no_quantities(text: str) -> None:
    with pytest.raises(BadQuantity, match="quantities must match the regular expression"):
        canonical(text)


@pytest.mark.parametrize(
    ("elapsed", "shown"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (599, "9m59s"),
        (3 * 3600 - 1, "179m"),
        (8 * 3600 - 1, "7h59m"),
        (47 * 3600, "47h"),
        (3 * 86400 + 2 * 3600, "3d2h"),
        (729 * 86400, "729d"),
        (3 * 365 * 86400 + 4 * 86400, "3y4d"),
        (8 * 365 * 86400, "8y"),
        (-60, "<invalid>"),
    ],
)
def test_ages_round_as_kubectl_shows_them(elapsed: float, shown: str) -> None:
    assert duration(elapsed) == shown
