"""Whether the locks of `make setup` and `make demo` are for pyproject.toml as it is.

`deploy.release.install` asks, in an environment that has nothing but Python: only its library is
used here.
"""

import hashlib
import json
import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "pyproject.toml"
LOCK = Path(__file__).with_name("development.lock")
#: Part of LOCK.
DEMO_LOCK = Path(__file__).with_name("demo.lock")
_FOR = "# For the dependencies of pyproject.toml whose SHA-256 is "


def are_current() -> bool:
    """Whether both locks are for pyproject.toml as it is; if not, say so."""
    project = PROJECT.read_text()
    if all(is_current(lock.read_text(), project) for lock in (LOCK, DEMO_LOCK)):
        return True
    print("the locks in deploy/release are for other dependencies: make lock", file=sys.stderr)
    return False


def head(project: str) -> str:
    """The first lines of a lock that is made for this pyproject.toml."""
    made = "# What `make setup` installs, or `make demo`. Made by `make lock`.\n"
    return f"{made}{_FOR}{_digest(project)}\n"


def part(lock: str, names: Iterable[str]) -> str:
    """Those packages of a lock, with their hashes."""
    chosen = frozenset(names)
    packages = re.split(r"^(?=[\w.-]+==)", lock, flags=re.MULTILINE)
    return packages[0] + "".join(one for one in packages[1:] if one.partition("==")[0] in chosen)


def is_current(lock: str, project: str) -> bool:
    """Whether the lock was made for the dependencies that pyproject.toml names."""
    return lock.startswith(head(project))


def _digest(project: str) -> str:
    read = tomllib.loads(project)
    about = read["project"]
    named = (
        about["requires-python"],
        about["dependencies"],
        read["dependency-groups"],
        read["build-system"]["requires"],
    )
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()
