"""From the driver to the pod: nothing is simulated but driver, kubelets and network."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.deploy import whole as everything
from tests.deploy.conftest import Release
from tests.deploy.whole import COLLECTORS, Whole, assembled, made
from tests.stories.conftest import Stage

pytestmark = pytest.mark.real_only("it needs controllers, kube-scheduler, Helm and a Prometheus")

A100, H100 = "NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3"
# With it the API server may go on comparing with the Lease of the test before (install.md).
NO_FENCE = "policies.fence=false"


@pytest.fixture
def described() -> str:
    return everything.described()


@pytest.fixture
async def whole(stage: Stage, release: Release, tmp_path: Path) -> AsyncIterator[Whole]:
    """Everything runs, and the scheduler knows all cards."""
    async with assembled(stage, release, made(tmp_path), tmp_path, NO_FENCE) as found:
        yield found


def names(prefix: str, count: int) -> Iterator[str]:
    return (f"{prefix}-{number}" for number in range(count))


async def test_pods_get_the_cards_that_the_drivers_list(whole: Whole) -> None:
    await whole.ask("all-eight", "8", A100)
    assert await whole.got("all-eight") == ("dgx", whole.cards("dgx"))
    hgx = whole.boards["hgx"]
    # Two of its cards are divided: one into three instances, one into nothing yet.
    await whole.ask("undivided", "6", H100)
    undivided = whole.cards("hgx") - {hgx.uuid(0), hgx.uuid(1)}
    assert await whole.got("undivided") == ("hgx", undivided)
    for name in names("instance", 2):
        await whole.ask(name, "1", f"{H100}-MIG-1g.10gb")
    placed = [await whole.got(name) for name in names("instance", 2)]
    assert {node for node, _ in placed} == {"hgx"}
    assert sorted(uuid for _, [uuid] in placed) == sorted([hgx.part(0, 1), hgx.part(0, 3)])
    for name, model in zip(names("late", 3), (A100, H100, f"{H100}-MIG-1g.10gb"), strict=True):
        await whole.ask(name, "1", model)
        await whole.stage.expect_waiting(name, "Insufficient GPU")
    # One of four cannot even tell how much memory it has.
    await whole.ask("four", "4", "NVIDIA-A100-PCIE-40GB")
    await whole.stage.expect_waiting("four", "too few GPUs")


async def test_a_card_that_falls_off_the_bus_gets_nobody(whole: Whole) -> None:
    dgx = whole.boards["dgx"]
    await whole.ask("stays", "1", A100)
    _, [lost] = await whole.got("stays")
    [index] = [index for index in range(8) if dgx.uuid(index) == lost]
    dgx.lose(index)
    alert = 'ALERTS{alertname="KubeShareCardLost", node="dgx"}'
    await whole.prometheus.expect_eventually(alert, lambda values: values == {lost: 1})
    await whole.prometheus.expect_eventually("kubeshare_cards", lambda values: values == {"": 19})
    for name in names("next", 7):
        await whole.ask(name, "1", A100)
    given = [uuid for name in names("next", 7) for uuid in (await whole.got(name))[1]]
    assert {*given} == whole.cards("dgx") - {lost}
    await whole.ask("eighth", "1", A100)
    await whole.stage.expect_waiting("eighth", "Insufficient GPU")
    assert (await whole.stage.pod("stays"))["status"]["phase"] == "Running"


async def test_the_cards_of_a_node_whose_collector_is_killed_are_kept(whole: Whole) -> None:
    await whole.collectors["dgx"].end(by_force=True)
    up = f'up{{job="{COLLECTORS}"}}'
    await whole.prometheus.expect_eventually(
        up, lambda values: values == {"dgx": 0, "hgx": 1, "old": 1}
    )
    alert = 'ALERTS{alertname="KubeShareCollectorDown"}'
    await whole.prometheus.expect_eventually(alert, lambda values: values == {"dgx": 1})
    await whole.prometheus.expect_eventually(
        "kubeshare_silent_nodes", lambda values: values == {"": 1}
    )
    await whole.ask("all-eight", "8", A100)
    assert await whole.got("all-eight") == ("dgx", whole.cards("dgx"))
