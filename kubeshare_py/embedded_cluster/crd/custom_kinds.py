"""A CustomResourceDefinition as rows of the kinds that are served: one a version."""

from kubeshare_py.embedded_cluster.crd.crd_conditions import is_true
from kubeshare_py.embedded_cluster.crd.custom_cells import custom_cells, custom_columns, printed
from kubeshare_py.embedded_cluster.crd.custom_objects import CustomObjects, ScalePaths
from kubeshare_py.embedded_cluster.protocol.list_selectors import FieldPath
from kubeshare_py.embedded_cluster.protocol.resources import (
    ALL_VERBS,
    Resource,
    Scale,
    Subresource,
    scale_subresource,
    status_subresource,
)
from kubeshare_py.embedded_cluster.protocol.status import Json
from kubeshare_py.embedded_cluster.protocol.versions import by_rank

_LISTED = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_LISTED_TO_THE_END = ("delete", "deletecollection", "get", "list", "watch")


def defined_kinds(definition: Json) -> list[Resource]:
    """One row a version; those without verbs are stored but not served."""
    spec = definition["spec"]
    storage = next(version for version in spec["versions"] if version["storage"])
    return [_row(definition, version, schema_of(storage)) for version in spec["versions"]]


def schema_of(version: Json) -> Json:
    """A version's structural schema."""
    found: Json = version["schema"]["openAPIV3Schema"]
    return found


def _row(definition: Json, version: Json, stored: Json) -> Resource:
    spec, names = definition["spec"], definition["status"]["acceptedNames"]
    parts = version.get("subresources") or {}
    scale = _scale_paths(parts["scale"]) if "scale" in parts else None
    terminating = is_true(definition, "Terminating")
    objects = CustomObjects(
        plural=spec["names"]["plural"],
        kind=spec["names"]["kind"],
        group=spec["group"],
        version=version["name"],
        schema=schema_of(version),
        stored=stored,
        has_status="status" in parts,
        scale=scale,
        terminating=terminating,
    )
    served = version["served"] and is_true(definition, "Established")
    columns = printed(version.get("additionalPrinterColumns") or [])
    return Resource(
        group=spec["group"],
        version=version["name"],
        plural=spec["names"]["plural"],
        kind=spec["names"]["kind"],
        singular_name=names.get("singular", ""),
        list_kind_name=spec["names"]["listKind"],
        definition=definition["metadata"]["name"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        verbs=ALL_VERBS if served else (),
        listed_verbs=_LISTED_TO_THE_END if terminating else _LISTED,
        subresources=_subresources(parts),
        scale=_scale(scale),
        pruner=objects.prune,
        schema=schema_of(version),
        warning=_warning(spec, version),
        columns=custom_columns(columns),
        cells=lambda obj, now: custom_cells(columns)(objects.present(obj), now),
        selectable={
            field["jsonPath"].lstrip("."): _path(field["jsonPath"])
            for field in version.get("selectableFields") or []
        },
        has_status="status" in parts,
        has_generation=True,
        unconditional_update=False,
        prepare=objects.prepare,
        default=objects.default,
        causes=objects.causes,
        changed_causes=objects.changed_causes,
        status_causes=objects.status_causes,
        apply=objects.apply,
        present=objects.present,
    )


def _subresources(parts: Json) -> tuple[Subresource, ...]:
    found = [status_subresource()] if "status" in parts else []
    return (*found, scale_subresource()) if "scale" in parts else tuple(found)


def _scale_paths(declared: Json) -> ScalePaths:
    selector = declared.get("labelSelectorPath", "")
    return ScalePaths(
        wanted=_path(declared["specReplicasPath"]),
        present=_path(declared["statusReplicasPath"]),
        selector=_path(selector) if selector else (),
    )


def _scale(paths: ScalePaths | None) -> Scale | None:
    if paths is None:
        return None
    return Scale(wanted=paths.wanted, present=paths.present, selector=paths.selector_of)


def _path(text: str) -> FieldPath:
    return tuple(text.removeprefix(".").split("."))


def _warning(spec: Json, version: Json) -> str:
    """The warning of a deprecated version, sent with every answer."""
    if not version.get("deprecated"):
        return ""
    if "deprecationWarning" in version:
        return str(version["deprecationWarning"])
    group, kind = spec["group"], spec["names"]["kind"]
    text = f"{group}/{version['name']} {kind} is deprecated"
    good = [one["name"] for one in spec["versions"] if one["served"] and not one.get("deprecated")]
    ranked = by_rank([*good, version["name"]])
    return text if ranked[0] == version["name"] else f"{text}; use {group}/{ranked[0]} {kind}"
