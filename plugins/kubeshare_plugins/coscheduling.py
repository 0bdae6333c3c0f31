"""Locality: a gang goes to one node, rack, zone or region, the narrowest that has room."""

from collections.abc import Sequence

from kubeshare_py.topology.topology_labels import LABELS


class Coscheduling:
    """Domains by node labels, widest first; `labels` replaces the usual ones."""

    name = "Coscheduling"

    def __init__(self, labels: Sequence[str] = LABELS) -> None:
        """Raises ValueError if `labels` are not different names of labels."""
        if isinstance(labels, str) or not all(isinstance(one, str) and one for one in labels):
            raise ValueError("labels must be a list of names of node labels")
        if len(set(labels)) < len(labels):
            raise ValueError("labels must be different ones")
        self._labels = tuple(labels)

    def places(self) -> tuple[str, ...]:
        """The labels, from the widest domain to the narrowest."""
        return self._labels
