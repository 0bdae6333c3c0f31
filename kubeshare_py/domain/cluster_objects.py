"""Objects besides pods and nodes that placement depends on, and label selectors."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, TypeVar

from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.quantity import GROUP_MEMBERS

# Objects besides pods and nodes that placement depends on, as they are followed: kind by kind.


class WatchedKind(StrEnum):
    """Kinds of such objects, by the names of their resources."""

    NAMESPACE = "namespaces"
    CLAIM = "persistentvolumeclaims"
    VOLUME = "persistentvolumes"
    STORAGE_CLASS = "storageclasses"
    CSI_NODE = "csinodes"
    CSI_DRIVER = "csidrivers"
    CSI_CAPACITY = "csistoragecapacities"
    ATTACHMENT = "volumeattachments"
    DEVICE_CLASS = "deviceclasses"
    RESOURCE_SLICE = "resourceslices"
    RESOURCE_CLAIM = "resourceclaims"
    SERVICE = "services"
    REPLICATION_CONTROLLER = "replicationcontrollers"
    REPLICA_SET = "replicasets"
    STATEFUL_SET = "statefulsets"
    RESOURCE_QUOTA = "resourcequotas"


@dataclass(frozen=True, slots=True, order=True)
class ObjectKey:
    """An object's namespace, "" for objects of the cluster, and its name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObject:
    """What placement depends on of one object. Each kind has a class with fields of its own.

    The classes differ in the names of their fields, because event logs tell them apart by these.
    """

    kind: ClassVar[WatchedKind]
    name: str
    namespace: str = ""

    @property
    def key(self) -> ObjectKey:
        """Its namespace and name."""
        return ObjectKey(self.namespace, self.name)


#: Objects of one class.
ObjectT = TypeVar("ObjectT", bound=ClusterObject)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceObject(ClusterObject):
    """A namespace. `labels` are sorted pairs."""

    kind: ClassVar[WatchedKind] = WatchedKind.NAMESPACE
    labels: tuple[tuple[str, str], ...] = ()


# Label selectors: their meaning, and their text form in queries.
#
# Rules: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors
# and #api. Requirements on nodes' labels have two more operators, which the NodeAffinity plugin
# evaluates by column.


_PART = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_PREFIX = rf"(?:{_PART}(?:\.{_PART})*/)?"
_NAME = "[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY, _VALUE = _PREFIX + _NAME, f"(?:{_NAME})?"
# No two optional parts of one kind stand side by side: a long text would take for ever.
_VALUES = rf"\s*(?:{_NAME}\s*)?(?:,\s*(?:{_NAME}\s*)?)*"
_REQUIREMENT = re.compile(
    rf"\s*(?:(?:(?P<absent>!)\s*)?(?P<present>{_KEY})"
    rf"|(?P<key>{_KEY})\s*(?P<compared>==|!=|=)\s*(?P<value>{_VALUE})"
    rf"|(?P<member>{_KEY})\s+(?P<set>in|notin)\s*\((?P<values>{_VALUES})\))\s*"
)
#: (key, value) pairs, sorted.
Labels = tuple[tuple[str, str], ...]
#: What tells the commas between requirements from those between values in parentheses.
_MARK = re.compile("[(),]")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One line of a node or label selector: In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class BadSelector(ValueError):
    """The text is no label selector, because of this `part`."""

    def __init__(self, part: str) -> None:
        self.part = part
        super().__init__(f"{part!r} is no requirement of a label selector")


def all_hold(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """Whether these labels satisfy every requirement; without requirements they do."""
    return all(holds(one, labels) for one in requirements)


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether these labels satisfy the requirement; NotIn also holds without the label.

    An operator that label selectors do not have is never satisfied.
    """
    match requirement.operator:
        case "In":
            return labels.get(requirement.key) in requirement.values
        case "NotIn":
            return labels.get(requirement.key) not in requirement.values
        case "Exists":
            return requirement.key in labels
        case "DoesNotExist":
            return requirement.key not in labels
        case _:
            return False


def parsed(text: str) -> tuple[Requirement, ...]:
    """Parse `a=b,c!=d,e in (f,g),h notin (i),j,!k`, as in `kubectl get -l`; "" selects everything.

    Raises BadSelector.
    """
    return tuple(map(_requirement, _parts(text))) if text.strip() else ()


def _parts(text: str) -> Iterator[str]:
    """The texts between the commas outside parentheses, in one pass however long the text is."""
    begin, is_inside = 0, False
    for mark in _MARK.finditer(text):
        if mark[0] != ",":
            is_inside = mark[0] == "("
        elif not is_inside:
            yield text[begin : mark.start()]
            begin = mark.end()
    yield text[begin:]


def _requirement(part: str) -> Requirement:
    found = _REQUIREMENT.fullmatch(part)
    if found is None:
        raise BadSelector(part.strip())
    if found["present"]:
        return Requirement(found["present"], "DoesNotExist" if found["absent"] else "Exists")
    if found["key"]:
        operator = "NotIn" if found["compared"] == "!=" else "In"
        return Requirement(found["key"], operator, (found["value"],))
    values = tuple(value.strip() for value in found["values"].split(","))
    return Requirement(found["member"], "In" if found["set"] == "in" else "NotIn", values)


# PodDisruptionBudgets: how many of which pods may be evicted now.


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One budget, by its namespace and name. `selector` None selects no pod, () every pod.

    `allowed` more pods of its namespace may be evicted; the pods named in `disrupted` are counted
    already.
    """

    key: PodKey
    selector: tuple[Requirement, ...] | None = None
    allowed: int = 0
    disrupted: frozenset[str] = frozenset()

    def covers(self, key: PodKey, labels: Labels) -> bool:
        """Whether evicting this pod uses the budget up.

        As in kube-scheduler, an empty selector selects no pod, and a pod without labels has no
        budget (filterPodsWithPDBViolation in pkg/scheduler/framework/plugins/defaultpreemption).
        """
        if not self.selector or not labels or key.namespace != self.key.namespace:
            return False
        return all_hold(self.selector, dict(labels))


# PodGroup objects, which describe groups, and the references of pods to them.


class GroupApi(StrEnum):
    """The API group of a PodGroup."""

    COSCHEDULING = "scheduling.x-k8s.io"
    KUBERNETES = "scheduling.k8s.io"


@dataclass(frozen=True, slots=True)
class GroupReference:
    """A pod belongs to the group that this PodGroup of its namespace describes."""

    api: GroupApi
    name: str

    @property
    def gang(self) -> str:
        """The gang's name, which no label can give to another gang: labels have no slash."""
        return f"{self.api}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupObject:
    """One PodGroup: how many of its pods must start together, 1 if each is scheduled alone.

    `within` is that of a pod's group. `unsupported` are fields that are not implemented: its pods
    are not tried. Invariant: minimum is within its bound (`bounds`), else ValueError.
    """

    api: GroupApi
    namespace: str
    name: str
    min_member: int
    within: str = ""
    unsupported: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not GROUP_MEMBERS.allows(self.min_member):
            raise ValueError(f"minimum {GROUP_MEMBERS.problem(self.min_member)}")


# Objects that say which pods belong together, for constraints of spread that pods get by default.
#
# Of each only its selector is kept. kube-scheduler's rules for them:
# pkg/scheduler/framework/plugins/ helper/spread.go (v1.36).


#: The kinds of this module. They are followed only for profiles that spread pods by default.
SPREAD_KINDS = (
    WatchedKind.SERVICE,
    WatchedKind.REPLICATION_CONTROLLER,
    WatchedKind.REPLICA_SET,
    WatchedKind.STATEFUL_SET,
)


@dataclass(frozen=True, slots=True)
class PodController:
    """The controller of a pod: one of the last three kinds, of the pod's namespace."""

    kind: WatchedKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceObject(ClusterObject):
    """A Service. `endpoint_labels` are those of its pods, sorted; without any it adds nothing."""

    kind: ClassVar[WatchedKind] = WatchedKind.SERVICE
    endpoint_labels: Labels = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationControllerObject(ClusterObject):
    """A ReplicationController. `replica_labels` are those of its pods, sorted."""

    kind: ClassVar[WatchedKind] = WatchedKind.REPLICATION_CONTROLLER
    replica_labels: Labels = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSetObject(ClusterObject):
    """A ReplicaSet. `replica_selector` selects its pods."""

    kind: ClassVar[WatchedKind] = WatchedKind.REPLICA_SET
    replica_selector: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulSetObject(ClusterObject):
    """A StatefulSet. `ordinal_selector` selects its pods."""

    kind: ClassVar[WatchedKind] = WatchedKind.STATEFUL_SET
    ordinal_selector: tuple[Requirement, ...] = ()
