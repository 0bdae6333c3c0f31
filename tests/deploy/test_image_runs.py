"""The image of a release, unpacked: its commands run as its user, with nothing of this machine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.release import build, debian, python_packages

COMMANDS = ("scheduler", "collector", "admission", "mps")
IS_DEBIAN = "bookworm" in Path("/etc/os-release").read_text() if shutil.which("apt-get") else False

pytestmark = [
    pytest.mark.real_only("it takes packages of Debian, as a release does"),
    pytest.mark.skipif(
        not IS_DEBIAN or os.geteuid() != 0 or sys.version_info[:2] != python_packages.PYTHON,
        reason="the image is made on Debian 12 with Python 3.11, and only root may change its root",
    ),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of the image, made as a release makes it."""
    scratch, output = tmp_path_factory.mktemp("scratch"), tmp_path_factory.mktemp("output")
    source, downloads = scratch / "source", scratch / "downloads"
    downloads.mkdir()
    build.export(Path(__file__).parents[2], source)
    try:
        build.build(source, scratch, output, version="0", epoch=0, downloads=downloads)
    except debian.Unavailable as error:
        if "Debian may have newer ones" in str(error):
            pytest.skip(f"a pinned package is not to be had any more: {error}")
        raise
    return scratch / "root"


def run(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": "/app", "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    chroot = shutil.which("chroot", path="/usr/sbin:/sbin:/usr/bin") or "chroot"
    return subprocess.run(
        [chroot, "--userspec=65532:65532", str(root), *command],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_starts(root: Path, name: str) -> None:
    done = run(root, "/usr/bin/python3", "-m", f"kubeshare_cmd.{name}", "--help")
    assert done.returncode == 0, done.stderr
    assert f"usage: kubeshare-{name}" in done.stdout


def test_the_embedded_cluster_is_not_there(root: Path) -> None:
    assert [name for name in python_packages.left_out() if (root / "app" / name).exists()] == []


def test_every_module_of_the_standard_library_finds_its_libraries(root: Path) -> None:
    names = [path.name.split(".")[0] for path in root.glob("usr/lib/python3.11/lib-dynload/*.so")]
    assert len(names) > 40
    done = run(root, "/usr/bin/python3", "-c", f"import {', '.join(sorted(names))}")
    assert done.returncode == 0, done.stderr


def test_there_is_no_shell(root: Path) -> None:
    assert not [name for name in ("sh", "bash", "dash") if (root / "usr/bin" / name).exists()]


def test_certificates_of_authorities_are_there(root: Path) -> None:
    script = (
        "import ssl\n"
        f"context = ssl.create_default_context(cafile='/{debian.AUTHORITIES}')\n"
        "print(len(context.get_ca_certs()))"
    )
    assert int(run(root, "/usr/bin/python3", "-c", script).stdout) > 100
