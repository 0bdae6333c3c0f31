"""Deep modules: a short module with one importer in its own room is part of that importer.

Unless its head says why it stands apart, in a sentence that begins with "Apart": because another
process runs it, because it is light where its importer is heavy, or because it is a protocol.
"""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

from tests.architecture.sources import FILES, ROOT, module_of, nodes_of, text_of, where

#: Lines below which a module has to be a subject of its own.
SHORT = 60
#: Each is one file by rule: a plugin, a command.
ONE_FILE_EACH = ("plugins", "cmd")


def name_of(path: Path) -> str:
    """`kubeshare_py.domain.pod`; the package itself for an `__init__`."""
    relative = path.relative_to(ROOT).with_suffix("")
    parts = relative.parts[1:] if relative.parts[0] in ONE_FILE_EACH else relative.parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def importers() -> dict[str, set[str]]:
    """Of each module of the sources, the modules that import it or names of it."""
    known = {name_of(path) for path in FILES}
    found: dict[str, set[str]] = defaultdict(set)
    for path in FILES:
        for node in nodes_of(path):
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found[whole if whole in known else node.module].add(name_of(path))
    return found


def is_run_by_name(path: Path) -> bool:
    return 'if __name__ == "__main__"' in text_of(path)


def only_importer(path: Path) -> str | None:
    """The one module that imports this one, if both are in the same room; else None."""
    users = importers().get(name_of(path), set())
    if len(users) != 1:
        return None
    (user,) = users
    return user if user.rpartition(".")[0] == name_of(path).rpartition(".")[0] else None


def stands_apart(path: Path) -> bool:
    head = ast.get_docstring(module_of(path)) or ""
    return "Apart" in head


def test_a_short_module_with_one_importer_says_why_it_stands_apart() -> None:
    short = [
        path
        for path in FILES
        if path.name != "__init__.py"
        and path.relative_to(ROOT).parts[0] not in ONE_FILE_EACH
        and len(text_of(path).splitlines()) < SHORT
        and not is_run_by_name(path)
    ]
    assert len(short) > 5
    lonely = [
        f"{where(path)} ({len(text_of(path).splitlines())} lines): only {user} imports it"
        for path in short
        if (user := only_importer(path)) is not None and not stands_apart(path)
    ]
    assert lonely == []
