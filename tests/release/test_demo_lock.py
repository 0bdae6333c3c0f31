"""What `make demo` installs: few packages, and all that the demo imports."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from deploy.release import development
from tests.architecture.sources import ROOT

#: 154 MB on Python 3.11; seconds and megabytes depend on the machine and the registry.
MOST_PACKAGES = 52
#: Compilers, checkers, builders, what only tests import; and what is large and not needed.
LEFT_OUT = frozenset(
    {"build", "cel-expr-python", "cyclonedx-python-lib", "grpcio", "grpcio-tools", "hypothesis"}
    | {"import-linter", "kubernetes", "mypy", "pydantic", "pytest", "ruff", "setuptools", "uv"}
)
#: Makes packages that are not in the lock absent, in child processes as well.
ABSENT = """
import importlib.metadata, sys
from importlib.machinery import PathFinder
present = set({present!r})
absent = {{
    module for module, found in importlib.metadata.packages_distributions().items()
    if not any(one.lower().replace("_", "-").replace(".", "-") in present for one in found)
}}
class Present(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name in absent else super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Present
"""


def pinned(lock: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE))


def blocks(lock: str) -> set[str]:
    return set(re.split(r"^(?=[a-z0-9-]+==)", lock, flags=re.MULTILINE)[1:])


def test_the_demos_lock_is_part_of_the_development_lock() -> None:
    project, demo = development.PROJECT.read_text(), development.DEMO_LOCK.read_text()
    assert development.is_current(demo, project), "out of date: make lock"
    assert blocks(demo) < blocks(development.LOCK.read_text())


def test_the_demo_asks_for_what_the_project_depends_on() -> None:
    project = tomllib.loads(development.PROJECT.read_text())
    known = {*project["project"]["dependencies"], *project["build-system"]["requires"]}
    wanted = project["dependency-groups"]["demo"]
    assert [one for one in wanted if one not in known] == []


def test_the_demo_installs_few_packages_and_no_tools() -> None:
    found = pinned(development.DEMO_LOCK.read_text())
    assert not found & LEFT_OUT
    assert len(found) <= MOST_PACKAGES


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """For a Python in which no other packages than the demo's are."""
    ours = {*pinned(development.DEMO_LOCK.read_text()), "kubeshare-py"}
    present = {canonicalize_name(name) for name in ours}
    (tmp_path / "sitecustomize.py").write_text(ABSENT.format(present=sorted(present)))
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}


def run(environment: dict[str, str], *command: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )
    return done.returncode, done.stdout


@pytest.mark.slow
def test_the_demo_places_its_pods_with_what_it_installs(
    environment: dict[str, str], tmp_path: Path
) -> None:
    options = ("--plain", "--seconds", "3", "--directory", str(tmp_path / "demo"))
    code, shown = run(environment, "kubeshare_cmd.demo", *options)
    assert (code, "Traceback" in shown) == (0, False), shown
    assert len(re.findall(r" bound to .* GPU ", shown)) > 5, shown


@pytest.mark.slow
@pytest.mark.parametrize("command", ["scheduler", "node_agent"])
def test_a_command_beside_the_demo_reads_a_pods_account_without_the_package_kubernetes(
    environment: dict[str, str], command: str
) -> None:
    # As in a pod, which has no token here.
    environment |= {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
    environment.pop("KUBECONFIG", None)
    code, shown = run(environment, f"kubeshare_cmd.{command}")
    assert (code, "Traceback" in shown) == (3, False), shown
    assert "service account /var/run/secrets/kubernetes.io/serviceaccount: " in shown
