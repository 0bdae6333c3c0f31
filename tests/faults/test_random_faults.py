"""Random faults between scheduler and API server: no card over-committed, no pod lost at the end.

`--scale` says how many and how long.
"""

from functools import partial

import pytest

from tests.controlplane.running import ControlPlane
from tests.faults.conftest import RunScenario
from tests.faults.recovery import CRAMPED, NODES, TIGHT, expect_recovery
from tests.scale import scaled, seeds

#: Random histories of a kind at full scale, and faults in each.
HISTORIES, FAULTS, MIN_FAULTS = 4, 500, 200
#: Before a real server, whose time cannot be made faster.
IN_TRUE_TIME = 1 / 3
#: With two schedulers: while none of them leads there is little to spoil.
FAULTS_OF_TWO = scaled(FAULTS // 4, MIN_FAULTS // 4)


def faults_before(plane: ControlPlane | None) -> int:
    faults = scaled(FAULTS, MIN_FAULTS)
    return faults if plane is None else round(faults * IN_TRUE_TIME)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(HISTORIES))
def test_after_random_faults_every_pod_that_fits_is_bound_and_no_card_was_ever_overfull(
    run_scenario: RunScenario, plane: ControlPlane | None, seed: int
) -> None:
    run_scenario(partial(expect_recovery, seed=seed, faults=faults_before(plane)), NODES)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(HISTORIES, first=200))
def test_the_same_where_pods_evict_others(
    run_scenario: RunScenario, plane: ControlPlane | None, seed: int
) -> None:
    run_scenario(
        partial(expect_recovery, seed=seed, faults=faults_before(plane)), TIGHT, preempts=True
    )


@pytest.mark.slow
@pytest.mark.embedded_only("processes that stand still may bind late: see under the fence")
@pytest.mark.parametrize("preempts", [False, True])
@pytest.mark.parametrize("seed", seeds(1, first=100))
def test_the_same_with_two_schedulers_and_late_requests_of_killed_leaders(
    run_scenario: RunScenario, seed: int, preempts: bool
) -> None:
    scenario = partial(expect_recovery, seed=seed, faults=FAULTS_OF_TWO, schedulers=2)
    run_scenario(scenario, CRAMPED if preempts else NODES, elect=True, preempts=preempts)
