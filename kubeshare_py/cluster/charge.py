"""What one pod holds of one node, or is to hold."""

from dataclasses import dataclass

from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.identity import NodeName

Resources = tuple[tuple[str, int], ...]


@dataclass(slots=True)
class Charge:
    """What one pod holds of one node; not to be changed."""

    node: NodeName
    resources: Resources
    allocation: Allocation | None
