"""Filter: volumes that only one pod may have, and disks that pods of one node cannot share.

kube-scheduler's VolumeRestrictions:
https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes
"""

import numpy as np

from kubeshare_py.plugin import Depends, IntArray, ReasonTable, RowFilter, Rows, Shape

IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)
DISK_CONFLICT = "node(s) had no available disk"


class VolumeRestrictions:
    """A claim of ReadWriteOncePod goes to one pod, and an inline disk to one pod of a node.

    Evicting the pod that has it helps, on the node of that pod.
    """

    name = "VolumeRestrictions"
    depends = Depends.CLUSTER

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """No question for pods without claims of their own and without such disks."""
        volumes = shape.volumes
        if volumes is None:
            return None
        claims = any(claim.owner is None for claim in volumes.claims)
        if not claims and not any(disk.is_exclusive for disk in volumes.disks):
            return None
        conflict = reasons.register(self.name, DISK_CONFLICT)
        in_use = reasons.register(self.name, IN_USE)

        def ask(rows: Rows) -> IntArray:
            found = rows.volumes.in_use(volumes)
            if isinstance(found, str):
                return np.full(len(rows.index), reasons.refuse(self.name, found))
            masks: IntArray = np.full(len(rows.index), in_use if found else 0, np.int64)
            disks = rows.volumes.with_conflict(volumes)
            if disks is not None:
                masks[disks] = conflict
            return masks

        return ask
