"""Whether these tests run on the compiled wheel (`make compiled-core`)."""

from importlib import import_module
from importlib.machinery import ExtensionFileLoader
from pathlib import Path

import kubeshare_py
from deploy.release.compiled_modules import compiled, module_of


def modules_from_source() -> list[str]:
    """The modules that the wheel has compiled, and that are imported from their source here."""
    assert kubeshare_py.__file__ is not None
    root = Path(kubeshare_py.__file__).parents[1]
    return [name for name in map(module_of, compiled(root)) if not _is_extension(name)]


def _is_extension(name: str) -> bool:
    spec = import_module(name).__spec__
    return spec is not None and isinstance(spec.loader, ExtensionFileLoader)
