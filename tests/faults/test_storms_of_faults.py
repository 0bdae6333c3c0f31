"""Storms between scheduler and API server: no card over-committed, no pod lost, calm at the end.

KUBESHARE_STORM_SEEDS=100 runs more seeds, KUBESHARE_STORM_FAULTS=2000 makes each longer.
"""

import math
import os
from functools import partial

import pytest

from tests.controlplane.running import ControlPlane
from tests.faults.conftest import Play
from tests.faults.survival import CRAMPED, NODES, TIGHT, survive

_GIVEN = os.environ.get("KUBESHARE_STORM_SEEDS", "")
SEEDS, OF_TWO = int(_GIVEN or 4), max(1, int(_GIVEN or 4) // 5)
#: Storms before a real server, whose time cannot be made faster, unless their number is given.
BEFORE_A_REAL_ONE = SEEDS if _GIVEN else 1
#: Of all storms with one scheduler together: each goes on until it had its part.
LEAST_FAULTS = 2000
FAULTS = max(math.ceil(LEAST_FAULTS / SEEDS), int(os.environ.get("KUBESHARE_STORM_FAULTS", "500")))
#: With two schedulers: while none of them leads there is little to spoil.
FAULTS_OF_TWO = FAULTS // 4


def seeds(first: int = 0) -> list[object]:
    """As many as asked for, not all of them in true time."""
    long = pytest.mark.embedded_only("takes ten times as long: KUBESHARE_STORM_SEEDS runs it")
    return [
        pytest.param(first + number, marks=() if number < BEFORE_A_REAL_ONE else long)
        for number in range(SEEDS)
    ]


@pytest.mark.parametrize("seed", seeds())
def test_after_a_storm_every_pod_that_fits_is_bound_and_no_card_was_ever_overfull(
    play: Play, plane: ControlPlane | None, seed: int
) -> None:
    faults = FAULTS if plane is None else FAULTS // 3
    play(partial(survive, seed=seed, faults=faults), NODES)


@pytest.mark.parametrize("seed", seeds(200))
def test_the_same_where_pods_evict_others(
    play: Play, plane: ControlPlane | None, seed: int
) -> None:
    faults = FAULTS if plane is None else FAULTS // 3
    play(partial(survive, seed=seed, faults=faults), TIGHT, preempts=True)


@pytest.mark.embedded_only("processes that stand still may bind late: see under the fence")
@pytest.mark.parametrize("preempts", [False, True])
@pytest.mark.parametrize("seed", range(100, 100 + OF_TWO))
def test_the_same_with_two_schedulers_and_late_requests_of_killed_leaders(
    play: Play, seed: int, preempts: bool
) -> None:
    story = partial(survive, seed=seed, faults=FAULTS_OF_TWO, schedulers=2)
    play(story, CRAMPED if preempts else NODES, elect=True, preempts=preempts)
