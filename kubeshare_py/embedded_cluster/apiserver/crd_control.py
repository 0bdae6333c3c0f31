"""The API server's own controllers of CustomResourceDefinitions.

Names are accepted and kinds established; deleting a definition deletes its objects. The real server
does this within milliseconds of a write, this one right after it.
"""

import random

from kubeshare_py.embedded_cluster.apiserver.writes import delete_entry
from kubeshare_py.embedded_cluster.kinds.custom_kinds import defined_kinds
from kubeshare_py.embedded_cluster.kinds.definitions import (
    CLEANUP,
    DEFINITIONS,
    DELETION_IN_PROGRESS,
    ESTABLISHED,
    INSTALLING,
    INSTANCES_GONE,
    NAMES_ACCEPTED,
    NOT_ACCEPTED,
    CrdCondition,
    is_true,
    with_conditions,
)
from kubeshare_py.embedded_cluster.protocol.messages import ApiRequest, Call
from kubeshare_py.embedded_cluster.protocol.status import Json
from kubeshare_py.embedded_cluster.protocol.store import ApiStore, StoredObject

BUCKET = DEFINITIONS.store_bucket
_SINGLE = (("plural", "Plural"), ("singular", "Singular"))
_KINDS = (("kind", "Kind"), ("listKind", "ListKind"))


def settle(store: ApiStore, now: float, rng: random.Random) -> None:
    """Bring all definitions up to date."""
    changed = True
    while changed:
        changed = False
        for entry in list(store.entries(BUCKET)):
            if "deletionTimestamp" in entry.object["metadata"]:
                changed |= _clean_up(store, entry, now, rng)
            else:
                changed |= _accept(store, entry, now)


def _accept(store: ApiStore, entry: StoredObject, now: float) -> bool:
    """Accept names that no other definition of the group has; then establish the kind."""
    definition = entry.object
    names = definition["spec"]["names"]
    if definition["status"]["acceptedNames"] == names and is_true(definition, "Established"):
        return False
    accepted, problem = _accepted(store, definition)
    held = {**definition, "status": {**definition["status"], "acceptedNames": accepted}}
    if problem is not None:
        first = [] if is_true(definition, "Established") else [NOT_ACCEPTED]
        return _put(store, entry, with_conditions(held, now, problem, *first))
    if is_true(definition, "Established"):
        return _put(store, entry, with_conditions(held, now, NAMES_ACCEPTED))
    _put(store, entry, with_conditions(held, now, NAMES_ACCEPTED, INSTALLING))
    return _put(store, entry, with_conditions(held, now, NAMES_ACCEPTED, ESTABLISHED))


def _put(store: ApiStore, entry: StoredObject, definition: Json) -> bool:
    if definition == entry.object:
        return False
    store.put(BUCKET, {**definition, "metadata": dict(definition["metadata"])})
    return True


def _accepted(store: ApiStore, definition: Json) -> tuple[Json, CrdCondition | None]:
    """The accepted names of a definition, and the last conflict, if any."""
    wanted, held = definition["spec"]["names"], definition["status"]["acceptedNames"]
    resources, kinds = _taken(store, definition)
    accepted, problem = dict(held), None
    for fields, taken in ((_SINGLE, resources), (_KINDS, kinds)):
        for field, shown in fields:
            name = wanted.get(field, "")
            if name != held.get(field) and name in taken:
                problem = _conflict(shown, [name])
            else:
                accepted[field] = name
        if fields is _SINGLE:
            mine = held.get("shortNames", [])
            clashes = [
                name for name in wanted.get("shortNames", []) if name in taken and name not in mine
            ]
            if clashes:
                problem = _conflict("ShortNames", clashes)
            else:
                _take(accepted, wanted, "shortNames")
    _take(accepted, wanted, "categories")
    return accepted, problem


def _take(accepted: Json, wanted: Json, field: str) -> None:
    accepted.pop(field, None)
    if field in wanted:
        accepted[field] = wanted[field]


def _taken(store: ApiStore, definition: Json) -> tuple[set[str], set[str]]:
    """The accepted names of the group's other definitions: of resources, and of kinds."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for entry in store.entries(BUCKET):
        other = entry.object
        if other["spec"]["group"] != definition["spec"]["group"]:
            continue
        if other["metadata"]["uid"] == definition["metadata"]["uid"]:
            continue
        names = other["status"]["acceptedNames"]
        resources |= {names.get("plural", ""), names.get("singular", "")}
        resources |= {*names.get("shortNames", [])}
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return resources, kinds


def _conflict(shown: str, names: list[str]) -> CrdCondition:
    texts = [f'"{name}" is already in use' for name in names]
    message = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return CrdCondition("NamesAccepted", False, f"{shown}Conflict", message)


def _clean_up(store: ApiStore, entry: StoredObject, now: float, rng: random.Random) -> bool:
    """Delete all objects of a definition being deleted; without any, remove it."""
    definition = entry.object
    finalizers = definition["metadata"].get("finalizers") or []
    if CLEANUP not in finalizers:
        return False
    row = defined_kinds(definition)[0]
    if not store.has_any(row.store_bucket):
        others = [name for name in finalizers if name != CLEANUP]
        if not others:
            store.remove(BUCKET, "", definition["metadata"]["name"])
            return True
        metadata = {**definition["metadata"], "finalizers": others}
        done = with_conditions(definition, now, INSTANCES_GONE)
        store.put(BUCKET, {**done, "metadata": metadata})
        return True
    changed = _put(store, entry, with_conditions(definition, now, DELETION_IN_PROGRESS))
    call = Call(
        request=ApiRequest(method="DELETE", path=""), resource=row, store=store, rng=rng, now=now
    )
    for held in list(store.entries(row.store_bucket)):
        if "deletionTimestamp" not in held.object["metadata"]:
            delete_entry(call, held, {})
            changed = True
    return changed
