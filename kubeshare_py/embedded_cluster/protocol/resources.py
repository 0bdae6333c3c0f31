"""One row of the kinds table: how a kind is named, served, checked and shown."""

import random
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kubeshare_py.embedded_cluster.protocol.checks import Checked
from kubeshare_py.embedded_cluster.protocol.fields import prune
from kubeshare_py.embedded_cluster.protocol.merge import META_KEYS
from kubeshare_py.embedded_cluster.protocol.selectors import FieldPath
from kubeshare_py.embedded_cluster.protocol.status import Json, StatusSubject
from kubeshare_py.embedded_cluster.protocol.store import ApiStore
from kubeshare_py.views.ages import age

TableCells = Callable[[Json, float], list[object]]
Pruned = tuple[Json, list[str]]
"""A body with only known fields, and the paths of the unknown ones."""

READ_VERBS = ("get", "list", "watch")
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A column of `kubectl get`; priority 1 is shown by `-o wide` only."""

    name: str
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""


def columns(names: str, wide: str = "") -> tuple[PrinterColumn, ...]:
    """Columns by their names, separated by commas, and those of `-o wide`.

    `Ready:integer` is one of another type than string.
    """
    found = []
    for priority, part in enumerate((names, wide)):
        for name in filter(None, part.split(", ")):
            shown, _, kind = name.partition(":")
            found.append(PrinterColumn(shown, kind or "string", priority))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    """`status`, `binding`, `eviction`, `log`: its own verbs, and its own kind if it has one."""

    name: str
    verbs: tuple[str, ...]
    kind: str = ""
    group: str = ""
    version: str = ""


#: `/status`, as every kind with a status has it, and `/scale`.
STATUS = Subresource(name="status", verbs=("get", "patch", "update"))
SCALE = Subresource(
    name="scale",
    verbs=("get", "patch", "update"),
    kind="Scale",
    group="autoscaling",
    version="v1",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The inputs of admission: the time, a random generator, and the other objects."""

    now: float
    rng: random.Random
    store: ApiStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The paths of the replicas of a kind with `/scale`, and its selector."""

    wanted: FieldPath
    present: FieldPath
    selector: Callable[[Json], str]


def _nothing(_obj: Json) -> None:
    return None


def _no_preparation(_obj: Json, _admission: Admission) -> None:
    return None


def _no_check(_new: Checked) -> None:
    return None


def _no_update_check(_new: Checked, _old: Json) -> None:
    return None


def age_of(obj: Json, now: float) -> str:
    """The cell that most kinds have."""
    return age(obj["metadata"].get("creationTimestamp"), now)


def _age_cells(obj: Json, now: float) -> list[object]:
    return [age_of(obj, now)]


def _no_time_problem(_obj: Json) -> str:
    return ""


def _same(obj: Json) -> Json:
    return obj


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One kind in one group and version.

    `bucket` names its place in the store: two rows with one bucket are two views of the same
    objects, translated by `present` (store to wire) and `absorb` (wire to store). `definition`
    names the CustomResourceDefinition that makes a kind; those of a static row are "".
    """

    group: str = ""
    version: str = "v1"
    plural: str
    kind: str
    singular_name: str = ""  # if it is not the kind in lower case
    list_kind_name: str = ""  # if it is not the kind and `List`
    definition: str = ""
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    listed_verbs: tuple[str, ...] = ()  # as in discovery, if not `verbs`
    subresources: tuple[Subresource, ...] = ()
    scale: Scale | None = None
    fields: str = ""  # the object's type in `fields`, if it is not the kind
    pruner: Callable[[Json], Pruned] | None = None  # for types that are not in `fields`
    schema: Json | None = None  # the object's type in OpenAPI documents
    warning: str = ""  # the warning of every answer
    columns: tuple[PrinterColumn, ...] = (PrinterColumn("Age"),)
    cells: TableCells = _age_cells
    merge_keys: Mapping[str, str] = field(default_factory=lambda: META_KEYS)
    selectable: Mapping[str, FieldPath] = field(default_factory=dict)
    has_generation: bool = False
    counts_annotations: bool = False  # in metadata.generation, unless /status changes them
    name_is_label: bool = False
    create_on_update: bool = False
    returns_deleted: bool = False
    unconditional_update: bool = True  # PUT without a resourceVersion
    default_policy: str = "Background"
    bucket: str = ""
    prepare: Callable[[Json, Admission], None] = _no_preparation  # create only; may refuse
    default: Callable[[Json], None] = _nothing  # create and update; changes obj
    time_problem: Callable[[Json], str] = _no_time_problem  # a MicroTime that does not parse
    check: Callable[[Checked], None] = _no_check
    check_update: Callable[[Checked, Json], None] = _no_update_check  # if `check` finds nothing
    check_changed: Callable[[Checked, Json], None] | None = None  # instead of both on update
    check_status: Callable[[Checked, Json], None] = _no_update_check
    ending: Callable[[Json, float], None] | None = None  # called when its deletion begins
    apply: Callable[[Json, Json], Json] | None = None  # server-side, if merge_keys do not say how
    present: Callable[[Json], Json] = _same
    absorb: Callable[[Json], Json] = _same

    @property
    def has_status(self) -> bool:
        """Whether `/status` alone changes the status."""
        return STATUS in self.subresources

    @property
    def store_bucket(self) -> str:
        """Where its objects are kept."""
        return self.bucket or f"{self.plural}.{self.group}"

    @property
    def api_version(self) -> str:
        """`v1`, `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """`pod`."""
        return self.singular_name or self.kind.lower()

    @property
    def list_kind(self) -> str:
        """`PodList`."""
        return self.list_kind_name or f"{self.kind}List"

    def prune(self, body: Json) -> Pruned:
        """Raises WrongType for a known field of another type."""
        return self.pruner(body) if self.pruner else prune(self.fields or self.kind, body)

    def head(self) -> Json:
        """The fields that stored objects lack."""
        return {"kind": self.kind, "apiVersion": self.api_version}

    def counted(self, obj: Json) -> object:
        """The part whose changes metadata.generation counts."""
        if not self.definition:
            annotations = obj["metadata"].get("annotations") if self.counts_annotations else None
            return obj.get("spec"), annotations or {}
        return {key: value for key, value in obj.items() if key != "metadata"}

    def named(self, name: str, subresource: str = "") -> StatusSubject:
        """The subject of an error message."""
        plural = f"{self.plural}/{subresource}" if subresource else self.plural
        return StatusSubject(plural, name, self.group)

    def field_paths(self) -> dict[str, FieldPath]:
        """Fields that `fieldSelector` may name."""
        paths: dict[str, FieldPath] = {"metadata.name": ("metadata", "name")}
        if self.namespaced:
            paths["metadata.namespace"] = ("metadata", "namespace")
        return {**paths, **self.selectable}

    def subresource(self, name: str) -> Subresource | None:
        """The subresource of that name."""
        return next((sub for sub in self.subresources if sub.name == name), None)


def without_status(obj: Json, _admission: Admission) -> None:
    """Drop what a creator says of the object's status: `prepare` of kinds that start without."""
    obj.pop("status", None)


# Versions of an API in the order of their rank: v2, v1, v2beta1, v1alpha1, anything else.
#
# https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/


_VERSION = re.compile(r"^v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?$")
_STAGES = ("", "beta", "alpha")


def by_rank(versions: Iterable[str]) -> list[str]:
    """The best first, each once."""
    return sorted(set(versions), key=_rank)


def _rank(version: str) -> tuple[int, int, int, str]:
    found = _VERSION.match(version)
    if found is None:
        return (len(_STAGES), 0, 0, version)
    return (_STAGES.index(found[2] or ""), -int(found[1]), -int(found[3] or 0), version)
