"""Build the compiled wheel, and a place for the tests of it: python -m deploy.release.compiled

FOLDER (.compiled) gets the wheel in `wheel`; an environment with it in `environment`, which sees
the packages of the environment that runs this; and in `tree` what git tracks but the packages, so
that tests there can import nothing but the wheel. Without a C compiler it ends with exit code 3 and
one line that says so.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

from deploy.release import build, compiled_modules

ROOT = Path(__file__).parents[2]
DONE, FAILED, NO_COMPILER = 0, 1, 3
#: What the wheel has instead.
PACKAGES = ("kubeshare_py", "plugins", "cmd")


def main() -> int:
    """Build, install, copy; say what and for how long."""
    parser = argparse.ArgumentParser(
        prog="make compiled",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / ".compiled")
    parser.add_argument("--tests", action="store_true", help="only copy the tests anew")
    options = parser.parse_args()
    folder = options.folder
    if options.tests:
        tree(folder / "tree")
        return DONE
    found = build.compiler()
    if found is None:
        print("not run: there is no C compiler (cc)", file=sys.stderr)
        return NO_COMPILER
    modules = compiled_modules.compiled(ROOT)
    print(f"compiling {len(modules)} modules with mypyc and {found} ...", flush=True)
    began_s = time.monotonic()
    try:
        wheel = build_wheel(ROOT, folder / "wheel")
    except build.CannotBuild as error:
        print(error, file=sys.stderr)
        return FAILED
    took_s = time.monotonic() - began_s
    size = wheel.stat().st_size / 10**6
    print(f"{wheel.name}: {size:.1f} MB, {took_s:.0f} s", flush=True)
    environment(folder / "environment", wheel)
    tree(folder / "tree")
    print(f"installed into {os.path.relpath(folder / 'environment')}", flush=True)
    return DONE


def build_wheel(source: Path, folder: Path) -> Path:
    """Build the compiled wheel as the only file of a folder. Raises CannotBuild."""
    shutil.rmtree(folder, ignore_errors=True)
    build.build_compiled(source, folder, int(time.time()))
    [wheel] = folder.glob("*.whl")
    return wheel


def environment(folder: Path, wheel: Path) -> None:
    """Make an environment with this wheel; all else comes from the one that runs this."""
    venv.EnvBuilder(clear=True, symlinks=True).create(folder)
    python = folder / "bin/python"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    install = ["--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*pip, *install], check=True)
    # After pip, which would find the project there. Paths in it are not read: the editable project
    # is not seen.
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "tools.pth").write_text(f"{sysconfig.get_path('purelib')}\n")


def tree(folder: Path) -> None:
    """Copy what git tracks, but the packages; pytest's memory of what failed stays."""
    for path in folder.glob("[!.]*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    build.export(ROOT, folder)
    for name in PACKAGES:
        shutil.rmtree(folder / name)


if __name__ == "__main__":
    sys.exit(main())
