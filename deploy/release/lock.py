"""Pin what the image and our tools are made of, as it is today.

make lock pins packages of Python, anywhere; make release-lock those of Debian too, on Debian 12.
"""

import argparse
import sys
from pathlib import Path

from deploy.release import debian, development, python_packages

_HEAD = "# Debian 12 in the image: name, version, SHA-256. Made by `make release-lock`.\n"


def main() -> int:
    """Write all locks; packages of Debian are those that the lock names already."""
    parser = argparse.ArgumentParser(prog="make lock", description=__doc__)
    parser.add_argument("--python", action="store_true", help="leave Debian's packages as they are")
    options = parser.parse_args()
    try:
        texts = python_locks()
        if not options.python:
            texts[debian.LOCK] = debian_lock()
    except (debian.Unavailable, python_packages.CannotInstall) as error:
        print(error, file=sys.stderr)
        return 1
    for path, text in texts.items():
        path.write_text(text)
        print(f"pinned {text.count('==') or text.count(chr(10)) - 1} packages in {path.name}")
    return 0


def python_locks() -> dict[Path, str]:
    """The locks of Python's packages. Raises CannotInstall."""
    project = development.PROJECT
    everything = python_packages.development_lock(project)
    return {
        python_packages.LOCK: python_packages.lock(project),
        python_packages.BUILD_LOCK: python_packages.build_lock(project),
        development.LOCK: everything,
        development.DEMO_LOCK: python_packages.demo_lock(project, everything),
    }


def debian_lock() -> str:
    """The lock of Debian's packages. Raises Unavailable."""
    names = [one.name for one in debian.pinned(debian.LOCK.read_text())]
    packages = debian.current(names)
    return _HEAD + "".join(f"{one.name} {one.version} {one.digest}\n" for one in packages)


if __name__ == "__main__":
    sys.exit(main())
