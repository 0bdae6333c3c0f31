"""CustomResourceDefinitions themselves: their row of the kinds table, conditions, validation."""

from dataclasses import dataclass
from typing import Any

from kubeshare_py.embedded_cluster.kinds.schemas import field_schema, too_many
from kubeshare_py.embedded_cluster.kinds.structural_schemas import check_schema
from kubeshare_py.embedded_cluster.protocol.checks import IMMUTABLE, Checked
from kubeshare_py.embedded_cluster.protocol.names import label_1035_problem, subdomain_problem
from kubeshare_py.embedded_cluster.protocol.resources import (
    STATUS,
    Admission,
    Resource,
    columns,
)
from kubeshare_py.embedded_cluster.protocol.selectors import value_at
from kubeshare_py.embedded_cluster.protocol.status import Json
from kubeshare_py.embedded_cluster.protocol.times import timestamp

# What versions of a CustomResourceDefinition have besides their schema.


_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = (*("byte", "date", "date-time", "double", "float", "int32", "int64", "password"),)
_SELECTABLE_TYPES = ("string", "boolean", "integer")
_MAX_SELECTABLE = 8
_LONGEST_WARNING = 256
_NOT_SELECTABLE = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with "
    "formats are allowed."
)


def _check_deprecation(version: Checked) -> None:
    """A warning is for deprecated versions, and short."""
    text = version.get("deprecationWarning", None)
    if text is None:
        return
    problem = ""
    if not version.get("deprecated"):
        problem = "can only be set for deprecated versions"
    elif len(text) > _LONGEST_WARNING:
        problem = f"must be <= {_LONGEST_WARNING} characters long"
    elif not text:
        problem = "must not be an empty string"
    if problem:
        version.wrong("deprecationWarning", text, problem)


def _check_scale(parts: Checked) -> None:
    """The replicas must be below .spec and .status."""
    if "scale" not in parts.value:
        return
    scale = parts.at("scale")
    for field, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        if scale.named(field, _path_problem) and not scale.get(field).startswith(root):
            scale.wrong(field, scale.get(field), f"should be a json path under {root[:-1]}")
    selector = scale.get("labelSelectorPath")
    if selector and not selector.startswith((".spec.", ".status.")):
        text = _path_problem(selector) or "should be a json path under either .spec or .status"
        scale.wrong("labelSelectorPath", selector, text)


def _check_columns(columns: list[Checked]) -> None:
    """Columns need a name, a known type and a path."""
    for column in columns:
        column.require("name")
        types = f"must be one of {','.join(_COLUMN_TYPES)}"
        if column.require("type", text=types) and column.get("type") not in _COLUMN_TYPES:
            column.wrong("type", column.get("type"), types)
        if column.get("format", _COLUMN_FORMATS[0]) not in _COLUMN_FORMATS:
            text = f"must be one of {','.join(_COLUMN_FORMATS)}"
            column.wrong("format", column.get("format"), text)
        path = column.get("jsonPath")
        if not path:
            column.lacks("JSONPath")
        elif problem := _path_problem(path):
            column.wrong("JSONPath", path, problem)


def _check_selectable(fields: list[Checked], schema: Json, where: str) -> None:
    """Fields that selectors may name must be in the schema, plain, and not many."""
    seen: set[str] = set()
    for field in fields:
        path = field.get("jsonPath")
        inner = _schema_at(schema, path)
        if not path:
            field.lacks("jsonPath")
        elif inner is None:
            field.wrong("jsonPath", path, "is an invalid path: does not refer to a valid field")
        elif inner.get("type") not in _SELECTABLE_TYPES:
            field.wrong("jsonPath", path, _NOT_SELECTABLE)
        else:
            field.repeats("jsonPath", seen)
        seen.add(path)
    if len(seen) > _MAX_SELECTABLE:
        fields[0].causes.append(too_many(where, len(seen), _MAX_SELECTABLE))


def _schema_at(schema: Json, path: str) -> Any:
    inner: Json | None = schema
    for step in path.removeprefix(".").split("."):
        inner = field_schema(inner, step)
    return inner


def _path_problem(path: str) -> str:
    return "" if path.startswith(".") else "must be a simple json path starting with ."


# The validation of CustomResourceDefinitions without their schemas.
#
# If all versions have the same value of a part, the real server's messages place it above them, and
# so do these.


_APPROVAL = "api-approved.kubernetes.io"
_PROTECTED = (".k8s.io", ".kubernetes.io")
_PRESERVED = (
    "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
    "spec.versions[*].schema instead"
)


def _check_new(definition: Checked) -> None:
    spec, name = definition.value["spec"], definition.value["metadata"]["name"]
    if name != f"{spec['names'].get('plural', '')}.{spec.get('group', '')}":
        definition.wrong("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    _check(definition)


def _check(definition: Checked) -> None:
    """A definition without its name, which cannot change."""
    spec = definition.at("spec")
    if spec.named("group", subdomain_problem) and "." not in spec.get("group"):
        spec.wrong("group", spec.get("group"), "should be a domain with at least one dot")
    if spec.require("scope"):
        spec.one_of("scope", ("Cluster", "Namespaced"))
    _check_versions(spec)
    _check_parts(spec)
    _check_names(spec.at("names"))
    _check_conversion(spec.at("conversion"))
    _check_stored(definition)
    _check_approval(definition)
    if spec.get("preserveUnknownFields"):
        spec.wrong("preserveUnknownFields", True, _PRESERVED)


def _check_versions(spec: Checked) -> None:
    for version in spec.each("versions"):
        version.valid("name", label_1035_problem)
        _check_deprecation(version)
        if "openAPIV3Schema" not in version.get("schema", {}):
            version.lacks("schema.openAPIV3Schema")
    versions = spec.value["versions"]
    names = [version.get("name", "") for version in versions]
    if len(set(names)) < len(names):
        spec.wrong("versions", versions, "must contain unique version names")
    if [version["storage"] for version in versions].count(True) != 1:
        text = "must have exactly one version marked as storage version"
        spec.wrong("versions", versions, text)


def _check_parts(spec: Checked) -> None:
    for where, version in _placed(spec, "schema", "spec.validation"):
        schema = version.get("schema", {}).get("openAPIV3Schema")
        if schema is not None:
            has_status = "status" in version.get("subresources", {})
            placed = Checked(schema, f"{where}.openAPIV3Schema", spec.causes)
            check_schema(placed, has_status=has_status)
    for where, version in _placed(spec, "subresources"):
        _check_scale(Checked(version.get("subresources", {}), where, spec.causes))
    for where, version in _placed(spec, "additionalPrinterColumns"):
        _check_columns(_entries(spec, version.get("additionalPrinterColumns"), where))
    for where, version in _placed(spec, "selectableFields"):
        schema = version.get("schema", {}).get("openAPIV3Schema", {})
        _check_selectable(_entries(spec, version.get("selectableFields"), where), schema, where)


def _entries(spec: Checked, entries: list[Json] | None, where: str) -> list[Checked]:
    """The entries of a list that is shown at another place than where it is."""
    return [Checked(one, f"{where}[{i}]", spec.causes) for i, one in enumerate(entries or [])]


def _placed(spec: Checked, part: str, above: str = "") -> list[tuple[str, Json]]:
    """The reported place of each version's part: above them if all have the same."""
    versions = spec.value["versions"]
    held = [version.get(part) for version in versions]
    if held and all(entry == held[0] for entry in held):
        return [(above or f"spec.{part}", versions[0])]
    return [(f"spec.versions[{index}].{part}", version) for index, version in enumerate(versions)]


def _check_names(names: Checked) -> None:
    names.require("plural", "singular", "kind", "listKind")
    for field in ("plural", "singular"):
        _check_label(names, field, names.get(field))
    for field in ("kind", "listKind"):
        text = names.get(field)
        if text and (problem := label_1035_problem(text.lower())):
            why = f"may have mixed case, but should otherwise match: {problem}"
            names.wrong(field, text, why)
    _check_labels(names, "shortNames")
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        names.wrong("listKind", names.get("listKind"), "kind and listKind may not be the same")
    _check_labels(names, "categories")


def _check_labels(names: Checked, field: str) -> None:
    for index, text in enumerate(names.get(field, [])):
        _check_label(names, f"{field}[{index}]", text)


def _check_label(names: Checked, field: str, text: str) -> None:
    if text and (problem := label_1035_problem(text)):
        names.wrong(field, text, problem)


def _check_conversion(conversion: Checked) -> None:
    """Only None is supported; Webhook is refused, because objects would not be converted."""
    strategy = conversion.get("strategy")
    if strategy == "Webhook":
        text = "the embedded API server converts with the strategy None only"
        conversion.forbid("strategy", text)
    elif strategy == "None" and "webhook" in conversion.value:
        text = "should not be set when strategy is not set to Webhook"
        conversion.forbid("webhookClientConfig", text)
    else:
        conversion.one_of("strategy", ("None", "Webhook"))


def _check_stored(definition: Checked) -> None:
    """Stored versions cannot be removed."""
    status, versions = definition.at("status"), definition.value["spec"]["versions"]
    stored = status.get("storedVersions")
    if not stored:
        status.wrong("storedVersions", None, "must have at least one stored version")
        return
    for version in versions:
        if version["storage"] and version["name"] not in stored:
            text = f"must have the storage version {version['name']}"
            status.wrong("storedVersions", stored, text)
    names = [version.get("name") for version in versions]
    for index, name in enumerate(stored):
        if name not in names:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must "
                "remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {name} and removes {name} from status.storedVersions"
            )
            status.wrong(f"storedVersions[{index}]", name, text)


def _check_approval(definition: Checked) -> None:
    group = definition.value["spec"].get("group", "")
    annotations = definition.at("metadata.annotations")
    if f".{group}".endswith(_PROTECTED) and not annotations.get(_APPROVAL):
        text = (
            f'protected groups must have approval annotation "{_APPROVAL}", '
            "see https://github.com/kubernetes/enhancements/pull/1111"
        )
        definition.lacks(f"metadata.annotations[{_APPROVAL}]", text)


# Conditions of CustomResourceDefinitions.


@dataclass(frozen=True, slots=True)
class CrdCondition:
    """A condition of a definition's status."""

    type: str
    status: bool
    reason: str
    message: str


NAMES_ACCEPTED = CrdCondition("NamesAccepted", True, "NoConflicts", "no conflicts found")
NOT_ACCEPTED = CrdCondition("Established", False, "NotAccepted", "not all names are accepted")
INSTALLING = CrdCondition(
    "Established", False, "Installing", "the initial names have been accepted"
)
ESTABLISHED = CrdCondition(
    "Established", True, "InitialNamesAccepted", "the initial names have been accepted"
)
DELETION_PENDING = CrdCondition(
    "Terminating",
    True,
    "InstanceDeletionPending",
    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
)
DELETION_IN_PROGRESS = CrdCondition(
    "Terminating", True, "InstanceDeletionInProgress", "CustomResource deletion is in progress"
)
INSTANCES_GONE = CrdCondition(
    "Terminating", False, "InstanceDeletionCompleted", "removed all instances"
)


def is_true(definition: Json, kind: str) -> bool:
    """Whether a definition has that condition, with the status True."""
    return any(one["type"] == kind and one["status"] == "True" for one in _conditions(definition))


def with_conditions(definition: Json, now: float, *wanted: CrdCondition) -> Json:
    """A definition with these conditions; transition times are of changes of status only."""
    held = {one["type"]: one for one in _conditions(definition)}
    for condition in wanted:
        status = "True" if condition.status else "False"
        before = held.get(condition.type, {})
        same = before.get("status") == status
        held[condition.type] = {
            "type": condition.type,
            "status": status,
            "lastTransitionTime": before["lastTransitionTime"] if same else timestamp(now),
            "reason": condition.reason,
            "message": condition.message,
        }
    return {**definition, "status": {**definition["status"], "conditions": list(held.values())}}


def _conditions(definition: Json) -> list[Json]:
    return definition.get("status", {}).get("conditions") or []


# CustomResourceDefinitions themselves: their row of the kinds table, defaults, what may change.


CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that keeps a definition until its objects are gone."""


def _prepare(definition: Json, _admission: Admission) -> None:
    accepted = {"plural": "", "kind": ""}
    status: Json = {"conditions": None, "acceptedNames": accepted, "storedVersions": []}
    definition["status"] = status


def _default(definition: Json) -> None:
    spec = definition.setdefault("spec", {})
    names = spec.setdefault("names", {})
    if kind := names.get("kind"):
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})
    spec.setdefault("versions", [])
    for version in spec["versions"]:
        version.setdefault("served", False)
        version.setdefault("storage", False)
    stored = definition["status"].setdefault("storedVersions", [])
    new = [version.get("name") for version in spec["versions"] if version["storage"]][:1]
    added = [name for name in new if name not in stored]
    definition["status"] = {**definition["status"], "storedVersions": [*stored, *added]}


def _check_changed(new: Checked, old: Json) -> None:
    _check(new)
    fixed = [("group",), ("names", "plural")]
    if is_true(old, "Established"):
        fixed = [("scope",), ("names", "kind"), *fixed]
    for path in fixed:
        before, after = value_at(old["spec"], path), value_at(new.value["spec"], path)
        if before != after:
            new.wrong(".".join(("spec", *path)), after or "", IMMUTABLE)


def _ending(definition: Json, now: float) -> None:
    """Let deletion wait for the objects, which crd_control removes."""
    metadata = definition["metadata"]
    metadata.pop("deletionGracePeriodSeconds", None)
    held = metadata.get("finalizers") or []
    metadata["finalizers"] = [*(name for name in held if name != CLEANUP), CLEANUP]
    definition.update(with_conditions(definition, now, DELETION_PENDING))


DEFINITIONS = Resource(
    group="apiextensions.k8s.io",
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    subresources=(STATUS,),
    columns=columns("Created At:date"),
    cells=lambda definition, _now: [definition["metadata"]["creationTimestamp"]],
    has_generation=True,
    unconditional_update=False,
    prepare=_prepare,
    default=_default,
    check=_check_new,
    check_changed=_check_changed,
    ending=_ending,
)
