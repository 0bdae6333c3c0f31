"""KubeShare 2.0's labels, as a dialect."""

from kubeshare_py.dialects import sharedgpu, sharedgpu_models
from kubeshare_py.dialects.card_visibility import CardVisibility, card_visibility
from kubeshare_py.dialects.dialect import Dialect, OwnedKeys, PodAsk, Words
from kubeshare_py.dialects.kubeshare_placed import placed_by_kubeshare
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.needs.node_rules import NodeRule
from kubeshare_py.domain.request import GpuRequest, InvalidRequest


class SharedGpu(Dialect):
    """Labels `sharedgpu/gpu_*`. Results are those of every dialect (`results`)."""

    name = sharedgpu.DIALECT
    owns = OwnedKeys(
        labels=frozenset(
            {
                sharedgpu.REQUEST,
                sharedgpu.LIMIT,
                sharedgpu.MEMORY,
                sharedgpu.MODEL,
                sharedgpu.NUMA_BIND,
                sharedgpu.EXCLUSIVE,
                *sharedgpu_models.KEYS,
            }
        ),
        annotations=frozenset(sharedgpu_models.KEYS),
    )

    # KubeShare 2.0 had its daemons, and so its cells, on nodes with this label.
    node_rules = (NodeRule("SharedGPU", ("true",)),)

    words = Words(
        title="KubeShare",
        documentation="https://github.com/NTHU-LSALab/KubeShare",
    )

    def read(self, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
        """See `sharedgpu.read`."""
        return sharedgpu.read(pod.labels, pod.annotations, pod.guarantee, pod.grouped)

    def read_back(self, pod: PodAsk) -> Allocation | str | None:
        """What KubeShare 2.0 gave the pod; see `kubeshare_placed`."""
        return placed_by_kubeshare(pod.annotations, self.read(pod)) if pod.labels else None

    def visibility(self, pod: PodAsk) -> CardVisibility:
        """By the labels as written: the admission policies decide by the same patterns."""
        return card_visibility(pod.labels)


SHAREDGPU = SharedGpu()
