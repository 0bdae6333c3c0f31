"""What one pod holds of one node, or is to hold."""

from dataclasses import dataclass

from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.identity import NodeName

Resources = tuple[tuple[str, int], ...]

#: Whole GPUs as the vendor's device plugin hands them out: the kubelet picks the cards.
NATIVE_GPU = "nvidia.com/gpu"


@dataclass(slots=True)
class Charge:
    """What one pod holds of one node; not to be changed."""

    node: NodeName
    resources: Resources
    allocation: Allocation | None


def native_gpus(resources: Resources) -> int:
    """How many whole GPUs are requested of the device plugin."""
    return next((amount for name, amount in resources if name == NATIVE_GPU), 0)
