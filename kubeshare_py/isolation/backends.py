"""The table of isolation back-ends, and their annotations on placements."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kubeshare_py.dialects.results import MANAGER_PORT, MEMORY_MIB, MPS_MEMORY, MPS_THREADS, key_of
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.card_reading import IsolationBackend
from kubeshare_py.domain.gpu import WHOLE_MILLI

# The parts of an isolation back-end, as values from which every way of injection is made.
#
# The webhook patches pods from these values, and the admission policy's CEL is generated from them,
# so that both do the same.


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable, with a fixed value or from a field of the pod (downward API).

    The kubelet reads the field when a container starts; a missing annotation is an empty value and
    no error (kubelet, makeEnvironmentVariables). `is_default`: an entry of the same name in the
    container is kept, whatever its value; for all other variables it is refused.
    """

    name: str
    value: str = ""
    field_path: str = ""
    is_default: bool = False

    @classmethod
    def of_annotation(cls, name: str, key: str) -> "Variable":
        """A variable with the value of an annotation."""
        return cls(name, field_path=f"metadata.annotations['{key}']")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostVolume:
    """A folder of the node."""

    name: str
    path: str
    kind: str = "Directory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A volume's mount point in the container; `sub_path_expr` may use variables as $(NAME)."""

    volume: str
    path: str
    sub_path_expr: str = ""
    read_only: bool = False


#: The annotations that a back-end's variables refer to, for these cards and this limit of time in
#: thousandths of each card.
Results = Callable[[Sequence[CardCharge], int], Mapping[str, str]]


def no_results(cards: Sequence[CardCharge], limit_milli: int) -> Mapping[str, str]:
    """For back-ends that need only the usual result annotations."""
    del cards, limit_milli
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One way to keep the tenants of a shared card within their shares.

    `domain.isolation.HOLDS` says what it enforces. `variables`, `volumes`, `mounts` and `preload`
    (a library that must come first in LD_PRELOAD) go into every container of a pod with a share.
    `results` gives the annotations that the variables refer to, for the cards of a pod; or for
    those of one container, where containers differ.
    """

    name: IsolationBackend
    variables: tuple[Variable, ...] = ()
    volumes: tuple[HostVolume, ...] = ()
    mounts: tuple[Mount, ...] = ()
    preload: str = ""
    results: Results = no_results

    @property
    def reserved(self) -> tuple[str, ...]:
        """The names of variables that only this project sets."""
        return tuple(dict.fromkeys(one.name for one in self.variables))


# `gemini`: KubeShare 2.0's library, which asks the pod manager on the node for time and memory.
#
# Names and paths are KubeShare 2.0's (pkg/scheduler and deploy/ of
# github.com/NTHU-LSALab/KubeShare, release-2.0); its daemons must run on the node. A container
# escapes the library by starting a program without LD_PRELOAD.


LIBRARY = "/kubeshare/library"
_GEMINI_VOLUME = "kubeshare-lib"

GEMINI = Backend(
    name=IsolationBackend.GEMINI,
    variables=(
        Variable.of_annotation("POD_MANAGER_PORT", MANAGER_PORT),
        # The pod manager identifies the pod by this; both parts are the pod's own fields.
        Variable("KUBESHARE_NAMESPACE", field_path="metadata.namespace"),
        Variable("KUBESHARE_NAME", field_path="metadata.name"),
        Variable("POD_NAME", "$(KUBESHARE_NAMESPACE)/$(KUBESHARE_NAME)"),
    ),
    volumes=(HostVolume(name=_GEMINI_VOLUME, path=LIBRARY),),
    mounts=(Mount(volume=_GEMINI_VOLUME, path=LIBRARY, read_only=True),),
    preload=f"{LIBRARY}/libgemhook.so.1",
)


# `hami-core`: HAMi-core's library libvgpu.so, which limits what a container allocates and starts.
#
# Admission adds nothing: limits, library and cache file come with the devices of the container,
# from the device plugin of the node agent (`node_agent.hami_core`), as from HAMi's own plugin. So
# it is for containers that ask for devices, such as `nvidia.com/gpu`. A container escapes the
# library by a program that is linked statically, or against another libc than glibc:
# https://github.com/Project-HAMi/HAMi-core


HAMI_CORE = Backend(name=IsolationBackend.HAMI_CORE)


# Bytes in the unit of memory limits: whole MiB, never more than is charged.


MEBIBYTE = 2**20


def least_mebibytes(cards: Sequence[CardCharge]) -> int:
    """The smallest part, in MiB, that is charged of one of the cards; 0 without cards."""
    return min((card.memory_bytes // MEBIBYTE for card in cards), default=0)


# `driver`: NVIDIA's driver limits the memory of a container's cgroup; time is not limited.
#
# nvidia-container-toolkit 1.20.1 and newer reads both variables when it creates a container and
# sets the limits for each of its cards. Both are needed, in whole MiB, and a value that is no
# number makes the container fail: https://github.com/NVIDIA/nvidia-container-toolkit (hook
# apply-cuda-memory-limits). Needs driver r615, cgroup v2, and a CDI specification with the hook; no
# MIG instances.


def _driver_results(cards: Sequence[CardCharge], limit_milli: int) -> Mapping[str, str]:
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
    results=_driver_results,
)


# `mps`: NVIDIA's Multi-Process Service; one daemon per shared card, on the node.
#
# The variables are read by the client's CUDA library, which may only lower the daemon's limits: a
# container that removes them gets the daemon's defaults. `CUDA_MPS_PINNED_DEVICE_MEM_LIMIT` counts
# cards as the container sees them: https://docs.nvidia.com/deploy/mps/
#
# A card's daemon has its folders `pipe` and `shm` in one named after the card; a client needs both,
# and the kubelet finds them by the variable that names the card. Without a card the path would
# begin with a slash, which the kubelet refuses: no container ever sees the folders of all cards.


#: On the node: <card's uuid>/pipe and <card's uuid>/shm.
DAEMONS = "/run/kubeshare/mps"
#: Beside it, for programs that only check which daemons run.
ALIVE = "/run/kubeshare/mps-alive"
PIPE = "/tmp/nvidia-mps"
_MPS_VOLUME = "kubeshare-mps"
_WHOLE_PERCENT = 100


def _mps_results(cards: Sequence[CardCharge], limit_milli: int) -> Mapping[str, str]:
    """Threads from the limit, and each card's memory as charged; 0 of either means no limit."""
    limits = ",".join(
        f"{ordinal}={card.memory_bytes // MEBIBYTE}M"
        for ordinal, card in enumerate(cards)
        if card.memory_bytes >= MEBIBYTE
    )
    percent = min((limit_milli or WHOLE_MILLI) * _WHOLE_PERCENT // WHOLE_MILLI, _WHOLE_PERCENT)
    return {MPS_THREADS: str(max(percent, 1)), MPS_MEMORY: limits}


MPS = Backend(
    name=IsolationBackend.MPS,
    variables=(
        Variable.of_annotation("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", MPS_THREADS),
        Variable.of_annotation("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", MPS_MEMORY),
        Variable("CUDA_MPS_PIPE_DIRECTORY", PIPE),
    ),
    volumes=(HostVolume(name=_MPS_VOLUME, path=DAEMONS),),
    mounts=(
        Mount(volume=_MPS_VOLUME, path=PIPE, sub_path_expr="$(NVIDIA_VISIBLE_DEVICES)/pipe"),
        Mount(volume=_MPS_VOLUME, path="/dev/shm", sub_path_expr="$(NVIDIA_VISIBLE_DEVICES)/shm"),
    ),
    results=_mps_results,
)


# `none`: containers get their cards and are trusted with them.


NONE = Backend(name=IsolationBackend.NONE)


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
