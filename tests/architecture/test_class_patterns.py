"""Patterns on the way of every event name the attributes that they take.

`case PodSeen(pod)` looks `__match_args__` up by a text that CPython 3.11 makes anew each time, and
its cache of methods keeps some thousand of them: one each in an arena of freed memory keeps all of
it from the system. From 3.12 on that text is the same one.
"""

import ast
from pathlib import Path

import kubeshare_py

HOT = ("scheduling", "framework", "cluster", "domain", "manifests", "dialects")


def test_patterns_of_classes_name_their_attributes() -> None:
    package = Path(kubeshare_py.__file__).parent
    found = [
        f"{path.relative_to(package)}:{node.lineno}"
        for room in HOT
        for path in sorted((package / room).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.MatchClass) and node.patterns
    ]
    assert not found
