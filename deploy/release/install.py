"""Install packages into the environment that runs this: python -m deploy.release.install demo

`demo` is what `make demo` needs, `dev` all that tests and checks need as well: groups of
pyproject.toml, installed by the hashes of their locks. Only Python's library is used: nothing else
is there yet. What pip says is shown as one line of progress, and whole if it fails.
"""

import argparse
import os
import re
import select
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from deploy.release import development

#: What each group's packages are for, and the lock that pins them.
GROUPS = {
    "demo": ("what the demo needs", development.DEMO_LOCK),
    "dev": ("kubeshare-py and its tools", development.LOCK),
}
#: Seconds between two looks at what is installed, and between lines where they are not overwritten.
LOOK_S, LINE_S = 0.25, 5.0
MB = 10**6

_PINNED = re.compile(r"^([\w.-]+)==", re.MULTILINE)
_IGNORED = re.compile(r"Ignoring ([\w.-]+): markers")
_TAKEN = re.compile(r"(?:Collecting|Requirement already satisfied:) ([\w.-]+)")
_FILE = re.compile(r"\s*(?:Downloading|Using cached) \S+\.(?:whl|gz) \(([\d.]+) (\w)?B\)")
_INSTALLING = "Installing collected packages: "
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


def main() -> int:
    """Install a group; pip's or uv's exit code."""
    parser = argparse.ArgumentParser(prog="python -m deploy.release.install", description=__doc__)
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("--newest", action="store_true", help="versions are the newest, not pinned")
    parser.add_argument("--uv", metavar="PATH", help="install with this uv, in seconds")
    options = parser.parse_args()
    purpose, lock = GROUPS[options.group]
    print(f"installing {purpose} into {os.path.relpath(sys.prefix)} ...", flush=True)
    began_s = time.monotonic()
    locked = not options.newest and development.are_current()
    wanted = ["--group", options.group]
    if locked:
        wanted = ["--no-deps", "--require-hashes", "--requirement", str(lock)]
    # The project itself comes last and without its dependencies: the demo leaves some of them out.
    project = ["--no-deps", "--no-build-isolation", "--editable", str(development.ROOT)]
    if options.group == "dev" and not locked:
        project.remove("--no-deps")
    code = 0
    if options.uv:
        uv = [options.uv, "pip", "install", "--python", sys.executable]
        code = subprocess.call([*uv, *wanted]) or subprocess.call([*uv, "--quiet", *project])
    else:
        if not locked:  # The pip of older Pythons knows no groups.
            code = _pip(["--upgrade", "pip>=25.1"], Progress(""))
        code = code or _pip(wanted, Progress(lock.read_text())) or _pip(project, Progress(""))
    if code == 0:
        print(_summary(time.monotonic() - began_s), flush=True)
    return code


class Progress:
    """How far pip is, from its lines: packages found and their size, then packages installed.

    `lock` is the text of the requirements; with an empty one nothing is shown.
    """

    def __init__(self, lock: str) -> None:
        self._pins = Counter(_normal(name) for name in _PINNED.findall(lock))
        self._taken: set[str] = set()
        self._bytes = 0.0
        self._installing: set[str] = set()

    def read(self, line: str) -> None:
        """Take in one line of pip."""
        if found := _IGNORED.match(line):
            self._pins[_normal(found[1])] -= 1
        elif found := _TAKEN.match(line):
            self._taken.add(_normal(found[1]))
        elif found := _FILE.match(line):
            self._bytes += float(found[1]) * _UNITS[found[2] or ""]
        elif line.startswith(_INSTALLING):
            self._installing = {
                _normal(name) for name in line.removeprefix(_INSTALLING).strip().split(", ")
            }

    def text(self, present: set[str]) -> str:
        """One line; `present` are the normalized names of what is installed."""
        total = len(+self._pins)
        if not total:
            return ""
        if self._installing:
            done = len(self._installing & present)
            return f"  unpacked {done} of {len(self._installing)} packages"
        return f"  {len(self._taken)} of {total} packages, {self._bytes / MB:.0f} MB"


def _pip(arguments: list[str], progress: Progress) -> int:
    """Run pip install; show its progress, and all that it said if it fails."""
    # Most modules of large packages are never imported. Python compiles those that are.
    options = ["--disable-pip-version-check", "--no-compile", "--progress-bar=off"]
    said: list[str] = []
    screen = Screen(sys.stdout)
    with subprocess.Popen(
        [sys.executable, "-m", "pip", "install", *options, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as pip:
        assert pip.stdout is not None
        for line in _lines(pip.stdout.fileno()):
            said.append(line)
            progress.read(line)
            screen.show(progress.text(_installed()))
    screen.close()
    if pip.returncode:
        sys.stderr.write("".join(said))
    return pip.returncode


def _lines(pipe: int) -> Iterator[str]:
    """Lines as they come, and empty ones while none comes."""
    left = b""
    while True:
        if not select.select([pipe], [], [], LOOK_S)[0]:
            yield ""
        elif read := os.read(pipe, 65536):
            *lines, left = (left + read).split(b"\n")
            yield from (f"{line.decode(errors='replace')}\n" for line in lines)
        else:
            yield left.decode(errors="replace")
            return


class Screen:
    """A line that is overwritten on a terminal, and is written anew every LINE_S s elsewhere."""

    def __init__(self, to: TextIO) -> None:
        self._to = to
        self._overwrites = to.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = ""
        self._next_s = time.monotonic() + LINE_S

    def show(self, text: str) -> None:
        """Show the text in place of the last one."""
        if text == self._shown or (not self._overwrites and time.monotonic() < self._next_s):
            return
        self._to.write(f"\r{text:<{len(self._shown)}}" if self._overwrites else f"{text}\n")
        self._to.flush()
        self._shown, self._next_s = text, time.monotonic() + LINE_S

    def close(self) -> None:
        """Leave an empty line for what comes next."""
        if self._overwrites and self._shown:
            self._to.write(f"\r{'':<{len(self._shown)}}\r")
            self._to.flush()


def _packages() -> Path:
    return Path(sysconfig.get_path("purelib"))


def _installed() -> set[str]:
    found = _packages().glob("*.dist-info")
    return {_normal(path.name.partition("-")[0]) for path in found}


def _normal(name: str) -> str:
    """The same for all spellings of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _summary(took_s: float) -> str:
    size = sum(path.lstat().st_size for path in Path(sys.prefix).rglob("*") if path.is_file())
    return f"{len(_installed())} packages, {size / MB:.0f} MB, {took_s:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
