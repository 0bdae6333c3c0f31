"""CustomResourceDefinitions themselves: their row of the kinds table, defaults, what may change."""

from kubeshare_py.embedded_cluster.crd.crd_checks import definition_causes, new_causes
from kubeshare_py.embedded_cluster.crd.crd_conditions import (
    DELETION_PENDING,
    is_true,
    with_conditions,
)
from kubeshare_py.embedded_cluster.protocol.resources import (
    Admission,
    PrinterColumn,
    Resource,
    status_subresource,
)
from kubeshare_py.embedded_cluster.protocol.status import Json, StatusCause, wrong

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


def _changed_causes(new: Json, old: Json) -> list[StatusCause]:
    found = definition_causes(new)
    fixed = [("group",), ("names", "plural")]
    if is_true(old, "Established"):
        fixed = [("scope",), ("names", "kind"), *fixed]
    for path in fixed:
        before, after = old["spec"], new["spec"]
        for step in path:
            before, after = before.get(step, {}), after.get(step, {})
        if before != after:
            found.append(wrong(".".join(("spec", *path)), after or "", "field is immutable"))
    return found


def _ending(definition: Json, now: float) -> None:
    """Let deletion wait for the objects, which crd_control removes."""
    metadata = definition["metadata"]
    metadata.pop("deletionGracePeriodSeconds", None)
    held = metadata.get("finalizers") or []
    metadata["finalizers"] = [*(name for name in held if name != CLEANUP), CLEANUP]
    definition.update(with_conditions(definition, now, DELETION_PENDING))


def _cells(definition: Json, _now: float) -> list[object]:
    return [definition["metadata"]["creationTimestamp"]]


DEFINITIONS = Resource(
    group="apiextensions.k8s.io",
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    fields="CustomResourceDefinition",
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    subresources=(status_subresource(),),
    columns=(PrinterColumn("Created At", "date"),),
    cells=_cells,
    merge_keys={"ownerReferences": "uid", "finalizers": ""},
    has_status=True,
    has_generation=True,
    unconditional_update=False,
    prepare=_prepare,
    default=_default,
    causes=new_causes,
    changed_causes=_changed_causes,
    ending=_ending,
)
