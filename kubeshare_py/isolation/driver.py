"""`driver`: NVIDIA's driver limits the memory of a container's cgroup; time is not limited.

nvidia-container-toolkit 1.20.1 and newer reads both variables when it creates a container and sets
the limits for each of its cards. Both are needed, in whole MiB, and a value that is no number makes
the container fail: https://github.com/NVIDIA/nvidia-container-toolkit (hook
apply-cuda-memory-limits). Needs driver r615, cgroup v2, and a CDI specification with the hook; no
MIG instances.
"""

from collections.abc import Mapping, Sequence

from kubeshare_py.dialects.results import MEMORY_MIB
from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.isolation.backend import Backend, Variable
from kubeshare_py.isolation.mebibytes import least_mebibytes


def _results(cards: Sequence[CardCharge], limit_milli: int) -> Mapping[str, str]:
    """The memory of each card, if it is above 0; a container without memory does not start.

    The meaning of a limit of 0 is not documented, so it is never set.
    """
    del limit_milli
    least = least_mebibytes(cards)
    return {MEMORY_MIB: str(least)} if least else {}


DRIVER = Backend(
    name=IsolationBackend.DRIVER,
    variables=(
        Variable.of_annotation("NVIDIA_GPU_MEMORY_REQUEST", MEMORY_MIB),
        Variable.of_annotation("NVIDIA_GPU_MEMORY_LIMIT", MEMORY_MIB),
    ),
    results=_results,
)
