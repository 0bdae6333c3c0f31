"""`mps`: NVIDIA's Multi-Process Service; one daemon per shared card, on the node.

The variables are read by the client's CUDA library, which may only lower the daemon's limits: a
container that removes them gets the daemon's defaults. `CUDA_MPS_PINNED_DEVICE_MEM_LIMIT` counts
cards as the container sees them: https://docs.nvidia.com/deploy/mps/

A card's daemon has its folders `pipe` and `shm` in one named after the card; a client needs both,
and the kubelet finds them by the variable that names the card. Without a card the path would begin
with a slash, which the kubelet refuses: no container ever sees the folders of all cards.
"""

from collections.abc import Mapping, Sequence

from kubeshare_py.dialects.results import MPS_MEMORY, MPS_THREADS
from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.isolation.backend import Backend, HostVolume, Mount, Variable
from kubeshare_py.isolation.mebibytes import MEBIBYTE

#: On the node: <card's uuid>/pipe and <card's uuid>/shm.
DAEMONS = "/run/kubeshare/mps"
#: Beside it, for programs that only check which daemons run.
ALIVE = "/run/kubeshare/mps-alive"
PIPE = "/tmp/nvidia-mps"
_VOLUME = "kubeshare-mps"
_WHOLE_PERCENT = 100


def _results(cards: Sequence[CardCharge], limit_milli: int) -> Mapping[str, str]:
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
    volumes=(HostVolume(name=_VOLUME, path=DAEMONS),),
    mounts=(
        Mount(volume=_VOLUME, path=PIPE, sub_path_expr="$(NVIDIA_VISIBLE_DEVICES)/pipe"),
        Mount(volume=_VOLUME, path="/dev/shm", sub_path_expr="$(NVIDIA_VISIBLE_DEVICES)/shm"),
    ),
    results=_results,
)
