"""What krew unpacks: the command's wheel and its packages in one folder, for several Pythons."""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

#: pip's names of a platform, by krew's.
PLATFORMS: Mapping[str, tuple[str, ...]] = {
    "linux-amd64": ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    "linux-arm64": ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"),
    "darwin-amd64": ("macosx_11_0_x86_64", "macosx_10_15_x86_64", "macosx_10_9_x86_64"),
    "darwin-arm64": ("macosx_11_0_arm64",),
}
#: Compiled modules of each lie beside each other, since their names say what they are for.
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
COMMANDS = {
    "kubectl-kubeshare": "kubeshare_cmd.kubectl_kubeshare",
    "kubectl_complete-kubeshare": "kubeshare_cmd.kubectl_complete",
}
_LAUNCHER = """\
#!/usr/bin/env python3
import sys
from pathlib import Path

if sys.version_info < (3, 11):
    sys.exit("kubectl kubeshare needs Python 3.11 or newer; this is %d.%d" % sys.version_info[:2])
# krew links to this file; what it imports lies beside it.
sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))
from {module} import main

sys.exit(main())
"""


class CannotDownload(Exception):
    """pip has no such wheel. The text is pip's."""


def download(wheel: Path, platform: str, to: Path) -> list[Path]:
    """Folders with what the wheel needs, one for each Python. Raises CannotDownload."""
    folders = []
    for python in PYTHONS:
        folder = to / python
        command = (
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"),
            *("--target", str(folder), "--only-binary=:all:", "--no-compile"),
            *("--implementation=cp", f"--python-version={python}"),
            *(f"--platform={one}" for one in PLATFORMS[platform]),
            str(wheel),
        )
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise CannotDownload(f"{platform}, Python {python}: {done.stderr}")
        folders.append(folder)
    return folders


def assemble(wheel: Path, packages: Iterable[Path], to: Path) -> None:
    """Fill a folder with launchers and everything that they import.

    PyYAML works without its compiled module, which is the largest of all and saves 10 ms.
    """
    library = to / "lib"
    for folder in packages:
        ignored = shutil.ignore_patterns("__pycache__", "bin", "_yaml*.so", "pip", "pip-*")
        shutil.copytree(folder, library, ignore=ignored, dirs_exist_ok=True)
    with zipfile.ZipFile(wheel) as files:
        files.extractall(library)
    for name, module in COMMANDS.items():
        launcher = to / name
        launcher.write_text(_LAUNCHER.format(module=module))
        launcher.chmod(0o755)


def folder_of(wheel: Path, platform: str, to: Path) -> None:
    """Download and assemble. Raises CannotDownload."""
    with tempfile.TemporaryDirectory() as scratch:
        assemble(wheel, download(wheel, platform, Path(scratch)), to)
