"""Which back-ends are known to work on a card, which not to, and which are not known."""

from typing import Any

import pytest

from kubeshare_py.domain.card_reading import (
    CardReading,
    IsolationBackend,
    NodeFeatures,
    NotReadyReason,
    not_ready_reason,
)
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.node_agent.history import readiness
from tests.node_agent.readings import a_card

CARD, INSTANCE = a_card("GPU-a"), a_card("MIG-a", parent="GPU-a")
DRIVER, MPS, GEMINI = IsolationBackend.DRIVER, IsolationBackend.MPS, IsolationBackend.GEMINI
GOOD = {"cgroup_v2": True, "memory_hook": True}


@pytest.mark.parametrize(
    ("card", "driver", "features", "reason"),
    [
        (CARD, "615.12.03", GOOD, ""),
        (CARD, "700.1", GOOD, ""),
        (CARD, "614.99", GOOD, NotReadyReason.OLD_DRIVER),
        (CARD, "", GOOD, None),
        (CARD, "R700", GOOD, None),
        (CARD, "615.12", {**GOOD, "cgroup_v2": False}, NotReadyReason.CGROUP_V1),
        (CARD, "615.12", {**GOOD, "cgroup_v2": None}, None),
        (CARD, "615.12", {**GOOD, "memory_hook": False}, NotReadyReason.NO_HOOK),
        (CARD, "615.12", {**GOOD, "memory_hook": None}, None),
        # One thing that is missing is enough to know, whatever cannot be seen.
        (CARD, "570.1", {}, NotReadyReason.OLD_DRIVER),
        (INSTANCE, "", {}, NotReadyReason.MIG),
        (INSTANCE, "615.12", GOOD, NotReadyReason.MIG),
    ],
)
def test_memory_limits_of_the_driver_need_all_of_it(
    card: CardReading, driver: str, features: dict[str, Any], reason: str | None
) -> None:
    assert not_ready_reason(readiness(card, driver, NodeFeatures(**features)), DRIVER) == reason


def test_a_daemon_is_for_its_card_alone() -> None:
    def reason(*daemons: str) -> str | None:
        features = NodeFeatures(mps_daemons=tuple(map(GpuUuid, daemons)))
        return not_ready_reason(readiness(CARD, "", features), MPS)

    assert reason("GPU-a", "GPU-b") == ""
    assert reason("GPU-b") == reason() == NotReadyReason.NO_DAEMON


@pytest.mark.parametrize(
    ("there", "reason"), [(True, ""), (False, NotReadyReason.NO_LIBRARY), (None, None)]
)
def test_the_library_is_there_or_not_or_not_seen(there: bool | None, reason: str | None) -> None:
    features = NodeFeatures(gemini_library=there)
    assert not_ready_reason(readiness(CARD, "", features), GEMINI) == reason


@pytest.mark.parametrize(
    ("there", "reason"), [(True, ""), (False, NotReadyReason.NO_LIBVGPU), (None, None)]
)
def test_hami_core_needs_its_library(there: bool | None, reason: str | None) -> None:
    features = NodeFeatures(hami_library=there)
    found = readiness(CARD, "", features)
    assert not_ready_reason(found, IsolationBackend.HAMI_CORE) == reason


def test_nothing_is_told_of_what_nobody_sees_and_none_needs_nothing() -> None:
    assert readiness(CARD, "", NodeFeatures()) == ()
    assert not_ready_reason((), IsolationBackend.NONE) == ""
