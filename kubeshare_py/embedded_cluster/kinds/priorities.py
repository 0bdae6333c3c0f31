"""PriorityClasses, and their effect on a pod's spec (scheduling.k8s.io/v1).

As measured on kube-apiserver 1.36, where the admission plugin Priority does it. Not checked here:
that an update makes no second global default.
"""

from kubeshare_py.embedded_cluster.kinds.cells import PRIORITY_CLASS_COLUMNS, priority_class_cells
from kubeshare_py.embedded_cluster.protocol.merge_keys import META_KEYS
from kubeshare_py.embedded_cluster.protocol.resources import Admission, Resource
from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    StatusSubject,
    forbidden,
    not_allowed,
    unsupported,
    wrong,
)
from kubeshare_py.embedded_cluster.protocol.store import ApiStore

#: The classes of a new server; pods of the cluster itself use them.
SYSTEM_CLASSES: tuple[Json, ...] = (
    {
        "metadata": {"name": "system-cluster-critical"},
        "value": 2_000_000_000,
        "description": "Used for system critical pods that must run in the cluster, but can be "
        "moved to another node if necessary.",
    },
    {
        "metadata": {"name": "system-node-critical"},
        "value": 2_000_001_000,
        "description": "Used for system critical pods that must not be moved from their current "
        "node.",
    },
)
_HIGHEST = 1_000_000_000
_PREEMPTING = "PreemptLowerPriority"
_POLICIES = (_PREEMPTING, "Never")
_SYSTEM = "system-"


def admit_priority(pod: Json, store: ApiStore) -> None:
    """Set priority and policy of a new pod by its class, or the default class if it names none.

    Raises Refusal (403) for an unknown class, and for values that differ from the class.
    """
    spec, subject = pod["spec"], StatusSubject("pods", pod["metadata"].get("name", ""))
    name = spec.get("priorityClassName", "")
    found = _class_of(name, store)
    if name and not found:
        raise forbidden(subject, f"no PriorityClass with name {name} was found")
    if found:
        spec["priorityClassName"] = found["metadata"]["name"]
    value, policy = found.get("value", 0), found.get("preemptionPolicy", _PREEMPTING)
    for field, kind, wanted in (
        ("priority", "integer value of priority", value),
        ("preemptionPolicy", "string value of PreemptionPolicy", policy),
    ):
        if spec.setdefault(field, wanted) != wanted:
            why = (
                f"the {kind} ({spec[field]}) must not be provided in pod spec; priority admission "
                f"controller computed {wanted} from the given PriorityClass name"
            )
            raise forbidden(subject, why)


def _class_of(name: str, store: ApiStore) -> Json:
    """The class of that name, or the default one; {} if there is none."""
    if name:
        entry = store.get(PRIORITY_CLASSES.store_bucket, "", name)
        return entry.object if entry is not None else {}
    return min(_defaults(store), key=lambda one: int(one.get("value", 0)), default={})


def _defaults(store: ApiStore) -> list[Json]:
    entries = store.entries(PRIORITY_CLASSES.store_bucket)
    return [entry.object for entry in entries if entry.object.get("globalDefault")]


def _prepare(new: Json, admission: Admission) -> None:
    if not new.get("globalDefault"):
        return
    for held in _defaults(admission.store):
        why = (
            f"PriorityClass {held['metadata']['name']} is already marked as default. Only one "
            "default can exist"
        )
        raise forbidden(PRIORITY_CLASSES.named(new["metadata"]["name"]), why)


def _default(one: Json) -> None:
    one.setdefault("value", 0)
    one.setdefault("preemptionPolicy", _PREEMPTING)


def _causes(one: Json) -> list[StatusCause]:
    name, value, policy = one["metadata"]["name"], one["value"], one["preemptionPolicy"]
    causes: list[StatusCause] = []
    if name.startswith(_SYSTEM):
        if not any(known["metadata"]["name"] == name for known in SYSTEM_CLASSES):
            text = (
                f"priority class names with '{_SYSTEM}' prefix are reserved for system use only. "
                f"error: {name} is not a known system priority class"
            )
            causes.append(not_allowed("metadata.name", text))
    elif value > _HIGHEST:
        text = f"maximum allowed value of a user defined priority is {_HIGHEST}"
        causes.append(not_allowed("value", text))
    if policy not in _POLICIES:
        causes.append(unsupported("preemptionPolicy", policy, _POLICIES))
    return causes


def _update_causes(new: Json, old: Json) -> list[StatusCause]:
    causes: list[StatusCause] = []
    if new["value"] != old["value"]:
        causes.append(not_allowed("value", "may not be changed in an update."))
    if new["preemptionPolicy"] != old["preemptionPolicy"]:
        text = "field is immutable"
        causes.append(wrong("preemptionPolicy", new["preemptionPolicy"], text))
    return causes


PRIORITY_CLASSES = Resource(
    group="scheduling.k8s.io",
    plural="priorityclasses",
    kind="PriorityClass",
    fields="PriorityClass",
    namespaced=False,
    short_names=("pc",),
    columns=PRIORITY_CLASS_COLUMNS,
    cells=priority_class_cells,
    merge_keys=META_KEYS,
    has_generation=True,
    prepare=_prepare,
    default=_default,
    causes=_causes,
    update_causes=_update_causes,
)
