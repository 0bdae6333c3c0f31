"""The arena once for all attacks; each is judged by what other tenants have of it."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.attacks.arena import Arena, arena
from tests.attacks.ground import Ground, ground_of
from tests.controlplane.build import TESTED, build
from tests.controlplane.running import control_plane


@pytest.fixture(scope="package")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """A control plane of its own, the rendered chart on it, and the scheduler."""
    folder = tmp_path_factory.mktemp("arena")
    with (
        control_plane(build(TESTED), folder, identity=False) as plane,
        arena(plane, folder) as found,
    ):
        yield found


@pytest.fixture
async def ground(attacked: Arena) -> AsyncIterator[Ground]:
    async with ground_of(attacked) as found:
        yield found
