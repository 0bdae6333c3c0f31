"""The validation of CustomResourceDefinitions without their schemas.

If all versions have the same value of a part, the real server's messages place it above them, and
so do these.
"""

from kubeshare_py.embedded_cluster.crd.crd_parts import (
    column_causes,
    deprecation_causes,
    scale_causes,
    selectable_causes,
)
from kubeshare_py.embedded_cluster.crd.crd_schemas import schema_causes
from kubeshare_py.embedded_cluster.protocol.names import label_1035_problem, subdomain_problem
from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    not_allowed,
    required,
    unsupported,
    wrong,
)

_APPROVAL = "api-approved.kubernetes.io"
_PROTECTED = (".k8s.io", ".kubernetes.io")
_WEBHOOK = "conversion.webhookClientConfig"


def new_causes(definition: Json) -> list[StatusCause]:
    """Everything wrong with a new definition."""
    named = _name_causes(definition["metadata"], definition["spec"])
    return [*named, *definition_causes(definition)]


def definition_causes(definition: Json) -> list[StatusCause]:
    """Everything wrong with a definition but its name, which cannot change."""
    spec = definition["spec"]
    return [
        *_group_causes(spec.get("group", "")),
        *_scope_causes(spec.get("scope", "")),
        *_version_causes(spec["versions"]),
        *_part_causes(spec["versions"]),
        *_names_causes(spec["names"]),
        *_conversion_causes(spec["conversion"]),
        *_stored_causes(definition),
        *_approval_causes(definition),
        *_preservation_causes(spec),
    ]


def _name_causes(metadata: Json, spec: Json) -> list[StatusCause]:
    wanted = f"{spec['names'].get('plural', '')}.{spec.get('group', '')}"
    if metadata["name"] == wanted:
        return []
    return [wrong("metadata.name", metadata["name"], 'must be spec.names.plural+"."+spec.group')]


def _group_causes(group: str) -> list[StatusCause]:
    if not group:
        return [required("spec.group")]
    if problem := subdomain_problem(group):
        return [wrong("spec.group", group, problem)]
    if "." not in group:
        return [wrong("spec.group", group, "should be a domain with at least one dot")]
    return []


def _scope_causes(scope: str) -> list[StatusCause]:
    if not scope:
        return [required("spec.scope")]
    scopes = ("Cluster", "Namespaced")
    return [] if scope in scopes else [unsupported("spec.scope", scope, scopes)]


def _version_causes(versions: list[Json]) -> list[StatusCause]:
    found = []
    for index, version in enumerate(versions):
        where = f"spec.versions[{index}]"
        if problem := label_1035_problem(version.get("name", "")):
            found.append(wrong(f"{where}.name", version.get("name", ""), problem))
        found += deprecation_causes(version, where)
        if "openAPIV3Schema" not in version.get("schema", {}):
            found.append(required(f"{where}.schema.openAPIV3Schema"))
    names = [version.get("name", "") for version in versions]
    if len(set(names)) < len(names):
        found.append(wrong("spec.versions", versions, "must contain unique version names"))
    if [version["storage"] for version in versions].count(True) != 1:
        text = "must have exactly one version marked as storage version"
        found.append(wrong("spec.versions", versions, text))
    return found


def _part_causes(versions: list[Json]) -> list[StatusCause]:
    found: list[StatusCause] = []
    for where, version in _placed(versions, "schema", "spec.validation"):
        schema = version.get("schema", {}).get("openAPIV3Schema")
        if schema is not None:
            has_status = "status" in version.get("subresources", {})
            found += schema_causes(schema, f"{where}.openAPIV3Schema", has_status=has_status)
    for where, version in _placed(versions, "subresources"):
        found += scale_causes(version.get("subresources", {}).get("scale"), where)
    for where, version in _placed(versions, "additionalPrinterColumns"):
        found += column_causes(version.get("additionalPrinterColumns") or [], where)
    for where, version in _placed(versions, "selectableFields"):
        schema = version.get("schema", {}).get("openAPIV3Schema", {})
        found += selectable_causes(version.get("selectableFields") or [], schema, where)
    return found


def _placed(versions: list[Json], part: str, above: str = "") -> list[tuple[str, Json]]:
    """The reported place of each version's part: above them if all have the same."""
    held = [version.get(part) for version in versions]
    if held and all(entry == held[0] for entry in held):
        return [(above or f"spec.{part}", versions[0])]
    return [(f"spec.versions[{index}].{part}", version) for index, version in enumerate(versions)]


def _names_causes(names: Json) -> list[StatusCause]:
    found = [
        required(f"spec.names.{field}")
        for field in ("plural", "singular", "kind", "listKind")
        if not names.get(field)
    ]
    for field in ("plural", "singular"):
        found += _label_causes(f"spec.names.{field}", names.get(field, ""))
    for field in ("kind", "listKind"):
        text = names.get(field, "")
        problem = label_1035_problem(text.lower()) if text else ""
        if problem:
            why = f"may have mixed case, but should otherwise match: {problem}"
            found.append(wrong(f"spec.names.{field}", text, why))
    found += _labels_causes(names, "shortNames")
    if names.get("kind") and names["kind"] == names["listKind"]:
        why = "kind and listKind may not be the same"
        found.append(wrong("spec.names.listKind", names["listKind"], why))
    return found + _labels_causes(names, "categories")


def _labels_causes(names: Json, field: str) -> list[StatusCause]:
    found = []
    for index, text in enumerate(names.get(field, [])):
        found += _label_causes(f"spec.names.{field}[{index}]", text)
    return found


def _label_causes(field: str, text: str) -> list[StatusCause]:
    problem = label_1035_problem(text) if text else ""
    return [wrong(field, text, problem)] if problem else []


def _conversion_causes(conversion: Json) -> list[StatusCause]:
    """Only None is supported; Webhook is refused, because objects would not be converted."""
    strategy = conversion.get("strategy", "")
    if strategy not in ("None", "Webhook"):
        supported = ("None", "Webhook")
        return [unsupported("spec.conversion.strategy", strategy, supported)]
    if strategy == "Webhook":
        text = "the embedded API server converts with the strategy None only"
        return [not_allowed("spec.conversion.strategy", text)]
    if "webhook" in conversion:
        text = "should not be set when strategy is not set to Webhook"
        return [not_allowed(f"spec.{_WEBHOOK}", text)]
    return []


def _stored_causes(definition: Json) -> list[StatusCause]:
    """Stored versions cannot be removed."""
    where, stored = "status.storedVersions", definition["status"]["storedVersions"]
    versions = definition["spec"]["versions"]
    if not stored:
        return [wrong(where, None, "must have at least one stored version")]
    found = [
        wrong(where, stored, f"must have the storage version {version['name']}")
        for version in versions
        if version["storage"] and version["name"] not in stored
    ]
    names = [version.get("name") for version in versions]
    for index, name in enumerate(stored):
        if name not in names:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must "
                "remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {name} and removes {name} from status.storedVersions"
            )
            found.append(wrong(f"{where}[{index}]", name, text))
    return found


def _preservation_causes(spec: Json) -> list[StatusCause]:
    if not spec.get("preserveUnknownFields"):
        return []
    text = (
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
        "spec.versions[*].schema instead"
    )
    return [wrong("spec.preserveUnknownFields", value=True, text=text)]


def _approval_causes(definition: Json) -> list[StatusCause]:
    group = definition["spec"].get("group", "")
    annotations = definition["metadata"].get("annotations") or {}
    if not f".{group}".endswith(_PROTECTED) or annotations.get(_APPROVAL):
        return []
    text = (
        f'protected groups must have approval annotation "{_APPROVAL}", '
        "see https://github.com/kubernetes/enhancements/pull/1111"
    )
    return [required(f"metadata.annotations[{_APPROVAL}]", text)]
