"""The image's application: our wheel and the packages that it needs, at pinned versions.

`requirements.lock` has each with the SHA-256 of its files, as `make release-lock` wrote it.
"""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from deploy.release.debian import compile_below

LOCK = Path(__file__).with_name("requirements.lock")
#: The interpreter of Debian 12, for which compiled wheels are chosen.
PYTHON = (3, 11)
#: A wheel for an older glibc runs on a newer one (PEP 600); pip wants each by name.
_PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in (36, 35, 34, 31, 28, 27, 24, 17)),
    *("manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"),
)


class CannotInstall(Exception):
    """pip has no such file, or another one than is pinned. The text is pip's."""


def install(wheel: Path, root: Path) -> None:
    """Put our wheel and all that it needs into `root`/app, compiled. Raises CannotInstall."""
    if sys.version_info[:2] != PYTHON:
        raise CannotInstall(
            "bytecode of the image is made by Python 3.11: make … PYTHON=python3.11"
        )
    app = root / "app"
    _pip(
        *("install", "--quiet", "--require-hashes", "--no-deps", "--only-binary=:all:"),
        *(f"--platform={one}" for one in _PLATFORMS),
        *("--implementation=cp", "--python-version=3.11", "--no-compile"),
        *("--target", str(app), "--requirement", str(LOCK)),
    )
    shutil.rmtree(app / "bin", ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(app)
    compile_below(app, root)


def lock(project: Path) -> str:
    """Return the text of a new lock, from what is newest today. Raises CannotInstall."""
    command = [
        *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--generate-hashes"),
        *("--no-header", "--no-annotate", "--python-version", "3.11"),
        *("--python-platform", "x86_64-manylinux_2_28", "--only-binary", ":all:"),
        str(project),
    ]
    return _run(command)


def _pip(*arguments: str) -> None:
    _run([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments])


def _run(command: list[str]) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise CannotInstall(done.stderr.strip() or done.stdout.strip())
    return done.stdout
