"""docs/install.md: a plugin's wheel in the image, and the scheduler that finds it."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml

from deploy.release import image, python_packages
from tests.architecture.sources import ROOT

SAMPLE = ROOT / "tests/release/sample_plugin"
INSTALL = (ROOT / "docs/install.md").read_text()
PAGE = INSTALL.split("\n## A plugin in the image\n")[1].split("\n## ")[0]
PLUGINS = (ROOT / "docs/plugins.md").read_text()
PACKAGES = {"kubeshare_py": ".", "kubeshare_plugins": "plugins", "kubeshare_cmd": "cmd"}


def block(language: str, text: str = PAGE) -> str:
    found = re.search(rf"^ *```{language}\n(.*?)```", text, re.DOTALL | re.MULTILINE)
    assert found is not None
    return textwrap.dedent(found[1])


def run(
    *command: str | Path, cwd: Path, expected: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command,
        check=False,
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **environment},
    )
    assert done.returncode == expected, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    project = shutil.copytree(SAMPLE, folder / "project")
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder)
    run(*build, cwd=project)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def plain_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image's file tree, but for packages of others, which are this environment's."""
    root = tmp_path_factory.mktemp("image")
    for name, place in PACKAGES.items():
        shutil.copytree(ROOT / place / name, root / "app" / name)
    shutil.copytree(ROOT / "config", root / "app/kubeshare_py/config")
    python_packages.leave_out(root / "app")
    return root


@pytest.fixture(scope="module")
def root(wheel: Path, plain_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree after the page's Dockerfile: its RUN and COPY lines, in folders in place of /."""
    context, stage = wheel.parent, tmp_path_factory.mktemp("stage")
    final = shutil.copytree(plain_root, tmp_path_factory.mktemp("final") / "root")
    below = stage
    for line in block("dockerfile").splitlines():
        instruction, _, rest = line.partition(" ")
        if instruction == "FROM":
            below = stage if rest.endswith("AS build") else final
        elif instruction == "COPY" and rest.startswith("--from=build "):
            source, target = rest.split()[1:]
            shutil.copytree(stage / source[1:], below / target[1:], dirs_exist_ok=True)
        elif instruction == "COPY":
            pattern, target = rest.split()
            (below / target[1:]).mkdir(parents=True)
            for path in context.glob(pattern):
                shutil.copy(path, below / target[1:])
        elif instruction == "RUN":
            command = rest.replace("pip ", "python -m pip ", 1) if rest[:4] == "pip " else rest
            command = command.replace("python ", f"{shlex.quote(sys.executable)} ", 1)
            run("sh", "-c", command.replace(" /", f" {shlex.quote(str(below))}/"), cwd=below)
    return final


def scheduler(
    root: Path, *arguments: str | Path, expected: int = 0
) -> subprocess.CompletedProcess[str]:
    """Start what the image starts, with the environment that it has, as far as this can be done."""
    settings = image.settings_of((ROOT / "deploy/Dockerfile").read_text())
    environment = dict(one.split("=", 1) for one in settings.environment)
    assert environment["PYTHONPATH"] == "/app"
    environment["PYTHONPATH"] = str(root / "app")
    command = (sys.executable, *settings.entrypoint[1:], *arguments)
    return run(*command, cwd=root, expected=expected, **environment)


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    path = tmp_path / "scheduler.yaml"
    path.write_text(block("yaml"))
    return path


@pytest.mark.slow
def test_the_scheduler_of_the_image_finds_the_plugin(root: Path, configuration: Path) -> None:
    printed = scheduler(root, "--check-config", "--config", configuration).stdout
    (profile,) = yaml.safe_load(printed)["profiles"]
    assert {"name": "CheapNodes", "weight": 5} in profile["plugins"]["score"]["enabled"]
    assert (root / "app/cheap_nodes.py").is_file()
    assert list((root / "app/__pycache__").glob("cheap_nodes.*.pyc"))
    assert not (root / "app/kubeshare_py/embedded_cluster").exists()


@pytest.mark.slow
def test_the_samples_own_tests_pass_with_the_installed_wheel(root: Path, tmp_path: Path) -> None:
    for path in SAMPLE.glob("test_*.py"):
        shutil.copy(path, tmp_path)
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull)
    shown = run(*command, "--rootdir", tmp_path, tmp_path, cwd=root, PYTHONPATH=str(root / "app"))
    assert "2 passed" in shown.stdout


def test_the_sample_is_what_the_page_shows() -> None:
    shown = {
        "cheap_nodes": "python",
        "test_cheap_nodes": "python test",
        "few_pods": "python columns",
    }
    for module, language in shown.items():
        assert (SAMPLE / f"{module}.py").read_text() == block(language, PLUGINS), module
    entry = block("toml", PLUGINS).strip()
    assert entry in (SAMPLE / "pyproject.toml").read_text()


def test_the_values_of_the_page_are_the_charts() -> None:
    values = yaml.safe_load(block("yaml values"))
    chart = yaml.safe_load((ROOT / "deploy/chart/kubeshare/values.yaml").read_text())
    assert values.keys() <= chart.keys()
    assert values["image"].keys() <= chart["image"].keys()
    assert "image" in chart["collector"]
    assert values["extraPlugins"] == ["CheapNodes"]


@pytest.mark.slow
def test_no_test_framework_is_needed_in_the_image(plain_root: Path) -> None:
    asked = "import sys, kubeshare_py.plugin, kubeshare_py.testing; print(*sys.modules)"
    app = str(plain_root / "app")
    shown = run(sys.executable, "-c", asked, cwd=plain_root, PYTHONPATH=app).stdout.split()
    assert "kubeshare_py.testing" in shown
    assert not {"pytest", "_pytest", "hypothesis", "kubeshare_plugins"} & {*shown}
