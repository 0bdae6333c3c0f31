"""The claims of generic ephemeral volumes: one `<pod>-<volume>` per volume, owned by the pod.

https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#generic-ephemeral-volumes
"""

from collections.abc import Sequence

from kubeshare_py.embedded_cluster.controllers.controller_cache import ControllerCache
from kubeshare_py.embedded_cluster.controllers.controller_work import (
    ControllerEvent,
    ControllerRole,
    ControllerWork,
    Creation,
)
from kubeshare_py.embedded_cluster.controllers.object_kinds import CLAIMS, PODS, ObjectKind
from kubeshare_py.embedded_cluster.controllers.ownership import reference_to
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    Json,
    UnstructuredObject,
    is_finished,
)

_REFUSED = ControllerEvent("Warning", "FailedBinding", "ephemeral volume: {error}")


class EphemeralVolumeCache(ControllerCache):
    """Pods with such volumes, and claims."""

    role = ControllerRole(
        component="ephemeral_volume", owner=PODS, dependents=CLAIMS, watched=(PODS, CLAIMS)
    )

    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """The claims that a pod lacks.

        A claim of that name that is not the pod's stays, and the pod waits.
        """
        if is_finished(owner) or owner.metadata.deletionTimestamp is not None:
            return ControllerWork()
        present = self.dependents.names(owner.metadata.namespace)
        missing = (one for one in _claims(owner) if one["metadata"]["name"] not in present)
        return ControllerWork(
            create=tuple(Creation(body=body, refused=_REFUSED) for body in missing)
        )

    def listed(
        self, kind: ObjectKind, found: Sequence[UnstructuredObject], asked_at: float
    ) -> None:
        """Take in all pods or all claims."""
        kept = [one for one in found if kind != PODS or _claims(one)]
        super().listed(kind, kept, asked_at)

    def seen(self, kind: ObjectKind, found: UnstructuredObject) -> None:
        """Take in a pod or a claim as it is now."""
        if kind != PODS or _claims(found):
            super().seen(kind, found)


def _claims(pod: UnstructuredObject) -> list[Json]:
    metadata = pod.metadata
    found = []
    for volume in pod.spec.get("volumes") or []:
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template is None:
            continue
        given = template.get("metadata") or {}
        own = {
            "name": f"{metadata.name}-{volume['name']}",
            "namespace": metadata.namespace,
            "ownerReferences": [reference_to(pod, PODS)],
        }
        found.append(
            {
                "apiVersion": CLAIMS.api_version,
                "kind": CLAIMS.kind,
                "metadata": {**given, **own},
                "spec": template["spec"],
            }
        )
    return found
