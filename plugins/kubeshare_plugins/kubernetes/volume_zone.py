"""Filter: nodes in the zones and regions that labels of a pod's volumes name.

kube-scheduler's VolumeZone. Volumes of today say so by their node affinity (VolumeBinding); the
labels are those of older ones.
"""

import numpy as np

from kubeshare_py.plugin import Depends, IntArray, ReasonTable, RowFilter, Rows, Shape

CONFLICT = "node(s) had no available volume zone"


class VolumeZone:
    """A node with a zone or region must have those of every volume."""

    name = "VolumeZone"
    depends = Depends.CLUSTER

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """No question for pods without claims of their own."""
        volumes = shape.volumes
        if volumes is None or all(claim.owner is not None for claim in volumes.claims):
            return None
        conflict = reasons.register(self.name, CONFLICT, resolvable=False)

        def ask(rows: Rows) -> IntArray:
            found = rows.volumes.in_zone(volumes)
            if isinstance(found, str):
                return np.full(len(rows.index), reasons.refuse(self.name, found))
            return np.where(found, 0, conflict)

        return ask
