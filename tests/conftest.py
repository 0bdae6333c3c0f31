"""Which API server the tests of whole clusters talk to: the embedded one, or a real one.

`pytest --control-plane real` builds and starts a control plane once a session; see
tests/controlplane.
"""

import gc
import os
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.process.run_until_signal import give_back
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import SimulatedNode
from kubeshare_py.embedded_cluster.serving.cluster import (
    EmbeddedCluster,
    cluster_around,
    embedded_cluster,
)
from tests.budgets import BudgetReport, CpuOfTests, budgets, folder_of
from tests.by_folder import by_folder
from tests.compiled_wheel import modules_from_source
from tests.controlplane.build import build
from tests.controlplane.cleaning import clean, ship_lease
from tests.controlplane.front import front
from tests.controlplane.running import ControlPlane, control_plane
from tests.module_forks import FORKING
from tests.no_go import NoGo
from tests.scale import DEFAULT, choose, is_full, parse
from tests.workers import free_bytes, workers

#: Tests of other projects, run with their installed wheels (tests/release).
collect_ignore = ["release/sample_plugin", "release/sample_dialect"]

NewCluster = Callable[[Path, Sequence[SimulatedNode]], AbstractAsyncContextManager[EmbeddedCluster]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--control-plane", choices=("embedded", "real"), default="embedded")
    parser.addoption(
        "--scale",
        default=DEFAULT,
        help="how much random tests and attacks try: small, full (as in make prove) or a factor",
    )
    parser.addoption(
        "--compiled", action="store_true", help="refuse to run on anything but the compiled wheel"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the scale, before any test module is imported; add up what tests take."""
    seed = config.getoption("--hypothesis-seed")
    try:
        choose(parse(config.getoption("--scale"), seed), repeatable=seed is None)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    if config.getoption("--compiled") and (found := modules_from_source()):
        raise pytest.UsageError(f"not compiled: {', '.join(found)}")
    if config.getoption("--control-plane") == "embedded":
        config.pluginmanager.register(NoGo())
        without_the_systems_certificates()
    config.pluginmanager.register(CpuOfTests())
    # Workers of pytest-xdist report to the process that started them, which adds up.
    if not is_full() and not hasattr(config, "workerinput"):
        embedded = config.getoption("--control-plane") == "embedded"
        chosen = config.option.markexpr.partition(" ")[0]
        by_mark = chosen if chosen in ("slow", "browser") else "test"
        table = by_mark if embedded else "e2e"
        config.pluginmanager.register(BudgetReport(budgets()[table]))


def without_the_systems_certificates() -> None:
    """Let no TLS context, here or in a child, read the authorities of this machine.

    No test talks to a server that has its certificate from one, and to read them takes 20 ms of
    CPU: each start of a program that imports aiohttp, and each new story, would pay it.
    """
    os.environ["SSL_CERT_FILE"] = os.devnull
    os.environ["SSL_CERT_DIR"] = os.devnull


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let no garbage collection look at modules and tests again: they stay until the end."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only the other kind of server, or of wheel, can be asked; each says why."""
    embedded = config.getoption("--control-plane") == "embedded"
    others = ["real_only" if embedded else "embedded_only"]
    if config.getoption("--compiled"):
        others.append("source_only")
    left_out = [item for item in items if any(map(item.get_closest_marker, others))]
    config.hook.pytest_deselected(items=left_out)
    gone = set(map(id, left_out))
    items[:] = [item for item in items if id(item) not in gone]


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> Generator[None, int, int]:
    """Say how many `--numprocesses auto` are. A control plane keeps a core busy by itself."""
    cores = yield
    embedded = config.getoption("--control-plane") == "embedded"
    chosen = "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ
    return workers(cores, free_bytes()) if embedded and not chosen else cores


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Any:
    """Choose who runs what; None leaves it to --dist."""
    return by_folder(config, log) if config.getoption("--control-plane") == "real" else None


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Return to the system what the tests of a folder leave behind, cycles above all."""
    if nextitem is None or folder_of(nextitem.nodeid) != folder_of(item.nodeid):
        gc.collect()
        give_back()


def pytest_sessionfinish() -> None:
    """End the process that forks."""
    FORKING.end()


@pytest.fixture(scope="session")
def full_scale() -> bool:
    """Whether attacks are tried at full scale."""
    return is_full()


@pytest.fixture(scope="session")
def plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane | None]:
    """The real control plane of this session; None when stories use the embedded one."""
    if request.config.getoption("--control-plane") == "embedded":
        yield None
        return
    with control_plane(build(), tmp_path_factory.mktemp("control-plane")) as running:
        yield running


@pytest.fixture
def new_cluster(request: pytest.FixtureRequest, plane: ControlPlane | None) -> NewCluster:
    """Give a story a cluster of its own, without objects of other stories.

    The embedded API server speaks plain HTTP unless the story is marked `tls`: the handshakes of
    44 connections, and what they encrypt, take a third of the CPU of a short story.
    """
    if plane is None:
        return partial(embedded_cluster, tls=request.node.get_closest_marker("tls") is not None)
    return clusters_of(plane)


def clusters_of(running: ControlPlane) -> NewCluster:
    """Clusters on this API server, each made as new."""

    @asynccontextmanager
    async def real_cluster(
        directory: Path, nodes: Sequence[SimulatedNode]
    ) -> AsyncIterator[EmbeddedCluster]:
        async with KubeClient(load(str(running.kubeconfig))) as admin:
            await clean(admin)
            await ship_lease(admin)
        async with (
            front(running, directory) as server,
            cluster_around(server, directory, nodes, controllers=False) as cluster,
        ):
            yield cluster
            # The scheduler's role has every verb that its code uses.
            assert not server.forbidden

    return real_cluster
