"""Build all files of a release from one folder: wheels, sdist, chart, manifests, image, papers."""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import yaml

from deploy.release import archive, bill, debian, image, python_packages

COMMAND = "deploy/kubectl-kubeshare"
MANIFESTS, CHART, DOCKERFILE = (
    "deploy/kubeshare.yaml",
    "deploy/chart/kubeshare",
    "deploy/Dockerfile",
)
SUMS = "SHA256SUMS"
#: Switches the build hook of compiled modules on; sets in mypyc have one order in every build.
COMPILED = {"HATCH_BUILD_HOOK_ENABLE_CUSTOM": "1", "PYTHONHASHSEED": "0"}


class CannotBuild(Exception):
    """A tool that is called failed. The text is what it said."""


def export(checkout: Path, folder: Path) -> None:
    """Copy what git tracks, as it is in the working tree, and nothing that lies beside it."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=checkout, check=True, capture_output=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(checkout / name, target, follow_symlinks=False)


def build(
    source: Path, scratch: Path, output: Path, *, version: str, epoch: int, downloads: Path
) -> None:
    """Fill `output`, an empty folder, from `source`; `downloads` keeps packages for a second time.

    Raises CannotBuild, debian.Unavailable, python_packages.CannotInstall, image.Unpinned.
    """
    image.check_bases((source / DOCKERFILE).read_text())
    build_python(source, output, epoch)
    chart = archive.tar_of(source / CHART, epoch=epoch, under="kubeshare/")
    packed = archive.gzipped(chart)
    (output / f"kubeshare-{version}.tgz").write_bytes(packed)
    described = (source / CHART / "Chart.yaml").read_text()
    (output / "index.yaml").write_text(chart_index(described, packed, epoch))
    shutil.copyfile(source / MANIFESTS, output / f"kubeshare-{version}.yaml")
    root = scratch / "root"
    packages = debian.pinned((source / "deploy/release" / debian.LOCK.name).read_text())
    debian.unpack(debian.download(packages, downloads), root)
    below = archive.tar_of(root, epoch=epoch)
    [wheel] = output.glob("kubeshare_py-*-none-any.whl")
    python_packages.install(wheel, root)
    app = archive.tar_of(root / "app", epoch=epoch, under="app/")
    parts = bill.parts_of(root)
    (output / f"kubeshare-{version}.cdx.json").write_text(bill.bill(parts, version, epoch))
    (output / f"kubeshare-{version}-licences.txt").write_text(bill.licences(parts, root))
    layers = [("Debian 12: deploy/release/debian.lock", below), ("pip install kubeshare-py", app)]
    layout = scratch / "layout"
    layout.mkdir()
    image.write_layout(
        layers,
        image.settings_of((source / DOCKERFILE).read_text()),
        layout,
        version=version,
        epoch=epoch,
    )
    (output / f"kubeshare-scheduler-{version}-amd64.tar").write_bytes(
        image.layout_tar(layout, epoch)
    )


def chart_index(described: str, packed: bytes, epoch: int) -> str:
    """The index of a chart repository: this folder behind any web server.

    `described` is Chart.yaml, `packed` the package. The format is that of
    https://helm.sh/docs/topics/chart_repository/#the-index-file; addresses without a host are
    below that of the index, so that the folder may be served anywhere.
    """
    chart = yaml.safe_load(described)
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    entry = {
        **chart,
        "created": created,
        "digest": archive.sha256(packed),
        "urls": [f"{chart['name']}-{chart['version']}.tgz"],
    }
    index = {"apiVersion": "v1", "entries": {chart["name"]: [entry]}, "generated": created}
    return yaml.safe_dump(index, sort_keys=True)


def build_python(source: Path, output: Path, epoch: int) -> None:
    """Make the sdist, and the wheels of all programs and of the command alone.

    Raises CannotBuild.
    """
    _python_build(source, output, epoch, "--sdist", "--wheel")
    # Its files come from the rest of the checkout, which an sdist of its own would not have.
    _python_build(source / COMMAND, output, epoch, "--wheel")


def build_compiled(source: Path, output: Path, epoch: int) -> None:
    """Make the wheel of all programs with compiled modules; needs a C compiler.

    Raises CannotBuild.
    """
    _python_build(source, output, epoch, "--wheel", settings=COMPILED)


def compiler() -> str | None:
    """Return the path of the C compiler that extensions of this Python are built with, if any."""
    named = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shutil.which(shlex.split(named)[0])


def sums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file by its name."""
    files = sorted(path for path in folder.iterdir() if path.name != SUMS)
    return {path.name: archive.sha256(path.read_bytes()) for path in files}


def _python_build(
    source: Path,
    output: Path,
    epoch: int,
    *kinds: str,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Make wheel or sdist, or both, with the build backend that is installed here."""
    where = ["--outdir", str(output), str(source)]
    command = [sys.executable, "-m", "build", "--no-isolation", *kinds, *where]
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch), **(settings or {})},
    )
    if done.returncode:
        raise CannotBuild(done.stdout + done.stderr)
