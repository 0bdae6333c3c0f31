"""The image without the embedded cluster: nothing that stays in it needs what is left out."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

from deploy.release import python_packages
from tests.architecture.sources import ROOT
from tests.deploy.test_image_runs import COMMANDS

PACKAGES = {"kubeshare_py": ".", "kubeshare_plugins": "plugins", "kubeshare_cmd": "cmd"}
#: The only module that stays and asks for one that does not: it says what to install.
DEMO = "kubeshare_cmd.demo"
#: Modules that programs run as processes of their own.
CHILDREN = (
    "inventory.prometheus_child",
    "inventory.scrape_child",
    "node.card_child",
    "node.mps_child",
)


def python(app: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the image's modules in place of the checkout's."""
    return subprocess.run(
        [sys.executable, *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=app,
        env={**os.environ, "PYTHONPATH": str(app), "PYTHONSAFEPATH": "1"},
    )


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files without those that the image leaves out."""
    folder = tmp_path_factory.mktemp("app")
    for name, place in PACKAGES.items():
        shutil.copytree(ROOT / place / name, folder / name)
    shutil.copytree(ROOT / "config", folder / "kubeshare_py/config")
    python_packages.leave_out(folder)
    return folder


@pytest.mark.slow
def test_no_module_that_stays_imports_one_that_does_not(app: Path) -> None:
    imports = grimp.build_graph(*PACKAGES, cache_dir=None)
    stays = {".".join(path.relative_to(app).with_suffix("").parts) for path in app.rglob("*.py")}
    stays |= {name.removesuffix(".__init__") for name in stays}
    asked = {
        (name, gone)
        for gone in imports.modules - stays
        for name in imports.find_modules_that_directly_import(gone) & stays
    }
    assert {name for name, _ in asked} == {DEMO}


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [
        *(f"kubeshare_cmd.{name}" for name in (*COMMANDS, "kubectl_kubeshare", "kubectl_complete")),
        *(f"kubeshare_py.edges.{name}" for name in CHILDREN),
    ],
)
def test_every_program_of_the_image_is_imported_without_them(app: Path, module: str) -> None:
    done = python(app, "-c", f"import {module} as found; print(found.__file__)")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(app)


def test_the_embedded_cluster_does_not_stay(app: Path) -> None:
    left = {path.relative_to(app).as_posix() for path in app.rglob("*.py")}
    words = ("embedded", "demo")
    found = [name for name in sorted(left) if any(word in name for word in words)]
    assert found == ["kubeshare_cmd/demo.py"]


@pytest.mark.slow
def test_the_demo_without_its_cluster_says_what_to_install(app: Path) -> None:
    done = python(app, "-m", DEMO, "--plain")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("kubeshare-demo: the embedded cluster is not installed")
    assert "pip install ." in line


def test_a_path_that_is_not_there_any_more_is_said(tmp_path: Path) -> None:
    with pytest.raises(python_packages.CannotInstall, match=r"kubeshare_py/config is not in"):
        python_packages.leave_out(tmp_path)


def test_the_dockerfile_leaves_out_the_same() -> None:
    dockerfile = (ROOT / "deploy/Dockerfile").read_text()
    lines = f"grep -v '^#' deploy/release/{python_packages.LEFT_OUT.name}"
    assert f"{lines} | (cd /app && xargs rm -r)" in dockerfile
