"""The build hook of the compiled wheel: mypyc makes C of the modules that decide.

It is off unless HATCH_BUILD_HOOK_ENABLE_CUSTOM is 1: what `pip install` and `make` build needs no
C compiler. A wheel that it made has an extension beside the source of each module of `compiled`,
which Python imports instead of the source. Editable installs stay as they are.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

PACKAGE = "kubeshare_py"
#: Rooms that are compiled as a whole, and modules of others that each pod's watch lines pass.
COMPILED = (
    "domain",
    "cluster",
    "framework",
    "scheduling",
    "dialects/card_visibility.py",
    "dialects/label_numbers.py",
    "dialects/results.py",
    "dialects/sharedgpu.py",
    "manifests/decoding.py",
    "manifests/json_paths.py",
    "manifests/pods/effective_requests.py",
    "manifests/shallow_json.py",
)
_CLASS_VARIABLES = "A dataclass takes a ClassVar for a field, because mypyc changes annotations."
_CLASS_ATTRIBUTES = "mypyc does not know attributes of a class that are constants of the module."
_STRUCTS = "mypyc does not know msgspec's Structs."
#: Modules and folders of these that stay as they are, each with the reason.
LEFT_OUT = {
    "cluster/columns.py": "Its descriptors use the __dict__ of rows; compiled classes have none.",
    "cluster/derived.py": "A TypeVar of int and arrays, which mypyc takes for one of them.",
    "cluster/overlay.py": "A class of rows, like those of cluster/rows.py.",
    "cluster/rows.py": "Rows keep the columns that were asked for in their __dict__.",
    "domain/allocation.py": _STRUCTS,
    "domain/cluster_objects.py": _CLASS_VARIABLES,
    "domain/device.py": _CLASS_VARIABLES,
    "domain/effects.py": _STRUCTS,
    "domain/events.py": _STRUCTS,
    "domain/identity.py": _STRUCTS,
    "domain/mypyc_hints.py": "What it defines is for modules that are not compiled.",
    "domain/node.py": _STRUCTS,
    "domain/pod.py": _STRUCTS,
    "domain/quota.py": _CLASS_VARIABLES,
    "domain/remembered.py": "A decorated function names itself, which mypyc does not know.",
    "domain/storage.py": _CLASS_VARIABLES,
    "domain/values.py": _STRUCTS,
    "framework/adapters.py": _CLASS_ATTRIBUTES,
    "framework/joint_layout.py": "mypyc (of mypy 2.4) ends with a segmentation fault.",
    "framework/points.py": "mypyc does not know Protocols with @runtime_checkable.",
    "framework/scheduler_profile.py": _CLASS_ATTRIBUTES,
    "scheduling/explain": "Answers to people, which cost a pod nothing.",
}
#: The library with the code of all of them; the extension of each module only finds it there.
LIBRARY = f"{PACKAGE}.compiled"


def compiled(root: Path) -> list[str]:
    """Return the files that are compiled, from the repository's root; `__init__.py` never is."""
    return sorted(
        file.relative_to(root).as_posix()
        for place in COMPILED
        for file in _below(root / PACKAGE / place)
        if file.name != "__init__.py"
        and not any(file.is_relative_to(root / PACKAGE / name) for name in LEFT_OUT)
    )


def module_of(file: str) -> str:
    """Return the name under which a file is imported."""
    return file.removesuffix(".py").replace("/", ".")


def _below(place: Path) -> Iterator[Path]:
    return place.rglob("*.py") if place.is_dir() else iter([place])


class CustomBuildHook(BuildHookInterface[BuilderConfig]):
    """The hook that hatchling looks for by this name."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and put the extensions into the wheel; `version` is the kind of wheel."""
        if version == "editable":
            return
        self._scratch = tempfile.TemporaryDirectory(prefix="kubeshare-compiled-")
        root, built = Path(self.root), Path(self._scratch.name) / "built"
        with chdir(root):  # mypy reads its settings, and names modules, from here.
            build(compiled(root), Path(self._scratch.name) / "c", built)
        found = {str(file): file.relative_to(built).as_posix() for file in built.rglob("*.so")}
        build_data["force_include"] |= found
        build_data["pure_python"] = False
        build_data["tag"] = tag()

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete what is in the wheel now."""
        if version != "editable":
            self._scratch.cleanup()


def tag() -> str:
    """Return what the wheel is for: this Python and machine, and this C library or a newer one.

    Nothing else is linked, as manylinux demands (PEP 600).
    """
    tags = [*sys_tags()]
    return str(next((one for one in tags if one.platform.startswith("manylinux")), tags[0]))


def build(files: Sequence[str], sources: Path, built: Path) -> None:
    """Compile these files, from the current folder: C goes to `sources`, extensions to `built`."""
    # Only a build of the compiled wheel needs them.
    from mypyc.build import mypycify  # noqa: PLC0415
    from setuptools import Distribution  # noqa: PLC0415

    extensions = mypycify(
        [*files],
        target_dir=str(sources),
        # A C file for each module: a compiler takes a tenth of the memory, and several run at once.
        multi_file=True,
        # It would have names of folders, and two builds would differ.
        debug_level="0",
        opt_level="2",
        group_name=LIBRARY,
    )
    # The header of all of them lies in the library's package.
    extensions[0].include_dirs.append(str(sources / PACKAGE))
    command = Distribution({"name": PACKAGE, "ext_modules": extensions}).get_command_obj(
        "build_ext"
    )
    command.build_lib = str(built)
    command.build_temp = str(sources / "objects")
    one_by_one = command.build_extensions

    def build_extensions() -> None:
        command.compiler.compile = partial(_in_parallel, command.compiler.compile)
        one_by_one()

    command.build_extensions = build_extensions
    command.ensure_finalized()
    command.run()


def _in_parallel(
    compiler: Callable[..., list[str]], sources: Sequence[str], **settings: Any
) -> list[str]:
    """Compile each source by itself; the objects, in the order of the sources."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = pool.map(lambda source: compiler([source], **settings), sources)
        return [one for objects in made for one in objects]
