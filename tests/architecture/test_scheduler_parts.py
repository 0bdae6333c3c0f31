"""How the scheduler's parts work together: what each gives back, and what each is handed."""

import ast

from tests.architecture.sources import FILES, ROOT, nodes_of, where

SCHEDULING = ROOT / "kubeshare_py" / "scheduling"
PARTS = [path for path in FILES if path.is_relative_to(SCHEDULING)]


def test_effects_are_returned() -> None:
    # A list that callees append to hides the order of effects, and which calls have any.
    found = [
        where(path, node.lineno)
        for path in PARTS
        for node in nodes_of(path)
        if isinstance(node, ast.arg)
        and (node.arg == "effects" or "Effect]" in ast.unparse(node.annotation or node))
    ]
    assert not found
