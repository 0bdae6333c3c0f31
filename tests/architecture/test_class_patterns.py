"""Patterns on the way of every event name the attributes that they take.

`case PodSeen(pod)` looks `__match_args__` up by a text that CPython 3.11 makes anew each time, and
its cache of methods keeps some thousand of them: one each in an arena of freed memory keeps all of
it from the system. From 3.12 on that text is the same one.
"""

import ast

from tests.architecture.sources import FILES, ROOT, nodes_of, where

HOT = ("scheduling", "framework", "cluster", "domain", "manifests", "dialects")


def test_patterns_of_classes_name_their_attributes() -> None:
    hot = [ROOT / "kubeshare_py" / room for room in HOT]
    found = [
        where(path, node.lineno)
        for path in FILES
        if any(path.is_relative_to(room) for room in hot)
        for node in nodes_of(path)
        if isinstance(node, ast.MatchClass) and node.patterns
    ]
    assert not found
