"""The repository's Python files, each read and parsed once, for the rules about all of them."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("kubeshare_py", "plugins/kubeshare_plugins", "cmd/kubeshare_cmd")
#: Modules of messages that protoc wrote (tests/kubelet).
GENERATED = "_pb2.py"
FILES = [
    path
    for source in SOURCES
    for path in sorted((ROOT / source).rglob("*.py"))
    if not path.name.endswith(GENERATED)
]
TESTS = sorted((ROOT / "tests").rglob("*.py"))


@cache
def text_of(path: Path) -> str:
    return path.read_text()


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Every node of the file's syntax tree, the module itself first."""
    return tuple(ast.walk(ast.parse(text_of(path), path.name)))


def module_of(path: Path) -> ast.Module:
    """The file's syntax tree."""
    module = nodes_of(path)[0]
    assert isinstance(module, ast.Module)
    return module


def where(path: Path, line: int | None = None) -> str:
    """`kubeshare_py/domain/quantity.py:12`, as editors and terminals link it."""
    name = path.relative_to(ROOT).as_posix()
    return name if line is None else f"{name}:{line}"
