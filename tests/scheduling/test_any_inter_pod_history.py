"""Any history of pods near, far and spread: every placement holds, and no pod waits that fits."""

import pytest

from tests.making.inter_pod_world import NODES, InterPodWorld
from tests.scale import scaled

STEPS = 60


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(scaled(400, 12)))
@pytest.mark.parametrize("preempts", [False, True])
def test_every_placement_holds_and_no_pod_waits_that_fits(seed: int, preempts: bool) -> None:
    world = InterPodWorld(seed, preempts=preempts)
    for _ in range(STEPS):
        world.step()
    world.settle()
    assert world.placements > 3
    for pod in world.waiting():
        fits = [name for name in NODES if world.refusal(pod, name) is None]
        assert fits == [], pod
