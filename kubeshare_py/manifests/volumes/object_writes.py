"""Writes to PersistentVolumeClaims and PersistentVolumes, as merge patches for one version.

With a resourceVersion in the patch, the API server refuses it with 409 if the object has another
version by now (https://kubernetes.io/docs/reference/using-api/api-concepts/#patch-and-apply). Keys:
https://kubernetes.io/docs/reference/labels-annotations-taints/
"""

from typing import Any, assert_never

import msgspec

from kubeshare_py.domain.events import WriteOutcome
from kubeshare_py.domain.needs.object_writes import ClaimVolume, SelectNode, VolumeWrite
from kubeshare_py.manifests.api_paths import CORE, object_path
from kubeshare_py.manifests.volumes.claims import SELECTED_NODE

#: The control plane unbinds a volume with this annotation once its claim is gone, because no person
#: bound it.
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"

_UNAUTHORIZED, _CONFLICT, _TOO_MANY_REQUESTS, _SERVER_ERROR = 401, 409, 429, 500


def write_path(write: VolumeWrite) -> str:
    """The path of the object that is written to."""
    match write:
        case SelectNode(namespace=namespace, claim=claim):
            return object_path(CORE, "persistentvolumeclaims", claim, namespace)
        case ClaimVolume(volume=volume):
            return object_path(CORE, "persistentvolumes", volume)
        case _:
            assert_never(write)


def write_patch(write: VolumeWrite) -> bytes:
    """The patch."""
    metadata: dict[str, Any] = {"resourceVersion": write.version}
    body: dict[str, Any] = {"metadata": metadata}
    match write:
        case SelectNode(node=node):
            metadata["annotations"] = {SELECTED_NODE: node}
        case ClaimVolume():
            if not write.is_kept:
                metadata["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
            body["spec"] = {"claimRef": _reference(write)}
        case _:
            assert_never(write)
    return msgspec.json.encode(body)


def read_write_error(status: int) -> WriteOutcome:
    """What an error answer to such a patch means, given that it may not have been the first try."""
    if status == _CONFLICT:
        return WriteOutcome.STALE
    if status in (_UNAUTHORIZED, _TOO_MANY_REQUESTS) or status >= _SERVER_ERROR:
        return WriteOutcome.UNKNOWN
    return WriteOutcome.REFUSED


def _reference(write: ClaimVolume) -> dict[str, str]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": write.namespace,
        "name": write.claim,
        "uid": write.claim_uid,
        "resourceVersion": write.claim_version,
    }
