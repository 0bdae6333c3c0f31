"""One cluster for all attacks; after each, other tenants must be served as before."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.attacks.attack import Attack, attack_on
from tests.attacks.attacked_cluster import AttackedCluster, attacked_cluster
from tests.controlplane.build import TESTED, build
from tests.controlplane.running import control_plane


@pytest.fixture(scope="package")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedCluster]:
    """A control plane of its own, the rendered chart on it, and the scheduler."""
    folder = tmp_path_factory.mktemp("attacked")
    with (
        control_plane(build(TESTED), folder, identity=False) as plane,
        attacked_cluster(plane, folder) as found,
    ):
        yield found


@pytest.fixture
async def attack(attacked: AttackedCluster) -> AsyncIterator[Attack]:
    async with attack_on(attacked) as found:
        yield found
