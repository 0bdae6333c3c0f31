"""Scenarios in a chaos cluster: on the embedded server in fast time, or on a real control plane."""

import gc
from collections.abc import Awaitable
from pathlib import Path
from typing import Protocol, Unpack

import pytest

from tests.controlplane.running import ControlPlane
from tests.faults.chaos_cluster import (
    EVENT_LOG,
    ChaosCluster,
    Options,
    chaos_cluster,
    durations_of,
)
from tests.faults.durations import FAST_TIME
from tests.faults.fast_time import run
from tests.faults.same_again import expect_same_effects_again


class Scenario(Protocol):
    """What happens in a chaos cluster, and what it expects."""

    def __call__(self, found: ChaosCluster, /) -> Awaitable[None]:
        """Run it; raises if an expectation fails."""


class RunScenario(Protocol):
    """Runs a scenario to its end."""

    def __call__(self, scenario: Scenario, nodes: str, **options: Unpack[Options]) -> None:
        """Run it in a cluster of these nodes."""


@pytest.fixture
def run_scenario(tmp_path: Path, plane: ControlPlane | None) -> RunScenario:
    """Run one scenario on the server that the tests were started for."""

    def ran(scenario: Scenario, nodes: str, **options: Unpack[Options]) -> None:
        async def in_cluster() -> None:
            async with chaos_cluster(tmp_path, nodes, plane, **options) as found:
                await scenario(found)

        try:
            run(in_cluster, durations_of(plane, **options).speed)
        finally:
            # What schedulers listed is kept from the collector; here they come and go.
            gc.unfreeze()
        if durations_of(plane, **options) is FAST_TIME:
            expect_same_effects_again(tmp_path / EVENT_LOG)

    return ran
