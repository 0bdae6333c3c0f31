"""What docstrings say: shapes of arrays, errors raised, units of times; in plain words."""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.sources import FILES, ROOT, module_of, nodes_of, text_of

Function = ast.FunctionDef | ast.AsyncFunctionDef

#: `(rows,)`, `(rows, width)`, `(k, width)`.
SHAPE = re.compile(r"\([\w.* +-]+,(?: [\w.* +-]+(?:, [\w.* +-]+)*)?\)")
#: Durations say their unit; moments are seconds of a clock.
TIME = re.compile(r".*_s|(.*_)?seconds|(.*_)?(now|at|since|until|due|by|when|began)(_unix)?")
#: Words for people in place of a pod, plugin, candidate or client. docs/GLOSSARY.md has the nouns.
REFUSED = re.compile(
    r"\b(nobody|somebody|whoever|everybody|anybody|whom)\b|\bwhat is told\b|\bit is to be\b",
    re.IGNORECASE,
)
#: A docstring or comment that may begin with "who".
BEGINS = re.compile(r'("""|#:? )Who\b')


def documented(tree: ast.Module) -> Iterator[tuple[str, Function, str]]:
    """Each public function and method: its name, its node, and its docstring with its class's."""
    for node in tree.body:
        if isinstance(node, Function) and not node.name.startswith("_"):
            yield node.name, node, ast.get_docstring(node) or ""
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            about = ast.get_docstring(node) or ""
            for method in node.body:
                if isinstance(method, Function) and (
                    not method.name.startswith("_") or method.name in {"__init__", "__post_init__"}
                ):
                    words = f"{about}\n{ast.get_docstring(method) or ''}"
                    yield f"{node.name}.{method.name}", method, words


def parameters(function: Function) -> list[ast.arg]:
    given = function.args
    return [*given.posonlyargs, *given.args, *given.kwonlyargs]


def array_names(tree: ast.Module) -> set[str]:
    """The names by which a module annotates an array."""
    own = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("NDArray[")
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return own | {"NDArray", "IntArray", "ndarray"}


def mentions(annotation: ast.expr | None, names: set[str]) -> bool:
    return annotation is not None and bool(names & {*re.findall(r"\w+", ast.unparse(annotation))})


def own_raises(function: Function) -> Iterator[ast.Raise]:
    """The raise statements of a function, without those of functions within it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Raise):
            yield node
        if not isinstance(node, (Function, ast.Lambda, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(node))


@cache
def errors() -> frozenset[str]:
    """The project's exceptions that callers may see."""
    named = re.compile(r"Error|Exception|Failed|Refused")
    return frozenset(
        node.name
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef)
        and not node.name.startswith("_")
        and any(named.search(ast.unparse(base)) for base in node.bases)
    )


def raised(statement: ast.Raise) -> str:
    error = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
    return ast.unparse(error).rpartition(".")[2] if error else ""


def shapeless(tree: ast.Module) -> list[str]:
    """Public functions with an array parameter or result of a shape that is not said."""
    names = array_names(tree)
    return [
        name
        for name, function, words in documented(tree)
        if any(mentions(one.annotation, names) for one in parameters(function))
        or mentions(function.returns, names)
        if not SHAPE.search(words)
    ]


def silent(tree: ast.Module) -> list[str]:
    """Public functions that raise an error of the project's and do not name it."""
    return [
        f"{name}: {error}"
        for name, function, words in documented(tree)
        for error in sorted(errors() & {raised(one) for one in own_raises(function)})
        if error not in re.findall(r"\w+", words)
    ]


def is_float(annotation: ast.expr | None) -> bool:
    return annotation is not None and ast.unparse(annotation) in {"float", "float | None"}


def unitless(tree: ast.Module) -> list[str]:
    """Float parameters and attributes that are not named as times and not explained."""
    found = [
        (name, one.arg, words)
        for name, function, words in documented(tree)
        for one in parameters(function)
        if is_float(one.annotation)
    ]
    found += [
        (node.name, ast.unparse(field.target), ast.get_docstring(node) or "")
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign) and is_float(field.annotation)
    ]
    return [
        f"{where}: {name}"
        for where, name, words in found
        if not TIME.fullmatch(name.lstrip("_").replace("Seconds", "_seconds"))
        if f"`{name}`" not in words and name != "value"
    ]


def prose(path: Path) -> Iterator[str]:
    """Docstrings and comments."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in nodes_of(path):
        if isinstance(node, owners):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(text_of(path)).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def refused(text: str) -> list[str]:
    begins = re.match(r"(?:#:? )?(Who)\b", text)
    return [found[0] for found in REFUSED.finditer(text)] + ([begins[1]] if begins else [])


def complaints(rule: Callable[[ast.Module], list[str]]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}: {complaint}"
        for path in FILES
        for complaint in rule(module_of(path))
    ]


def test_public_functions_of_arrays_say_their_shapes() -> None:
    assert complaints(shapeless) == []


def test_public_functions_name_the_errors_that_they_raise() -> None:
    assert complaints(silent) == []


def test_floats_are_times_by_name_or_explained() -> None:
    assert complaints(unitless) == []


def test_things_are_called_by_their_nouns() -> None:
    found = [
        (path.relative_to(ROOT).as_posix(), word)
        for path in FILES
        if REFUSED.search(text_of(path))
        or BEGINS.search(text_of(path))  # few: the others need no look
        for text in prose(path)
        for word in refused(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (shapeless, "def best(rows: IntArray) -> int:\n    'The best row.'"),
        (shapeless, "def rows() -> NDArray[np.int64]:\n    'Rows that fit.'"),
        (silent, "def read(text):\n    'Read it.'\n    raise PluginFailed(text)"),
        (unitless, "def wait(pause: float):\n    'Wait.'"),
        (unitless, "class Bounds:\n    'Limits.'\n    idle: float = 1.0"),
    ],
)
def test_a_rule_finds_what_breaks_it(rule: Callable[[ast.Module], list[str]], text: str) -> None:
    assert len(rule(ast.parse(text))) == 1


def test_the_shape_may_be_said_once_for_a_class() -> None:
    text = (
        "class Rows:\n    'Arrays are (k,) int64.'\n    def all(self) -> IntArray:\n        'All.'"
    )
    assert shapeless(ast.parse(text)) == []


def test_refused_words_are_found_whole() -> None:
    assert refused("Nobody waits for whom it is.") == ["Nobody", "whom"]
    assert refused("# Who waits") == ["Who"]
    assert refused("A pod that waits; the whole of it.") == []
