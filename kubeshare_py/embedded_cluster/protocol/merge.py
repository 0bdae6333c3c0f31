"""JSON merge patch (RFC 7386), JSON patch (RFC 6902) and Kubernetes' strategic merge patch.

None of them changes its arguments. Strategic merge follows the API conventions document: lists of
objects with a merge key are merged by it, everything else is replaced; directives `$patch`,
`$setElementOrder/x`, `$deleteFromPrimitiveList/x` and `$retainKeys` are honoured.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import jsonpatch
import jsonpointer

from kubeshare_py.embedded_cluster.protocol.status import Json

MergeKeys = Mapping[str, str]
"""List field name -> merge key of its entries; "" marks a set of primitives.

REPLACED marks an object whose patch is the whole new object.
"""

REPLACED = "$replace"

_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"
_RETAIN = "$retainKeys"
_PATCH = "$patch"


class PatchProblem(Exception):
    """A patch that cannot be applied; the text says why."""


def merge_patch(original: object, patch: object) -> Any:
    """RFC 7386: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(original) if isinstance(original, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def json_patch(original: Json, patch: object) -> Any:
    """RFC 6902; raises PatchProblem for a failed test or an impossible operation.

    A test for null holds where there is nothing, as in kube-apiserver's library
    (gopkg.in/evanphx/json-patch.v4).
    """
    if not isinstance(patch, list):
        raise PatchProblem("a JSON patch must be a list of operations")
    try:
        result: Any = original
        for step in patch:
            if not _tests_for_nothing(result, step):
                result = jsonpatch.JsonPatch([step]).apply(result)
        return result
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        raise PatchProblem(str(error)) from error
    except (KeyError, TypeError, AttributeError) as error:
        raise PatchProblem(f"malformed JSON patch: {error}") from error


def _tests_for_nothing(document: object, step: Mapping[str, Any]) -> bool:
    """Whether it is a test for null of a key that its object does not have."""
    if step.get("op") != "test" or step.get("value") is not None:
        return False
    *above, last = jsonpointer.JsonPointer(step["path"]).parts
    holder = jsonpointer.JsonPointer.from_parts(above).resolve(document)
    return isinstance(holder, dict) and last not in holder


def strategic_merge(original: Json, patch: Json, keys: MergeKeys) -> Json:
    """Apply a strategic merge patch to an object; raises PatchProblem for bad directives."""
    directive = patch.get(_PATCH)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _PATCH}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise PatchProblem(f"Unknown patch type '{directive}' found")
    result = _retained(original, patch)
    for key, value in patch.items():
        if key.startswith(_DELETE):
            _delete_primitives(result, key.removeprefix(_DELETE), value)
        elif not key.startswith("$"):
            _merge_field(result, key, value, patch, keys)
    for key, value in patch.items():
        if key.startswith(_ORDER):
            _order_alone(result, key.removeprefix(_ORDER), value, patch, keys)
    return result


def _retained(original: Json, patch: Json) -> Json:
    if _RETAIN not in patch:
        return dict(original)
    kept = set(patch[_RETAIN])
    return {key: value for key, value in original.items() if key in kept}


def _delete_primitives(result: Json, name: str, values: Sequence[object]) -> None:
    if isinstance(result.get(name), list):
        result[name] = [entry for entry in result[name] if entry not in values]


def _merge_field(result: Json, name: str, value: object, patch: Json, keys: MergeKeys) -> None:
    current = result.get(name)
    if value is None:
        result.pop(name, None)
    elif isinstance(value, dict):
        replaced = keys.get(name) == REPLACED or not isinstance(current, dict)
        merged = strategic_merge({} if replaced else cast(Json, current), value, keys)
        if value.get(_PATCH) == "delete":
            result.pop(name, None)
        else:
            result[name] = merged
    elif isinstance(value, list) and name in keys:
        order = patch.get(_ORDER + name)
        result[name] = _merge_list(
            current if isinstance(current, list) else [], value, order, keys[name], keys
        )
    else:
        result[name] = value


def _merge_list(
    current: list[Any], patch: list[Any], order: list[Any] | None, key: str, keys: MergeKeys
) -> list[Any]:
    if not key:
        merged = current + [entry for entry in patch if entry not in current]
        return _ordered(merged, patch if order is None else order, current, key)
    if any(isinstance(entry, dict) and entry.get(_PATCH) == "replace" for entry in patch):
        return [entry for entry in patch if entry.get(_PATCH) != "replace"]
    result = list(current)
    for entry in patch:
        if not isinstance(entry, dict) or key not in entry:
            raise PatchProblem(f"map: {entry} does not contain declared merge key: {key}")
        place = _place(result, key, entry[key])
        if entry.get(_PATCH) == "delete":
            result = [held for held in result if held.get(key) != entry[key]]
        elif place is None:
            result.append(strategic_merge({}, entry, keys))
        else:
            result[place] = strategic_merge(result[place], entry, keys)
    return _ordered(result, patch if order is None else order, current, key)


def _place(entries: list[Any], key: str, value: object) -> int | None:
    return next((i for i, held in enumerate(entries) if held.get(key) == value), None)


def _order_alone(result: Json, name: str, order: list[Any], patch: Json, keys: MergeKeys) -> None:
    """An order without a patch of the list itself still reorders it."""
    current = result.get(name)
    if name not in patch and isinstance(current, list):
        result[name] = _ordered(current, order, current, keys.get(name, ""))


def _ordered(entries: list[Any], order: list[Any], before: list[Any], key: str) -> list[Any]:
    """Entries that the patch lists in its order, between the others where they were before.

    New ones come first of those that are left, as in mergeSortedSlice of apimachinery's
    strategicpatch package.
    """
    wanted = {_identity(entry, key): index for index, entry in enumerate(order)}
    place = {_identity(entry, key): index for index, entry in enumerate(before)}
    named = {_identity(entry, key): entry for entry in entries}
    patched = sorted(wanted.keys() & named.keys(), key=wanted.__getitem__)
    kept = [name for name in named if name not in wanted]
    result = []
    for name in patched:
        while kept and name in place and place[kept[0]] < place[name]:
            result.append(named[kept.pop(0)])
        result.append(named[name])
    return result + [named[name] for name in kept]


def _identity(entry: Any, key: str) -> Any:
    return entry[key] if key and isinstance(entry, dict) else entry


# How strategic merge patches merge the lists of metadata and of pods, by field name.


META_KEYS = {"ownerReferences": "uid", "finalizers": ""}
POD_KEYS = {
    **META_KEYS,
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
    "resourceClaims": "name",
    "ports": "containerPort",
    "hostAliases": "ip",
    "podIPs": "ip",
    "hostIPs": "ip",
    "topologySpreadConstraints": "topologyKey",
    "conditions": "type",
    "resourceClaimStatuses": "name",
}
