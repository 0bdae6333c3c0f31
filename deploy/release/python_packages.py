"""The image's application: our wheel and the packages that it needs, at pinned versions.

`requirements.lock` has each with the SHA-256 of its files, as `make release-lock` wrote it.
`left_out.lst` names what of our wheel does not go into the image.
"""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from deploy.release import development
from deploy.release.debian import compile_below

LOCK = Path(__file__).with_name("requirements.lock")
BUILD_LOCK = Path(__file__).with_name("build.lock")
LEFT_OUT = Path(__file__).with_name("left_out.lst")
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
    leave_out(app)
    compile_below(app, root)


def left_out() -> tuple[str, ...]:
    """Files and folders of our packages that the image does not have, by their paths in it."""
    lines = LEFT_OUT.read_text().splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


def leave_out(app: Path) -> None:
    """Delete them from an unpacked wheel. Raises CannotInstall for one that is not there."""
    for name in left_out():
        path = app / name
        if path.is_dir():
            shutil.rmtree(path)
        elif path.is_file():
            path.unlink()
        else:
            raise CannotInstall(f"{LEFT_OUT.name}: {name} is not in the wheel")


def lock(project: Path) -> str:
    """Return the text of a new lock, from what is newest today. Raises CannotInstall."""
    platform = ("--python-platform", "x86_64-manylinux_2_28", "--only-binary", ":all:")
    return _compile(str(project), *platform)


def build_lock(project: Path) -> str:
    """What builds our wheel in deploy/Dockerfile, for any platform. Raises CannotInstall."""
    wanted = tomllib.loads(project.read_text())["build-system"]["requires"]
    return _compile("-", "--universal", given="\n".join(wanted))


def development_lock(project: Path) -> str:
    """What `make setup` installs, for any platform and Python 3.11 on. Raises CannotInstall."""
    found = _compile(str(project), "--universal", "--group", f"{project}:dev")
    return development.head(project.read_text()) + found


def demo_lock(project: Path, development_lock: str) -> str:
    """What `make demo` installs, as it is in development.lock. Raises CannotInstall."""
    found = _compile(None, "--universal", "--group", f"{project}:demo")
    return development.part(development_lock, re.findall(r"(?m)^([\w.-]+)==", found))


def _compile(source: str | None, *options: str, given: str = "") -> str:
    command = (sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--generate-hashes")
    plain = ("--no-header", "--no-annotate", "--no-config", "--python-version", "3.11")
    return _run([*command, *plain, *options, *([source] if source else [])], given)


def _pip(*arguments: str) -> None:
    _run([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments])


def _run(command: list[str], given: str = "") -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, input=given)
    if done.returncode:
        raise CannotInstall(done.stderr.strip() or done.stdout.strip())
    return done.stdout
