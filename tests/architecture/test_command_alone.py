"""`kubectl kubeshare` installs alone: a small wheel with what it imports, no scheduler in it."""

import asyncio
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.architecture.test_packaging import run
from tests.edges.served_state import behind_api_server

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/kubectl-kubeshare"
MAX_BYTES = 25 * 2**20
#: What a scheduler needs and this command must not.
HEAVY = ("numpy", "networkx", "kubernetes", "aiohttp", "uvloop", "cryptography", "tenacity")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, FOLDER)
    (built,) = folder.glob("kubectl_kubeshare-*.whl")
    return built


@pytest.fixture(scope="module")
def place(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and its dependencies, as they are in this one."""
    folder = tmp_path_factory.mktemp("alone")
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "--quiet")
    run(*pip, "--no-deps", "--no-index", wheel)
    for name in dependencies("kubectl-kubeshare", packages):
        copy_distribution(name, packages)
    return folder


def dependencies(name: str, packages: Path) -> Iterator[str]:
    """All that a distribution needs, directly or not."""
    (own,) = importlib.metadata.distributions(name=name, path=[str(packages)])
    left, seen = [*(own.requires or ())], set[str]()
    while left:
        needed = Requirement(left.pop())
        if needed.name in seen or (needed.marker and not needed.marker.evaluate({"extra": ""})):
            continue
        seen.add(needed.name)
        yield needed.name
        left += importlib.metadata.distribution(needed.name).requires or ()


def copy_distribution(name: str, to: Path) -> None:
    for file in importlib.metadata.distribution(name).files or ():
        source = Path(str(file.locate()))
        if ".." not in file.parts and source.is_file():
            (to / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, to / file)


def command(place: Path, *arguments: str, name: str = "kubectl-kubeshare") -> tuple[int, str]:
    """Exit code and everything said; with nothing of this environment in sight."""
    done = subprocess.run(
        [place / "bin" / name, *arguments],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=place,
        env={"PATH": os.environ["PATH"], "HOME": str(place)},
    )
    return done.returncode, done.stdout


@pytest.mark.slow
def test_it_needs_less_than_25_mib(place: Path) -> None:
    (packages,) = place.glob("lib/python*/site-packages")
    assert sum(path.stat().st_size for path in packages.rglob("*") if path.is_file()) < MAX_BYTES


def test_nothing_in_it_imports_what_only_a_scheduler_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        names = [name for name in files.namelist() if name.endswith(".py")]
        texts = {name: files.read(name).decode() for name in names}
    assert "kubeshare_py/programs/kubectl_kubeshare.py" in texts
    heavy_rooms = re.compile("/(scheduling|embedded_cluster|cluster)/")
    assert not [name for name in names if heavy_rooms.search(name)]
    imported = re.compile(rf"^\s*(?:import|from) ({'|'.join(HEAVY)})\b", re.MULTILINE)
    assert {
        name: found[1] for name, text in texts.items() if (found := imported.search(text))
    } == {}


@pytest.mark.slow
async def test_every_command_of_it_runs(place: Path, tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        for arguments, said in (
            (("--version",), "kubectl-kubeshare 0."),
            (("gpus",), "n1      0  NVIDIA-A100-SXM4-40GB"),
            (("gpus", "--summary"), "Allocated/Total GPUs In Cluster:"),
            (("gpus", "-d"), "IPADDRESS:  10.0.0.1"),
            (("gpus", "-t"), "It is not known how its cards are joined."),
            (("pods", "-A", "-o", "yaml"), "name: big"),
            (("pods", "-o", "jsonpath={.pods[*].name}"), "one two"),
            (("why", "train"), "It fits on n1 if it asks for at most 20.0 GiB."),
            (("top", "--once"), "waiting:"),
        ):
            given = (*arguments, "--kubeconfig", behind.kubeconfig)
            code, shown = await asyncio.to_thread(command, place, *given)
            assert (code, said in shown) == (0, True), shown
        code, shown = await asyncio.to_thread(command, place, "usage", "--log", "x")
        assert (code, "install kubeshare-py in its place" in shown) == (3, True), shown
        code, shown = await asyncio.to_thread(command, place, "when", "train")
        assert (code, "install kubeshare-py in its place" in shown) == (3, True), shown
        words = ("gpus", "--kubeconfig", behind.kubeconfig, "n")
        completion = "kubectl_complete-kubeshare"
        code, shown = await asyncio.to_thread(command, place, *words, name=completion)
    assert (code, shown) == (0, "n1\nn2\n:4\n")


def test_it_checks_manifests_without_a_cluster(place: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text("kind: Pod\nmetadata: {name: a, labels: {sharedgpu/gpu_request: '0.5'}}\n")
    code, shown = command(place, "check", "-f", str(manifest))
    assert (code, shown) == (0, "pod/a  kubeshare-scheduler  sharedgpu  0.5 GPU, at most 1.0\n")


def test_the_readme_of_it_and_the_version_are_those_of_the_project(wheel: Path) -> None:
    version = re.search(r'(?m)^version = "(.+)"', (ROOT / "pyproject.toml").read_text())
    assert version is not None
    assert f"-{version[1]}-" in wheel.name
