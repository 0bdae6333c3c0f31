"""The table of isolation back-ends, and their annotations on placements."""

from collections.abc import Mapping

from kubeshare_py.dialects.results import key_of
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.isolation.backend import Backend
from kubeshare_py.isolation.driver import DRIVER
from kubeshare_py.isolation.gemini import GEMINI
from kubeshare_py.isolation.hami_core import HAMI_CORE
from kubeshare_py.isolation.mps import MPS
from kubeshare_py.isolation.nothing import NONE

BACKENDS: Mapping[IsolationBackend, Backend] = {
    one.name: one for one in (NONE, DRIVER, MPS, GEMINI, HAMI_CORE)
}


def isolation_results(allocation: Allocation) -> Mapping[str, str]:
    """The annotations that its back-end's variables refer to; none without cards.

    Where containers differ, each with a share has its own.
    """
    if allocation.isolation is None or not allocation.cards:
        return {}
    results = BACKENDS[allocation.isolation.backend].results
    if not allocation.claims:
        return results(allocation.cards, allocation.isolation.limit_milli)
    return {
        key_of(part.container, key): text
        for part in allocation.containers
        if not part.exclusive
        for key, text in results(part.cards, part.limit_milli).items()
    }
