"""What was written is what happens when it is run again, bit by bit."""

import pytest

from tests.event_log.histories import a_header, played, records_of
from tests.making.busy_world import run
from tests.scale import seeds


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(20))
def test_a_history_with_faults_has_the_same_effects_again(seed: int) -> None:
    world = run(seed)
    again = [*played(records_of(a_header(world), world.log))]
    assert [one for one in again if not one.is_same] == []
    assert [tuple(one.effects) for one in again] == [entry[2] for entry in world.log]
