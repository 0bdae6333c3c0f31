"""Kubernetes objects as simulated kubelets and controllers read them: untyped except metadata.

The simulation needs only a few fields and must pass the others on unchanged, so `spec` and `status`
stay plain JSON.
"""

from datetime import datetime
from typing import Any

import msgspec

Json = dict[str, Any]


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of metadata.ownerReferences."""

    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    blockOwnerDeletion: bool | None = None


class UnstructuredMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of metadata that identify an object, and those that decide how it ends."""

    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creationTimestamp: str | None = None
    deletionTimestamp: str | None = None
    deletionGracePeriodSeconds: int | None = None
    finalizers: list[str] | None = None
    ownerReferences: list[Owner] | None = None


class UnstructuredObject(msgspec.Struct, frozen=True, kw_only=True):
    """Any object. A StorageClass has its fields beside `spec` and `status`."""

    metadata: UnstructuredMetadata
    spec: Json = {}
    status: Json = {}
    provisioner: str = ""
    volumeBindingMode: str = ""
    reclaimPolicy: str = ""
    parameters: dict[str, str] | None = None

    @property
    def uid(self) -> str:
        """The object's uid; names are used again."""
        return self.metadata.uid

    @property
    def key(self) -> str:
        """`namespace/name`, as in messages."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


def phase(pod: UnstructuredObject) -> str:
    """A pod's phase; Pending if it has none."""
    return str(pod.status.get("phase") or "Pending")


def is_finished(pod: UnstructuredObject) -> bool:
    """Whether a pod's phase is terminal."""
    return phase(pod) in ("Succeeded", "Failed")


def is_ready(pod: UnstructuredObject) -> bool:
    """Whether a pod's Ready condition is True."""
    return _ready_condition(pod).get("status") == "True"


def ready_since(pod: UnstructuredObject) -> float:
    """When the Ready condition last changed, as Unix time (s); 0 if unknown."""
    text = _ready_condition(pod).get("lastTransitionTime")
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def _ready_condition(pod: UnstructuredObject) -> Json:
    conditions: list[Json] = pod.status.get("conditions") or []
    return next((one for one in conditions if one.get("type") == "Ready"), {})
