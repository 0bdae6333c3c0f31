"""With the policy that ships the API server itself refuses what a deposed leader sends late.

It comes last: an API server goes on refusing for a moment after a policy is gone.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from tests.controlplane.cleaning import clean
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import ABOUT_BINDINGS, POLICIES, only, write
from tests.faults.chaos_cluster import PODS, ChaosCluster
from tests.faults.conftest import RunScenario
from tests.faults.fast_time import run
from tests.faults.late_binding import ONE_CARD, sent_late
from tests.faults.recovery import NODES, expect_recovery
from tests.policies.conftest import LEASES, binding, expect_let_through, expect_refused, pod

pytestmark = pytest.mark.real_only("the embedded server has no admission policies")
FAULTS = 45


@pytest.fixture(scope="module", autouse=True)
def fence(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The policy in force; nothing of it is left afterwards."""
    folder = tmp_path_factory.mktemp("fence")
    own = plane.secrets.write_kubeconfig(folder / "of-scheduler", plane.url, SCHEDULER)
    policy = write([only(kind, ABOUT_BINDINGS) for kind in POLICIES], folder / "fence.yaml")
    plane.start_server_again()
    plane.create(policy)
    run(partial(expect_known, plane, own, in_force=True), speed=1.0)
    yield
    plane.delete(policy)
    run(partial(expect_known, plane, own, in_force=False), speed=1.0)


async def expect_known(plane: ControlPlane, own: Path, *, in_force: bool) -> None:
    """Wait until the API server knows: servers notice changes late."""
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "kubeshare-scheduler"},
        "spec": {"holderIdentity": "somebody", "leaseTransitions": 1},
    }
    async with KubeClient(load(str(plane.kubeconfig))) as admin, KubeClient(load(str(own))) as us:
        await clean(admin)
        await admin.create(LEASES, lease)
        await admin.create(PODS, pod("probe"))
        late = binding("probe", allocation="{}", fence="nobody/0")
        probe = partial(us.create, f"{PODS}/probe/binding", late, {"dryRun": "All"})
        await (expect_refused(probe) if in_force else expect_let_through(probe))


async def expect_refused_binding(found: ChaosCluster) -> None:
    reference = found.reference
    assert await sent_late(found) == 403
    await found.delete("second")
    assert await reference.until(
        lambda: reference.names() == {"first"} and reference.bound() == 1, found.durations.settles_s
    )
    assert not reference.problems


def test_a_binding_that_a_deposed_leader_sent_is_refused_when_it_arrives(
    run_scenario: RunScenario,
) -> None:
    run_scenario(expect_refused_binding, ONE_CARD, elect=True)


def test_two_schedulers_that_stand_still_and_are_killed(run_scenario: RunScenario) -> None:
    run_scenario(partial(expect_recovery, seed=220, faults=FAULTS, schedulers=2), NODES, elect=True)
