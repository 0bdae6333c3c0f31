"""The Lease that is installed: no upgrade takes it from its holder, and it outlives the release."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubeshare_py.edges.scheduler.leader_lease import LeaseMissing
from tests.controlplane.helm import NAMESPACE
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import MANIFESTS
from tests.deploy.conftest import LEASE, NAME, Release, kubectl
from tests.policies.environment import has_policies
from tests.stories.conftest import Json, Stage

pytestmark = pytest.mark.real_only("it needs Helm")

HELD = {
    "holderIdentity": "kubeshare-scheduler-0-1a2b3c4d",
    "leaseDurationSeconds": 15,
    "leaseTransitions": 7,
    "acquireTime": "2026-11-22T10:00:00.000000Z",
    "renewTime": "2026-11-22T10:00:02.000000Z",
}
OWNER = "meta.helm.sh/release-name"


@pytest.fixture
async def before(bare: ControlPlane, stage: Stage) -> AsyncIterator[Release]:
    """A release that is not installed yet."""
    release = Release(plane=bare, home=stage.folder / "helm")
    yield release
    await asyncio.to_thread(release.helm, "uninstall", release.name, "--ignore-not-found")


async def lease(stage: Stage) -> Json:
    return await stage.client.get(LEASE)


async def hold(stage: Stage) -> None:
    """Write as a leader does: the whole object."""
    await stage.client.replace(LEASE, {**await lease(stage), "spec": HELD})


@pytest.mark.parametrize("apply", ["true", "false"])
async def test_upgrades_and_a_rollback_leave_it_to_its_holder(
    stage: Stage, before: Release, apply: str
) -> None:
    before.values.append(f"--server-side={apply}")
    await before.install()
    made = await lease(stage)
    assert made["spec"] == {}
    assert made["metadata"]["annotations"][OWNER] == before.name
    await hold(stage)
    await before.upgrade('labels={"team":"gpu"}')
    changed = await lease(stage)
    assert (changed["spec"], changed["metadata"]["labels"]["team"]) == (HELD, "gpu")
    await hold(stage)
    await before.upgrade("config.parallelBinds=8")
    done = await asyncio.to_thread(before.helm, "rollback", before.name, "1")
    assert done.returncode == 0, done.stderr
    assert (await lease(stage))["spec"] == HELD


async def test_it_outlives_the_release_and_the_next_takes_it_over(
    stage: Stage, before: Release
) -> None:
    await before.install()
    await hold(stage)
    await before.uninstall()
    assert (await lease(stage))["spec"] == HELD
    await before.install()
    assert (await lease(stage))["spec"] == HELD
    await before.upgrade("config.leaderElection.leaderElect=false", "replicas=1")
    assert (await lease(stage))["spec"] == HELD


async def test_one_that_an_earlier_version_made_stays_as_it_is(
    stage: Stage, before: Release
) -> None:
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": NAME}}
    made = await stage.client.create(LEASE.rpartition("/")[0], {**body, "spec": HELD})
    await before.install()
    await before.upgrade("config.parallelBinds=8")
    assert await lease(stage) == made
    await before.uninstall()
    assert await lease(stage) == made


async def test_one_that_is_gone_comes_back_by_an_upgrade_or_by_what_the_scheduler_says(
    bare: ControlPlane, stage: Stage, before: Release
) -> None:
    await before.install()
    await stage.client.delete(LEASE)
    await before.upgrade()
    assert (await lease(stage))["spec"] == {}
    await stage.client.delete(LEASE)
    said = str(LeaseMissing(NAMESPACE, NAME))
    await kubectl(bare, "create", "--filename=-", given=said.split("'")[1])
    await hold(stage)
    await before.upgrade("config.parallelBinds=8")
    await before.upgrade("config.parallelBinds=16")
    assert (await lease(stage))["spec"] == HELD


async def test_the_plain_manifests_applied_again_leave_it_to_its_holder(
    bare: ControlPlane, stage: Stage, tmp_path: Path
) -> None:
    if not has_policies(bare):
        pytest.skip("the plain manifests are for Kubernetes 1.36 and newer")
    manifests = f"--filename={MANIFESTS}"
    try:
        await kubectl(bare, "apply", manifests)
        await hold(stage)
        await kubectl(bare, "apply", manifests)
        assert (await lease(stage))["spec"] == HELD
        await kubectl(bare, "apply", "--server-side", "--force-conflicts", manifests)
        assert (await lease(stage))["spec"] == HELD
    finally:
        await kubectl(bare, "delete", "--wait=false", "--ignore-not-found", manifests)
