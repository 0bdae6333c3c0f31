"""A charge: what one pod holds, or is to hold, of one node."""

from dataclasses import dataclass

from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.identity import NodeName

Resources = tuple[tuple[str, int], ...]

#: Whole GPUs from the vendor's device plugin: the kubelet picks the cards.
NATIVE_GPU = "nvidia.com/gpu"


@dataclass(slots=True)
class Charge:
    """What one pod holds of one node: resources (cpu in milli) and cards. Do not change it."""

    node: NodeName
    resources: Resources
    allocation: Allocation | None


def native_gpus(resources: Resources) -> int:
    """The number of whole GPUs that are requested of the device plugin."""
    return next((amount for name, amount in resources if name == NATIVE_GPU), 0)
