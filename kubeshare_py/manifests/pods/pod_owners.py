"""Services and controllers of pods, of which the selectors are kept; and the controller of a pod.

https://kubernetes.io/docs/reference/kubernetes-api/service-resources/ and
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/
"""

import msgspec

from kubeshare_py.domain.label_selector import Labels, Requirement
from kubeshare_py.domain.needs.cluster_objects import WatchedKind
from kubeshare_py.domain.needs.default_spread import (
    PodController,
    ReplicaSetObject,
    ReplicationControllerObject,
    ServiceObject,
    StatefulSetObject,
)
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.manifests.label_selector import SelectorFields, requirements
from kubeshare_py.manifests.metadata import ObjectMeta

#: By the apiVersion and kind of an owner reference.
_CONTROLLERS = {
    ("v1", "ReplicationController"): WatchedKind.REPLICATION_CONTROLLER,
    ("apps/v1", "ReplicaSet"): WatchedKind.REPLICA_SET,
    ("apps/v1", "StatefulSet"): WatchedKind.STATEFUL_SET,
}


#: JobSet's label with its own uid, on all pods of its Jobs: https://jobset.sigs.k8s.io/docs/.
_JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"
#: A Deployment's label on the pods of each of its ReplicaSets, which are named after it and this.
_TEMPLATE_HASH = "pod-template-hash"


class _LabelsSpec(msgspec.Struct, frozen=True):
    selector: dict[str, str] | None = None


class SelectingLabelsFields(msgspec.Struct, frozen=True):
    """A v1 Service or ReplicationController."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _LabelsSpec = _LabelsSpec()


class _SelectorSpec(msgspec.Struct, frozen=True):
    selector: SelectorFields | None = None


class SelectingPodsFields(msgspec.Struct, frozen=True):
    """An apps/v1 ReplicaSet or StatefulSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _SelectorSpec = _SelectorSpec()


def service(fields: SelectingLabelsFields) -> ServiceObject:
    """What matters of a Service; one without a selector selects no pod."""
    meta, labels = fields.metadata, _labels(fields)
    return ServiceObject(name=meta.name, namespace=meta.namespace, endpoint_labels=labels)


def replication_controller(fields: SelectingLabelsFields) -> ReplicationControllerObject:
    """What matters of a ReplicationController."""
    meta, labels = fields.metadata, _labels(fields)
    return ReplicationControllerObject(
        name=meta.name, namespace=meta.namespace, replica_labels=labels
    )


def replica_set(fields: SelectingPodsFields) -> ReplicaSetObject:
    """What matters of a ReplicaSet."""
    meta, lines = fields.metadata, _lines(fields)
    return ReplicaSetObject(name=meta.name, namespace=meta.namespace, replica_selector=lines)


def stateful_set(fields: SelectingPodsFields) -> StatefulSetObject:
    """What matters of a StatefulSet."""
    meta, lines = fields.metadata, _lines(fields)
    return StatefulSetObject(name=meta.name, namespace=meta.namespace, ordinal_selector=lines)


def controller_of(meta: ObjectMeta) -> PodController | None:
    """The controller of a pod, if it is of a kind whose selector counts; else None."""
    for owner in meta.owner_references or ():
        if owner.controller:
            kind = _CONTROLLERS.get((owner.api_version, owner.kind))
            return None if kind is None else _controller(kind, owner.name)
    return None


def run_owner(meta: ObjectMeta) -> tuple[str, str]:
    """Of a member of a group: what its run belongs to, and the kind and name of its controller.

    The former is a uid, except for pods of a Deployment: its ReplicaSets replace each other, and
    pods do not have the Deployment's uid. Both are "" for a pod without a controller.
    """
    labels = meta.labels or {}
    for owner in meta.owner_references or ():
        if owner.controller:
            title = f"{owner.kind.lower()} {owner.name}"
            of_template = f"-{labels.get(_TEMPLATE_HASH, '')}"
            if (
                owner.kind == "ReplicaSet"
                and owner.name.endswith(of_template)
                and of_template != "-"
            ):
                name = owner.name.removesuffix(of_template)
                return f"Deployment/{name}", f"deployment {name}"
            return labels.get(_JOBSET_UID) or owner.uid, title
    return "", ""


@remembered(4096)
def _controller(kind: WatchedKind, name: str) -> PodController:
    """The pods of one controller share one value."""
    return PodController(kind, name)


def _labels(fields: SelectingLabelsFields) -> Labels:
    return tuple(sorted((fields.spec.selector or {}).items()))


def _lines(fields: SelectingPodsFields) -> tuple[Requirement, ...]:
    selector = fields.spec.selector
    return () if selector is None else requirements(selector)
