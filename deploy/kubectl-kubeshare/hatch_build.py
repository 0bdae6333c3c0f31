"""Puts into the wheel what the command imports, directly or not, and nothing else."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMMANDS = ("kubeshare_cmd.kubectl_kubeshare", "kubeshare_cmd.kubectl_complete")
#: What needs the scheduler itself: without it the command says what to install.
LEFT_OUT = (
    "kubeshare_py.programs.kubectl_history",
    "kubeshare_py.programs.kubectl_usage",
    "kubeshare_py.programs.kubectl_what_if",
    "kubeshare_plugins",
)
#: Where top-level packages are, from the repository's root.
SOURCES = {"kubeshare_py": ".", "kubeshare_cmd": "cmd", "kubeshare_plugins": "plugins"}


class CustomBuildHook(BuildHookInterface[BuilderConfig]):
    """The hook that hatchling looks for by this name."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add files to the wheel."""
        root = Path(self.root).parents[1]
        files = needed_files(root)
        build_data["force_include"] |= {str(path): name for name, path in files.items()}


def needed_files(root: Path) -> dict[str, Path]:
    """Files of the checkout by their names in the wheel."""
    found: dict[str, Path] = {}
    left = list(COMMANDS)
    while left:
        module = left.pop()
        path = None if module in LEFT_OUT else _file_of(root, module)
        if path is None or path in found.values():
            continue
        top = module.partition(".")[0]
        found[path.relative_to(root / SOURCES[top]).as_posix()] = path
        left += [module.rpartition(".")[0], *_imported(path)]
    return found


def _file_of(root: Path, module: str) -> Path | None:
    """The file of a module of ours, None for all else."""
    top, *inner = module.split(".")
    if top not in SOURCES:
        return None
    place = root / SOURCES[top] / top / Path(*inner)
    candidates = (place / "__init__.py", place.with_suffix(".py"))
    return next((path for path in candidates if path.is_file()), None)


def _imported(path: Path) -> Iterator[str]:
    """Names that may be modules; `from a import b` may mean a.b."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
