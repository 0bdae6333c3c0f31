"""Nodes, cards and shapes for tests: a call says only what the test is about."""

from typing import Any

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import GpuClaim

#: Bytes.
GIB = 1 << 30
MODEL = "NVIDIA-A100-SXM4-40GB"


def a_gpu(uuid: str = "GPU-a", **fields: Any) -> Gpu:
    """A healthy 40 GiB card."""
    given: dict[str, Any] = {"index": 0, "model": MODEL, "memory_bytes": 40 * GIB, **fields}
    return Gpu(uuid=GpuUuid(uuid), **given)


def a_node(name: str = "n1", *, cpu: int = 64_000, pods: int = 110, **fields: Any) -> Node:
    """A node with room."""
    amounts = (("cpu", cpu), ("memory", 512 * GIB), ("pods", pods))
    return Node(name=NodeName(name), **{"allocatable": amounts, **fields})


def a_claim(milli: int = 500, **fields: Any) -> GpuClaim:
    """A share of one card."""
    return GpuClaim(milli=milli, **fields)


def whole(count: int, **fields: Any) -> GpuClaim:
    """Whole cards."""
    return GpuClaim(milli=1000, count=count, exclusive=True, **fields)


def a_shape(*claims: GpuClaim | None, cpu: int = 100, **fields: Any) -> Shape:
    """A small pod's shape; None is no claim."""
    asked = tuple(claim for claim in claims if claim is not None)
    shared = any(not claim.exclusive for claim in asked)
    given: dict[str, Any] = {"resources": (("cpu", cpu),), "needs_port": shared, **fields}
    return Shape(claims=asked, **given)


def some_gpus(node: str, count: int) -> tuple[Gpu, ...]:
    """The cards of a node."""
    return tuple(a_gpu(f"GPU-{node}-{index}", index=index) for index in range(count))
