"""Locality: members of a gang go to one node, rack, zone or region, as narrow as has room."""

from collections.abc import Sequence

from kubeshare_py.topology.places import LABELS


class Coscheduling:
    """By node labels, the widest first; `labels` are others than the usual ones."""

    name = "Coscheduling"

    def __init__(self, labels: Sequence[str] = LABELS) -> None:
        """Raises ValueError for labels that are none."""
        if isinstance(labels, str) or not all(isinstance(one, str) and one for one in labels):
            raise ValueError("labels must be a list of names of node labels")
        if len(set(labels)) < len(labels):
            raise ValueError("labels must be different ones")
        self._labels = tuple(labels)

    def places(self) -> tuple[str, ...]:
        """From the widest to the narrowest."""
        return self._labels
