"""docs/dialects.md: a dialect's wheel, installed beside the scheduler, and its own tests."""

import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from kubeshare_py.configuration.scheduler import read
from kubeshare_py.dialects.dialects import IN_TREE
from tests.architecture.sources import ROOT
from tests.release.test_plugin_image import run

SAMPLE = ROOT / "tests/release/sample_dialect"
PAGE = (ROOT / "docs/dialects.md").read_text()
PLACES = f"{ROOT}:{ROOT / 'plugins'}:{ROOT / 'cmd'}"
FIND = """
import sys
from pathlib import Path
from kubeshare_py.edges.process.plugin_entry_points import configured
from kubeshare_py.edges.scheduler.configuration_file import load

found = configured(load(sys.argv[1]))
print(*sorted(found.of("kubeshare-scheduler").resources))
"""
POD = """
kind: Pod
metadata: {name: a}
spec: {containers: [{name: a, resources: {limits: {example.com/half: 1, cpu: 1}}}]}
"""
CHECK = "from kubeshare_cmd.kubectl_kubeshare import main; raise SystemExit(main())"


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    project = shutil.copytree(SAMPLE, folder / "project")
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder)
    run(*build, cwd=project)
    (wheel,) = folder.glob("*.whl")
    offline = ("--no-deps", "--no-index", "--no-cache-dir", "--quiet")
    target = folder / "installed"
    run(sys.executable, "-m", "pip", "install", *offline, "--target", target, wheel, cwd=folder)
    return target


def test_the_pages_code_is_the_samples() -> None:
    assert block("python") == (SAMPLE / "halves.py").read_text()
    assert block("toml") in (SAMPLE / "pyproject.toml").read_text()
    own = (SAMPLE / "test_halves.py").read_text()
    assert own.startswith(block("python test"))


@pytest.mark.slow
def test_the_samples_tests_pass_with_its_wheel(installed: Path, tmp_path: Path) -> None:
    tests = shutil.copy(SAMPLE / "test_halves.py", tmp_path)
    path = f"{installed}:{PLACES}"
    done = run(sys.executable, "-m", "pytest", "-q", tests, cwd=tmp_path, PYTHONPATH=path)
    assert "3 passed" in done.stdout


@pytest.mark.slow
def test_the_pages_profile_enables_the_installed_dialect(installed: Path, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(block("yaml"))
    assert len(read(yaml.safe_load(block("yaml"))).profiles[0].dialects) == 2
    path = f"{installed}:{PLACES}"
    found = run(sys.executable, "-c", FIND, file, cwd=tmp_path, PYTHONPATH=path)
    assert found.stdout == "corp.example/half\n"
    command = (sys.executable, "-m", "kubeshare_cmd.scheduler", "--check-config", "--config", file)
    assert "resource: corp.example/half" in run(*command, cwd=tmp_path, PYTHONPATH=path).stdout
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(POD)
    check = (sys.executable, "-c", CHECK, "check", "-f", manifest)
    found = run(*check, cwd=tmp_path, PYTHONPATH=path)
    first, *notes = found.stdout.splitlines()
    assert first.split()[:3] == ["pod/a", "kubeshare-scheduler", "halves"]
    assert "does not enable dialect halves: add it to the profile" in notes[-1]
    renamed = run(*check, "--config", file, cwd=tmp_path, PYTHONPATH=path)
    assert "no GPU" in renamed.stdout, "the profile has another name for the resource"
    missing = run(*command, cwd=tmp_path, expected=2, PYTHONPATH=PLACES)
    names = ", ".join(sorted(IN_TREE))
    assert f"profiles[0].dialects[1].name: no dialect halves; there are {names}" in missing.stderr
