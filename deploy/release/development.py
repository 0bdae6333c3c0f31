"""Whether development.lock is for pyproject.toml as it is: python -m deploy.release.development

`make setup` asks, in an environment that has nothing but Python: only its library is used here.
"""

import hashlib
import json
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "pyproject.toml"
LOCK = Path(__file__).with_name("development.lock")
_FOR = "# For the dependencies of pyproject.toml whose SHA-256 is "


def main() -> int:
    """Exit with 0 if it is, else say that it is not."""
    if is_current(LOCK.read_text(), PROJECT.read_text()):
        return 0
    print(f"{LOCK.relative_to(ROOT)} is for other dependencies: make lock", file=sys.stderr)
    return 1


def head(project: str) -> str:
    """The first lines of a lock that is made for this pyproject.toml."""
    made = "# What `make setup` installs. Made by `make lock`.\n"
    return f"{made}{_FOR}{_digest(project)}\n"


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


if __name__ == "__main__":
    sys.exit(main())
