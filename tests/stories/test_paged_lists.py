"""An API server that cannot begin a watch with the list (its gate WatchList is off)."""

from collections.abc import Iterator

import pytest

from tests.conftest import NewCluster, clusters_of
from tests.controlplane.running import ControlPlane
from tests.controlplane.second_server import second_server
from tests.stories.conftest import PODS, Stage, gpu

pytestmark = pytest.mark.real_only("the embedded API server has no feature gates")

#: More than a page.
CROWD = 520
CLUSTER = "nodes: [{name: n1, gpus: [{model: T4, count: 1, memory: 16GiB}]}]"


@pytest.fixture(scope="module")
def older(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("older")
    with second_server(plane, folder, "--feature-gates=WatchList=false") as running:
        yield running


@pytest.fixture
def new_cluster(older: ControlPlane) -> NewCluster:
    return clusters_of(older)


def lists(stage: Stage, *words: str) -> int:
    """How often pods were asked for with all of these in the query."""
    queries = [one.query for one in stage.requests if one.path == "/api/v1/pods"]
    return sum(all(word in query for word in words) for query in queries)


async def test_pods_are_listed_by_pages_and_watched_from_there(empty_stage: Stage) -> None:
    stage = empty_stage
    for number in range(CROWD):
        await stage.create(f"crowd-{number}", schedulerName="nobody")
    async with stage.scheduler():
        await stage.create("a", gpu("1"))
        await stage.expect_running("a")
        assert lists(stage, "limit", "continue")
        await stage.expect_deleted("a")
        await stage.create("b", gpu("1"))
        await stage.expect_running("b")
    assert lists(stage, "sendInitialEvents") <= 4  # the observer, a kubelet, and twice ours


async def test_what_went_away_unseen_is_missed_from_the_next_list(stage: Stage) -> None:
    await stage.create("a", gpu("1"))
    await stage.expect_running("a")
    await stage.create("b", gpu("1"))
    await stage.expect_waiting("b")
    before = lists(stage, "limit")
    stage.cluster.server.cut_watches()
    await stage.client.delete(f"{PODS}/a", grace_period_s=0)
    stage.cluster.server.compact()
    await stage.expect_running("b")
    assert lists(stage, "limit") > before
