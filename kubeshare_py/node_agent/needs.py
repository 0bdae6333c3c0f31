"""Which isolation back-ends have what they need of a card: all rules; docs/isolation.md lists them.

A back-end is ready if it has all that it needs; one thing missing is the reason that it is not.
"""

import re

from kubeshare_py.domain.card_reading import CardReading, NodeFeatures
from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.domain.readiness import NotReadyReason, Readiness, ReadinessReport, one_object

#: The first branch of NVIDIA's driver with memory limits by cgroup.
LIMITING_BRANCH = 615


def readiness(card: CardReading, driver: str, features: NodeFeatures) -> ReadinessReport:
    """The readiness of one card or instance with this driver version; without the unknown."""
    judged = (
        (IsolationBackend.DRIVER, _driver(card, driver, features)),
        (IsolationBackend.MPS, _mps(card, features)),
        (IsolationBackend.GEMINI, _verdict((NotReadyReason.NO_LIBRARY, features.gemini_library))),
        (IsolationBackend.HAMI_CORE, _verdict((NotReadyReason.NO_LIBVGPU, features.hami_library))),
    )
    return one_object(
        tuple(Readiness(backend, reason) for backend, reason in judged if reason is not None)
    )


def _driver(card: CardReading, driver: str, features: NodeFeatures) -> str | None:
    branch = re.match(r"\d+", driver)
    return _verdict(
        (NotReadyReason.MIG, card.parent is None),
        (NotReadyReason.OLD_DRIVER, int(branch[0]) >= LIMITING_BRANCH if branch else None),
        (NotReadyReason.CGROUP_V1, features.cgroup_v2),
        (NotReadyReason.NO_HOOK, features.memory_hook),
    )


def _mps(card: CardReading, features: NodeFeatures) -> str | None:
    daemons = features.mps_daemons
    return _verdict((NotReadyReason.NO_DAEMON, None if daemons is None else card.uuid in daemons))


def _verdict(*needs: tuple[NotReadyReason, bool | None]) -> str | None:
    """The first thing that is missing, "" if all is there; None if something is unknown."""
    for reason, is_there in needs:
        if is_there is False:
            return reason
    return None if any(is_there is None for _, is_there in needs) else ""
