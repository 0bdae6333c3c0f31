"""What a program imports when it starts, read from the sources: nothing is imported for it.

Imports inside functions do not count, nor those for types alone.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.sources import ROOT, SOURCES, module_of

#: The folders of our packages.
_OURS = {source.rpartition("/")[2]: ROOT / source for source in SOURCES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """`modules` are ours; `packages` are all others, of the standard library too.

    `dataclasses` counts those of our modules. Each takes Python as long as a small module.
    """

    modules: frozenset[str]
    packages: frozenset[str]
    dataclasses: int


def start_of(module: str) -> Start:
    """All that this module brings in."""
    found: dict[str, Path] = {}
    packages: set[str] = set()
    left = [module]
    while left:
        name = left.pop()
        if name in found:
            continue
        path = _file_of(name)
        if path is None:
            packages.add(name.partition(".")[0])
            continue
        found[name] = path
        above = name.rpartition(".")[0]
        left += [*([above] if above else ()), *_imported(module_of(path))]
    ours = _OURS.keys()
    return Start(
        modules=frozenset(found),
        packages=frozenset(packages - ours),
        dataclasses=sum(_dataclasses(module_of(path)) for path in found.values()),
    )


def _file_of(name: str) -> Path | None:
    top, *inner = name.split(".")
    if top not in _OURS:
        return None
    place = _OURS[top].joinpath(*inner)
    candidates = (place / "__init__.py", place.parent / f"{place.name}.py")
    return next((path for path in candidates if path.is_file()), None)


def _imported(module: ast.Module) -> Iterator[str]:
    for node in _run_at_import(module.body):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            inner = (f"{node.module}.{one.name}" for one in node.names)
            yield from (one for one in inner if _file_of(one))


def _run_at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements outside functions and classes, and without those for types."""
    for node in body:
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test) != "TYPE_CHECKING":
            yield from _run_at_import([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from _run_at_import([*node.body, *node.orelse, *node.finalbody])


def _dataclasses(module: ast.Module) -> int:
    return sum(
        ast.unparse(one).startswith("dataclass")
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
        for one in node.decorator_list
    )
