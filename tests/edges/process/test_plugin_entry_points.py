"""Plugins of other distributions, installed for real and used by another process."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.module_forks import fork

ROOT = Path(__file__).parents[3]

PYPROJECT = """
    [build-system]
    requires = ["hatchling"]
    build-backend = "hatchling.build"

    [project]
    name = "kubeshare-cheap-nodes"
    version = "1.2"

    [project.entry-points."kubeshare.plugins"]
    CheapNodes = "cheap_nodes:CheapNodes"

    [tool.hatch.build.targets.wheel]
    include = ["cheap_nodes.py"]
"""
MODULE = """
    from kubeshare_py.plugin import NodeState, PerNodeScore
    from kubeshare_py.domain.pod import Shape


    class CheapNodes(PerNodeScore):
        def __init__(self, label: str = "price") -> None:
            def points(shape: Shape, node: NodeState) -> int:
                return 100 - int(node.label(label) or 100)

            super().__init__("CheapNodes", points)
"""
PLACE = """
    import sys
    from kubeshare_plugins import IN_TREE
    from kubeshare_py.domain.effects import Bind
    from kubeshare_py.domain.events import BindSlotsFree, NodesListed, PodSeen, PodsListed
    from kubeshare_py.edges.process.plugin_entry_points import with_entry_points
    from kubeshare_py.configuration.scheduler import read
    from kubeshare_py.framework.profile_making import profiles
    from kubeshare_py.scheduling.machine import Machine
    from tests.making import a_node, a_pod

    enabled = [{"name": name} for name in sys.argv[1:2]]
    document = {
        "profiles": [
            {
                "plugins": {"score": {"enabled": enabled, "disabled": [{"name": "*"}]}},
                "pluginConfig": [{"name": n, "args": {"label": "euro"}} for n in sys.argv[1:2]],
            }
        ]
    }
    machine = Machine(profiles(read(document), with_entry_points(IN_TREE)), "test")
    prices = {"dear": "70", "fair": "20", "plain": "50"}
    nodes = [a_node(name, labels={"euro": price}) for name, price in prices.items()]
    for event in (PodsListed((), 0.0), NodesListed(tuple(nodes)), PodSeen(a_pod())):
        machine.handle(event, 0.0)
    effects = machine.handle(BindSlotsFree(1), 0.0)
    print(*[effect.node for effect in effects if isinstance(effect, Bind)])
"""


def python(script: str, *arguments: str, also: Path) -> str:
    """What a process prints that sees our sources and the distributions in a folder."""
    parts = [str(ROOT), str(ROOT / "plugins"), str(also)]
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(parts)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()


async def found(also: Path) -> str:
    """What found_plugins.py prints of the distributions in this folder."""
    made = await fork("tests.edges.process.found_plugins", folder=also)
    shown, said = await made.communicate()
    assert made.returncode == 0, said.decode()
    return shown.decode().strip()


def distribution(folder: Path, name: str, entry: str, module: str = "") -> None:
    """A distribution as an installer leaves it: metadata and one module."""
    metadata = folder / f"{name}-0.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    (metadata / "entry_points.txt").write_text(f"[kubeshare.plugins]\n{entry}\n")
    (folder / f"{name}.py").write_text(module)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    (source / "pyproject.toml").write_text(textwrap.dedent(PYPROJECT))
    (source / "cheap_nodes.py").write_text(textwrap.dedent(MODULE))
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir")
    install = ("pip", "install", "-q", "--disable-pip-version-check", *offline)
    subprocess.run(
        [sys.executable, "-m", *install, "--target", str(target), str(source)],
        check=True,
        capture_output=True,
    )
    return target


@pytest.mark.slow
async def test_an_installed_plugin_is_found_by_its_name(installed: Path) -> None:
    assert await found(installed) == "CheapNodes"


@pytest.mark.slow
def test_a_profile_that_names_it_sends_pods_elsewhere(installed: Path) -> None:
    assert python(PLACE, also=installed) == "dear"  # the first by name: all score alike
    assert python(PLACE, "CheapNodes", also=installed) == "fair"


async def test_without_other_distributions_there_are_only_in_tree_plugins(tmp_path: Path) -> None:
    assert await found(tmp_path) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "module", "problem"),
    [
        pytest.param(
            "Gone = nowhere:Gone",
            "",
            "ModuleNotFoundError: No module named 'nowhere'",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "Gone = broken:Gone",
            "raise SystemExit('not without me')",
            "SystemExit: not without me",
        ),
        pytest.param(
            "Gone = broken:Gone",
            "",
            "AttributeError: module 'broken' has no attribute 'Gone'",
            marks=pytest.mark.long,
        ),
        ("Bad = broken:Bad", "raise RuntimeError('no driver')", "RuntimeError: no driver"),
        ("Bad = broken:Bad", "Bad = 3", "is no class or function that makes a plugin"),
        ("BinPack = broken:B", "class B: ...", "kubeshare-py has a plugin of that name already"),
    ],
)
async def test_a_plugin_that_cannot_be_used_names_its_distribution(
    tmp_path: Path, entry: str, module: str, problem: str
) -> None:
    distribution(tmp_path, "broken", entry, module)
    where = f"broken 0.1: entry point {entry} of kubeshare.plugins: "
    assert await found(tmp_path) == where + problem


async def test_two_distributions_cannot_offer_the_same_name(tmp_path: Path) -> None:
    distribution(tmp_path, "one", "Same = one:Same", "class Same: ...")
    distribution(tmp_path, "two", "Same = two:Same", "class Same: ...")
    assert await found(tmp_path) == (
        "two 0.1: entry point Same = two:Same of kubeshare.plugins: "
        "one 0.1 has a plugin of that name already"
    )
