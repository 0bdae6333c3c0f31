"""Pods as the dialect sees them, in short."""

from collections.abc import Mapping

from kubeshare_py.dialects.dialect import ContainerAmounts, PodAsk
from kubeshare_py.dialects.nano_gpu import NanoGpu
from kubeshare_py.domain.request import ContainerRef

OLD_CORE, OLD_MEMORY = "nano-gpu.io/gpu-core", "nano-gpu.io/gpu-memory"
PERCENT, NEW_PERCENT = "nano-gpu/gpu-percent", "elastic-gpu/gpu-percent"
CORE, MEMORY = "elasticgpu.io/gpu-core", "elasticgpu.io/gpu-memory"
NANO = NanoGpu()


def a_pod(
    *containers: Mapping[str, int],
    names: tuple[str, ...] = (),
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> PodAsk:
    """A pod whose containers ask for these amounts; they are called c0, c1, … by default."""
    amounts = tuple(
        ContainerAmounts(
            names[at] if names else f"c{at}",
            ContainerRef(False, at),
            False,
            tuple(sorted(asked.items())),
        )
        for at, asked in enumerate(containers)
    )
    return PodAsk(labels or {}, annotations or {}, amounts)
