"""Which back-ends are known to work on a card, which not to, and which are not known."""

from typing import Any

import pytest

from kubeshare_py.domain.card_reading import CardReading, Signs
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.domain.readiness import Lack, lack_of
from kubeshare_py.node_agent.needs import readiness
from tests.node_agent.readings import a_card

CARD, INSTANCE = a_card("GPU-a"), a_card("MIG-a", parent="GPU-a")
DRIVER, MPS, GEMINI = IsolationBackend.DRIVER, IsolationBackend.MPS, IsolationBackend.GEMINI
GOOD = {"cgroup_v2": True, "memory_hook": True}


@pytest.mark.parametrize(
    ("card", "driver", "signs", "lack"),
    [
        (CARD, "615.12.03", GOOD, ""),
        (CARD, "700.1", GOOD, ""),
        (CARD, "614.99", GOOD, Lack.OLD_DRIVER),
        (CARD, "", GOOD, None),
        (CARD, "R700", GOOD, None),
        (CARD, "615.12", {**GOOD, "cgroup_v2": False}, Lack.CGROUP_V1),
        (CARD, "615.12", {**GOOD, "cgroup_v2": None}, None),
        (CARD, "615.12", {**GOOD, "memory_hook": False}, Lack.NO_HOOK),
        (CARD, "615.12", {**GOOD, "memory_hook": None}, None),
        # One thing that is missing is enough to know, whatever cannot be seen.
        (CARD, "570.1", {}, Lack.OLD_DRIVER),
        (INSTANCE, "", {}, Lack.MIG),
        (INSTANCE, "615.12", GOOD, Lack.MIG),
    ],
)
def test_memory_limits_of_the_driver_need_all_of_it(
    card: CardReading, driver: str, signs: dict[str, Any], lack: str | None
) -> None:
    assert lack_of(readiness(card, driver, Signs(**signs)), DRIVER) == lack


def test_a_daemon_is_for_its_card_alone() -> None:
    def lack(*daemons: str) -> str | None:
        signs = Signs(mps_daemons=tuple(map(GpuUuid, daemons)))
        return lack_of(readiness(CARD, "", signs), MPS)

    assert lack("GPU-a", "GPU-b") == ""
    assert lack("GPU-b") == lack() == Lack.NO_DAEMON


@pytest.mark.parametrize(("there", "lack"), [(True, ""), (False, Lack.NO_LIBRARY), (None, None)])
def test_the_library_is_there_or_not_or_not_seen(there: bool | None, lack: str | None) -> None:
    assert lack_of(readiness(CARD, "", Signs(gemini_library=there)), GEMINI) == lack


def test_nothing_is_told_of_what_nobody_sees_and_none_needs_nothing() -> None:
    assert readiness(CARD, "", Signs()) == ()
    assert lack_of((), IsolationBackend.NONE) == ""
