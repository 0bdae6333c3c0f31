"""Filter: nodes whose CSI drivers can attach a pod's volumes besides those that are there.

kube-scheduler's NodeVolumeLimits: https://kubernetes.io/docs/concepts/storage/storage-limits/
"""

import numpy as np

from kubeshare_py.plugin import Depends, IntArray, ReasonTable, RowFilter, Rows, Shape

TOO_MANY = "node(s) exceed max volume count"


class NodeVolumeLimits:
    """No driver attaches more volumes to a node than its CSINode says."""

    name = "NodeVolumeLimits"
    depends = Depends.CLUSTER

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """No question for pods without claims and disks."""
        volumes = shape.volumes
        if volumes is None:
            return None
        too_many = reasons.register(self.name, TOO_MANY)

        def ask(rows: Rows) -> IntArray | None:
            found = rows.volumes.over_limit(volumes)
            if found is None:
                return None
            if isinstance(found, str):
                return np.full(
                    len(rows.index), reasons.register(self.name, found, resolvable=False)
                )
            return np.where(found, too_many, 0)

        return ask
