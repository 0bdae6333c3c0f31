"""What Helm says of the cluster that it installs into."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from tests.controlplane.running import ControlPlane
from tests.deploy.conftest import Release
from tests.stories.conftest import Stage

pytestmark = pytest.mark.real_only("it needs Helm")


@pytest.fixture
async def before(bare: ControlPlane, stage: Stage) -> AsyncIterator[Release]:
    """A release that is not installed yet."""
    release = Release(plane=bare, home=stage.folder / "helm")
    yield release
    await asyncio.to_thread(release.helm, "uninstall", release.name, "--ignore-not-found")


def on(label: str, *values: str) -> str:
    """The setting by which collectors run on nodes with such a label."""
    term = {"matchExpressions": [{"key": label, "operator": "In", "values": values}]}
    required = {"nodeSelectorTerms": [term]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return f"collector.affinity={json.dumps(affinity)}"


async def test_the_notes_say_when_no_node_has_a_label_of_collectors(before: Release) -> None:
    lacking = "No node has a label that collectors look for"
    assert lacking in await before.install(on("example.com/gpu", "true"))
    assert lacking in await before.upgrade(on("kubernetes.io/hostname", "n9"))
    assert lacking not in await before.upgrade(on("kubernetes.io/hostname", "n1", "n9"))
