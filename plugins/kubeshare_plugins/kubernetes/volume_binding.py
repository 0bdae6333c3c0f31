"""Filter and PreBind: nodes where a pod's claims have their volumes or can get them; getting them.

kube-scheduler's VolumeBinding:
https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode
"""

import numpy as np

from kubeshare_plugins.kubernetes.volume_pre_bind import volumes_ready
from kubeshare_py.plugin import (
    ArgumentError,
    Depends,
    IntArray,
    PendingPlacement,
    Pod,
    PreBindAnswer,
    ReasonTable,
    RowFilter,
    Rows,
    Shape,
)

ELSEWHERE = "node(s) didn't match PersistentVolume's node affinity"
NONE_FOUND = "node(s) didn't find available persistent volumes to bind"
TOO_LITTLE = "node(s) did not have enough free storage"
MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
#: kube-scheduler's default.
BIND_TIMEOUT_S = 600


class VolumeBinding:
    """Each claim's volume must allow the node, or there must be one for the claim there.

    A pod is bound once its claims have their volumes. The placement ends if that takes longer than
    the argument `bindTimeoutSeconds`.
    """

    name = "VolumeBinding"
    depends = Depends.CLUSTER

    def __init__(self, bindTimeoutSeconds: int = BIND_TIMEOUT_S) -> None:
        """Raises ArgumentError for a bad number of seconds."""
        is_number = isinstance(bindTimeoutSeconds, int) and not isinstance(bindTimeoutSeconds, bool)
        if not is_number or bindTimeoutSeconds < 1:
            raise ArgumentError("bindTimeoutSeconds: must be a whole number from 1")
        self._for_s = float(bindTimeoutSeconds)

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """No question for pods without claims."""
        volumes = shape.volumes
        if volumes is None or not volumes.claims:
            return None
        elsewhere, none_found, too_little, missing = (
            reasons.register(self.name, text, resolvable=False)
            for text in (ELSEWHERE, NONE_FOUND, TOO_LITTLE, MISSING)
        )

        def ask(rows: Rows) -> IntArray:
            found = rows.volumes.places(volumes)
            if isinstance(found, str):
                return np.full(len(rows.index), reasons.refuse(self.name, found))
            masks: IntArray = np.zeros(len(rows.index), np.int64)
            masks[found.elsewhere] |= elsewhere
            masks[found.none_found] |= none_found
            masks[found.too_little] |= too_little
            masks[found.missing] |= missing
            return masks

        return ask

    def pre_bind(self, pod: Pod, row: Rows, placement: PendingPlacement) -> PreBindAnswer:
        """Have volumes bound and made for the pod's claims."""
        return volumes_ready(row, placement, self._for_s)
