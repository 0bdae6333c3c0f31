"""What the scheduler has seen of the cluster since it started, as client-go's HasSynced says it."""

from dataclasses import dataclass


@dataclass(slots=True)
class Synced:
    """Whether pods and nodes were listed, and the inventory of cards was read.

    The machine sets these; everything else reads them.
    """

    pods: bool = False
    nodes: bool = False
    inventory: bool = False

    @property
    def ready(self) -> bool:
        """Whether pods and nodes are known: before that, no pod is placed."""
        return self.pods and self.nodes
