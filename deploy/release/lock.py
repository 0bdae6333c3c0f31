"""Pin what the image is made of, as it is today (make release-lock)."""

import sys
from pathlib import Path

from deploy.release import debian, python_packages

ROOT = Path(__file__).parents[2]
_HEAD = "# Debian 12 in the image: name, version, SHA-256. Made by `make release-lock`.\n"


def main() -> int:
    """Write both locks; packages of Debian are those that the lock names already."""
    names = [one.name for one in debian.pinned(debian.LOCK.read_text())]
    try:
        packages = debian.current(names)
        python = python_packages.lock(ROOT / "pyproject.toml")
    except (debian.Unavailable, python_packages.CannotInstall) as error:
        print(error, file=sys.stderr)
        return 1
    lines = [f"{one.name} {one.version} {one.digest}\n" for one in packages]
    debian.LOCK.write_text(_HEAD + "".join(lines))
    python_packages.LOCK.write_text(python)
    print(f"pinned {len(packages)} packages of Debian and {python.count('==')} of Python")
    return 0


if __name__ == "__main__":
    sys.exit(main())
