"""Any history with plugins that fail now and then: nothing over-committed, nobody forgotten."""

import random

import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_plugins.default_preemption import DefaultPreemption
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.framework.adapters import NodeState, PerNodeFilter, PerNodeScore
from kubeshare_py.framework.profile_making import PluginFactory, profiles
from kubeshare_py.scheduling.machine import Machine
from tests.making.world import World
from tests.scale import seeds
from tests.scheduling.test_any_history import some_steps


class Moody:
    """Fails at one call in five while it is in a mood."""

    def __init__(self, seed: int) -> None:
        self.numbers = random.Random(seed)
        self.is_moody = True

    def fail(self, *_: object) -> None:
        if self.is_moody and self.numbers.random() < 0.2:
            raise RuntimeError("not today")

    def factories(self) -> dict[str, PluginFactory]:
        """Plugins that share this mood."""
        mood = self

        def fits(shape: Shape, node: NodeState) -> bool:
            mood.fail()
            return True

        def points(shape: Shape, node: NodeState) -> int:
            mood.fail()
            return 1

        class Pods:
            name = "MoodyPods"

            def pre_enqueue(self, pod: Pod) -> str | None:
                mood.fail()
                return None

            def permit(self, pod: Pod, node: NodeName) -> str | None:
                mood.fail()
                return None

            def reserve(self, pod: Pod, node: NodeName, allocation: Allocation | None) -> None:
                mood.fail()

            def unreserve(self, pod: Pod, node: NodeName) -> None:
                mood.fail()

        return {
            "MoodyFilter": lambda: PerNodeFilter("MoodyFilter", fits, reason="never"),
            "MoodyScore": lambda: PerNodeScore("MoodyScore", points),
            "MoodyPods": Pods,
        }


def machine(mood: Moody) -> Machine:
    enabled = {
        "filter": ["MoodyFilter"],
        "score": ["MoodyScore"],
        "preEnqueue": ["MoodyPods"],
        "permit": ["MoodyPods"],
        "reserve": ["MoodyPods"],
    }
    plugins: dict[str, object] = {
        point: {"enabled": [{"name": name} for name in names]} for point, names in enabled.items()
    }
    plugins["postFilter"] = {"disabled": [{"name": DefaultPreemption.name}]}
    factories = {**IN_TREE, **mood.factories()}
    document = {"profiles": [{"plugins": plugins}]}
    return Machine(profiles(read(document), factories), "test")


def run(world: World, steps: list[tuple[int, int, int]], seed: int) -> int:
    """Run a history; how often a plugin failed."""
    mood = Moody(seed)
    world.machine = machine(mood)
    failures = world.follow(steps).machine.boundary.failures.total
    mood.is_moody = False
    world.now += 120
    world.settle()
    return failures


@pytest.mark.parametrize("seed", seeds(8))
def test_pods_are_neither_forgotten_nor_placed_twice(seed: int) -> None:
    failures = 0
    for number in range(4):
        world = World()
        failures += run(world, some_steps(seed * 1000 + number, 70), seed)
        assert world.reference.forgotten() == {}
    assert failures, "in some of these histories a plugin fails"
