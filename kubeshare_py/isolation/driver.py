"""`driver`: NVIDIA's driver limits the memory of a container's cgroup; time is not limited.

nvidia-container-toolkit 1.20.1 and newer reads both variables when it makes a container and sets
the limits for each of its cards; both are needed, in whole MiB, and a value that is no number fails
the container: https://github.com/NVIDIA/nvidia-container-toolkit (hook apply-cuda-memory-limits).
Needs driver r615, cgroup v2, and a CDI specification that has the hook; no MIG instances.
"""

from collections.abc import Mapping

from kubeshare_py.dialects.results import MEMORY_MIB
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.isolation.backend import Backend, Variable
from kubeshare_py.isolation.mebibytes import least_mebibytes


def _results(allocation: Allocation) -> Mapping[str, str]:
    """The part of each card, where it is one; the container of a pod without one does not start.

    What a limit of 0 means to the driver is not written down anywhere: it is never asked for.
    """
    least = least_mebibytes(allocation)
    return {MEMORY_MIB: str(least)} if least else {}


DRIVER = Backend(
    name=IsolationBackend.DRIVER,
    variables=(
        Variable.of_annotation("NVIDIA_GPU_MEMORY_REQUEST", MEMORY_MIB),
        Variable.of_annotation("NVIDIA_GPU_MEMORY_LIMIT", MEMORY_MIB),
    ),
    results=_results,
)
