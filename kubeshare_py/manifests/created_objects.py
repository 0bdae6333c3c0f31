"""Objects of manifests as the scheduler would see them once they are created.

Pods come with what their controllers add to them. Of other objects, those that placement depends on
become events: PodGroups, disruption budgets, claims, volumes, quotas and so on.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import count, islice
from typing import Any

import msgspec

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.domain.cluster_objects import GroupApi, WatchedKind
from kubeshare_py.domain.events import BudgetSeen, Event, ObjectSeen, PodGroupSeen
from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.manifests import pod_group
from kubeshare_py.manifests.client_pods import as_created, bounded_pod
from kubeshare_py.manifests.common_definitions import OwnerReference
from kubeshare_py.manifests.decoding import UNDECODABLE
from kubeshare_py.manifests.events import WATCHED, BudgetFields, WatchedObjects, to_budget
from kubeshare_py.manifests.pod_group import PodGroupFields
from kubeshare_py.manifests.pods.pod import to_domain
from kubeshare_py.manifests.workloads import PodTemplate

#: What names made here end with where a controller takes random letters.
_SUFFIX = "simulated"
#: The apiVersion and kind of the controllers of pods, by the kind of what a person creates.
_CONTROLLERS = {
    "deployment": ("apps/v1", "ReplicaSet"),
    "replicaset": ("apps/v1", "ReplicaSet"),
    "statefulset": ("apps/v1", "StatefulSet"),
    "replicationcontroller": ("v1", "ReplicationController"),
    "daemonset": ("apps/v1", "DaemonSet"),
    "job": ("batch/v1", "Job"),
    "cronjob": ("batch/v1", "Job"),
}
_TEMPLATE_HASH = "pod-template-hash"
#: Kinds without a namespace.
_OF_CLUSTER = {
    *(WatchedKind.NAMESPACE, WatchedKind.VOLUME, WatchedKind.STORAGE_CLASS, WatchedKind.CSI_NODE),
    *(WatchedKind.CSI_DRIVER, WatchedKind.ATTACHMENT, WatchedKind.DEVICE_CLASS),
    WatchedKind.RESOURCE_SLICE,
}
_GROUP_APIS = {
    "scheduling.x-k8s.io": GroupApi.COSCHEDULING,
    "scheduling.k8s.io": GroupApi.KUBERNETES,
}


class UnreadableObject(ValueError):
    """An object that placement depends on cannot be decoded; the text says which."""


# Pods.


def pod_names(
    template: PodTemplate, namespace: str, taken: Container[PodKey] = frozenset()
) -> list[str]:
    """The names of the pods that are made of a template, without those that other pods have.

    A pod of its own has its name, whether or not another pod has it.
    """
    if not template.path:
        return [_name(template)]
    numbered = (f"{_name(template)}-{number}" for number in count())
    free = (name for name in numbered if PodKey(namespace, name) not in taken)
    return list(islice(free, template.copies))


def names_of_set(template: PodTemplate, number: int, copies: int) -> list[str]:
    """Names for so many more pods of a template, others for each number."""
    return [f"{_name(template)}-{_SUFFIX}-{number}-{copy}" for copy in range(copies)]


def new_pods(
    template: PodTemplate,
    pod: Mapping[str, Any],
    names: Iterable[str],
    namespace: str,
    created: str,
    dialects: Dialects,
) -> Iterator[Pod]:
    """The pods of these names that are made of a template, as they are seen once they are created.

    `pod` is one of them in JSON. `created` is RFC 3339. Raises UNDECODABLE, and PodTooLarge.
    """
    fields = bounded_pod(msgspec.json.encode(pod))
    meta = msgspec.structs.replace(fields.metadata, namespace=namespace)
    if template.path:
        kind, _, name = template.owner.partition("/")
        labels, owner = _owner(kind, name, namespace)
        meta = msgspec.structs.replace(
            meta, labels={**(meta.labels or {}), **labels}, owner_references=(owner,)
        )
    for name in names:
        uid, named = (
            PodUid(f"{_SUFFIX}-{namespace}-{name}"),
            msgspec.structs.replace(meta, name=name),
        )
        yield to_domain(as_created(fields, named, uid, created), dialects)


def _name(template: PodTemplate) -> str:
    """The object's name, and for one of several templates what tells it from the others."""
    name = template.owner.partition("/")[2]
    if not template.is_one_of_several:
        return name
    words = template.path.replace("[", ".").replace("]", "").split(".")
    kept = [word.lower() for word in words if word not in ("spec", "template")]
    return "-".join((name, *kept[-2:]))


def _owner(kind: str, name: str, namespace: str) -> tuple[dict[str, str], OwnerReference]:
    """What a controller adds to its pods: labels, and the reference to itself."""
    version, made = _CONTROLLERS.get(kind, ("", kind))
    uid, labels = f"{_SUFFIX}-{namespace}-{kind}-{name}", {}
    if kind == "deployment":
        name, labels = f"{name}-{_SUFFIX}", {_TEMPLATE_HASH: _SUFFIX}
    if made == "Job":
        labels = {"batch.kubernetes.io/job-name": name, "job-name": name}
    return labels, OwnerReference(
        uid=uid, controller=True, api_version=version, kind=made, name=name
    )


# Other objects.


def created_objects(document: object, namespace: str) -> Iterator[Event]:
    """The events of an object that placement depends on; none for any other.

    `namespace` is that of objects that name none. Raises UnreadableObject.
    """
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        return
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        for item in document["items"]:
            yield from created_objects(item, namespace)
        return
    version, kind = str(document.get("apiVersion") or "v1"), document["kind"].lower()
    try:
        yield from _events(document, version, kind, namespace)
    except (*UNDECODABLE, TypeError, AttributeError) as error:
        raise UnreadableObject(f"{kind} cannot be read: {error}") from error


def _events(
    document: Mapping[str, Any], version: str, kind: str, namespace: str
) -> Iterator[Event]:
    group = version.rpartition("/")[0]
    if (group, kind) == ("apps", "deployment"):
        document, kind = _replica_set(document), "replicaset"
    if kind == "podgroup" and group in _GROUP_APIS:
        found = _read(document, namespace, PodGroupFields)
        yield PodGroupSeen(pod_group.to_domain(_GROUP_APIS[group], found))
    elif (group, kind) == ("policy", "poddisruptionbudget"):
        yield BudgetSeen(to_budget(_read(document, namespace, BudgetFields)))
    elif (watched := _watched(group, kind)) is not None:
        of_cluster = watched.kind in _OF_CLUSTER
        fields = _read(document, "" if of_cluster else namespace, watched.fields)
        yield ObjectSeen(watched.to_domain(fields))


def _read(document: Mapping[str, Any], namespace: str, kind: Callable[..., Any]) -> Any:
    given = document.get("metadata")
    meta = {**given} if isinstance(given, dict) else {}
    if namespace:
        meta["namespace"] = meta.get("namespace") or namespace
    meta["uid"] = f"{_SUFFIX}-{meta.get('namespace', '')}-{meta.get('name', '')}"
    meta.setdefault("resourceVersion", "1")
    text = msgspec.json.encode({**document, "metadata": meta})
    return msgspec.json.decode(text, type=kind)


def _watched(group: str, kind: str) -> WatchedObjects | None:
    for one in WATCHED:
        own = one.group.removeprefix("api/v1").removeprefix("apis/").rpartition("/")[0]
        if own == group and one.kind in (f"{kind}s", f"{kind}es"):
            return one
    return None


def _replica_set(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """The ReplicaSet that a Deployment would make, as far as its selector goes."""
    meta = {**(deployment.get("metadata") or {})}
    meta["name"] = f"{meta.get('name', '')}-{_SUFFIX}"
    selector = (deployment.get("spec") or {}).get("selector")
    return {"metadata": meta, "spec": {"selector": selector} if selector else {}}
