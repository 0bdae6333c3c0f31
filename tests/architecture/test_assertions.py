"""Every test shows in its own body what it claims."""

import ast

import pytest

from tests.architecture.sources import TESTS, nodes_of, where

#: Of pytest: a context or a call that fails when what it names does not happen.
OF_PYTEST = frozenset({"raises", "warns", "fail"})


def name_of(node: ast.AST) -> str:
    """The name that a call or a reference ends with, "" for other nodes."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def claims(test: ast.AST) -> bool:
    """Whether the test asserts, expects an error, or uses a helper named `expect_…`."""
    return any(
        isinstance(node, ast.Assert)
        or name_of(node).startswith("expect_")
        or (isinstance(node, ast.Attribute) and node.attr in OF_PYTEST)
        for node in ast.walk(test)
    )


@pytest.mark.slow
def test_every_test_asserts_or_calls_a_helper_that_is_named_for_it() -> None:
    silent = [
        where(path, node.lineno)
        for path in TESTS
        if path.name.startswith("test_")
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_") and not claims(node)
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("body", "is_claim"),
    [
        ("assert found", True),
        ("with pytest.raises(ValueError): read()", True),
        ("stage.expect_bound(3)", True),
        ("run_scenario(partial(expect_no_second_binding, seed=1))", True),
        ("stage.create('a')", False),
        ("check(found)", False),
    ],
)
def test_what_counts_as_a_claim(body: str, is_claim: bool) -> None:
    assert claims(ast.parse(f"def test_it():\n    {body}")) is is_claim
