"""Which isolation back-ends have what they need of a card: all rules; docs/isolation.md lists them.

A back-end that lacks one thing is known not to work. To be ready, it must have all of them.
"""

import re

from kubeshare_py.domain.card_reading import CardReading, Signs
from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.domain.readiness import Lack, Readiness, ReadinessReport, one_object

#: The first branch of NVIDIA's driver with memory limits by cgroup.
LIMITING_BRANCH = 615


def readiness(card: CardReading, driver: str, signs: Signs) -> ReadinessReport:
    """The readiness of one card or instance with this driver version; without the unknown."""
    judged = (
        (IsolationBackend.DRIVER, _driver(card, driver, signs)),
        (IsolationBackend.MPS, _mps(card, signs)),
        (IsolationBackend.GEMINI, _verdict((Lack.NO_LIBRARY, signs.gemini_library))),
    )
    return one_object(
        tuple(Readiness(backend, lack) for backend, lack in judged if lack is not None)
    )


def _driver(card: CardReading, driver: str, signs: Signs) -> str | None:
    branch = re.match(r"\d+", driver)
    return _verdict(
        (Lack.MIG, card.parent is None),
        (Lack.OLD_DRIVER, int(branch[0]) >= LIMITING_BRANCH if branch else None),
        (Lack.CGROUP_V1, signs.cgroup_v2),
        (Lack.NO_HOOK, signs.memory_hook),
    )


def _mps(card: CardReading, signs: Signs) -> str | None:
    daemons = signs.mps_daemons
    return _verdict((Lack.NO_DAEMON, None if daemons is None else card.uuid in daemons))


def _verdict(*needs: tuple[Lack, bool | None]) -> str | None:
    """The first thing that is missing, "" if all is there; None if something is unknown."""
    for lack, is_there in needs:
        if is_there is False:
            return lack
    return None if any(is_there is None for _, is_there in needs) else ""
