"""GET: one object, a list in pages, or the beginning of a watch."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kubeshare_py.embedded_cluster.protocol.messages import ApiResponse, Call, WatchAnswer
from kubeshare_py.embedded_cluster.protocol.rendering import (
    ListPage,
    Rendering,
    list_body,
    negotiate,
    object_body,
)
from kubeshare_py.embedded_cluster.protocol.selectors import (
    Predicate,
    exact_value,
    fields_match,
    labels_match,
)
from kubeshare_py.embedded_cluster.protocol.status import (
    ApiRefusal,
    StatusCause,
    bad_request,
    expired,
    failure,
    invalid,
    not_allowed,
    not_found,
    unsupported,
)
from kubeshare_py.embedded_cluster.protocol.store import StoredObject
from kubeshare_py.embedded_cluster.protocol.watches import Subscription

_MATCHES = ("Exact", "NotOlderThan")


@dataclass(frozen=True, slots=True)
class _Continue:
    """Where the next page begins, and the revision of the first."""

    revision: int
    namespace: str
    name: str


def get(call: Call) -> ApiResponse:
    """One object."""
    view = view_of(call)
    return ApiResponse(body=object_body(view, existing(call)))


def existing(call: Call) -> StoredObject:
    """The object the URL names; 404 without one."""
    entry = call.store.get(call.resource.store_bucket, call.namespace, call.name)
    if entry is None:
        raise not_found(call.resource.named(call.name))
    return entry


def view_of(call: Call) -> Rendering:
    """How this client wants to see things."""
    return negotiate(call.request.accept, call.resource, call.option("includeObject"), call.now)


def listing(call: Call) -> ApiResponse:
    """All objects that the selectors match, in pages of `limit`."""
    view = view_of(call)
    start = _continuation(call)
    revision = start.revision if start else _list_revision(call)
    matches = selection(call)
    found = [entry for entry in _scope(call, revision) if matches(entry.object)]
    if start is not None:
        found = [entry for entry in found if _key(entry) > (start.namespace, start.name)]
    return ApiResponse(body=list_body(view, *_page(call, found, revision)))


def selection(call: Call) -> Predicate:
    """Namespace, name and both selectors as one predicate."""
    tests: list[Predicate] = []
    if call.namespace:
        namespace = call.namespace
        tests.append(lambda obj: obj["metadata"].get("namespace") == namespace)
    if call.name:
        name = call.name
        tests.append(lambda obj: obj["metadata"]["name"] == name)
    if text := call.option("labelSelector"):
        tests.append(labels_match(text))
    if text := call.option("fieldSelector"):
        tests.append(fields_match(text, call.resource.field_paths()))
    if len(tests) == 1:
        return tests[0]
    return lambda obj: all(test(obj) for test in tests)


def selected(call: Call) -> list[StoredObject]:
    """The objects the selectors match."""
    matches = selection(call)
    return [entry for entry in _scope(call, call.store.revision) if matches(entry.object)]


def watch(call: Call) -> WatchAnswer:
    """Subscribe, with what the client must see first already queued."""
    view = view_of(call)
    _check_watch_options(call)
    matches = selection(call)
    node = exact_value(call.option("fieldSelector"), "spec.nodeName")
    subscription = Subscription(call.store, view, matches, node=node)
    revision = _revision(call)
    initial = call.option("sendInitialEvents") == "true"
    bucket = call.resource.store_bucket
    if initial or revision == 0:
        for entry in selected(call):
            subscription.add(entry)
        if initial and call.option("allowWatchBookmarks") == "true":
            subscription.bookmark(initial_end=True)
    elif revision < call.store.floor(bucket):
        message = f"too old resource version: {revision} ({call.store.floor(bucket)})"
        subscription.fail(expired(message).status)
        return WatchAnswer(subscription=subscription)
    else:
        for event in call.store.events_after(bucket, revision):
            subscription.offer(event)
    subscription.open()
    return WatchAnswer(
        subscription=subscription,
        timeout_s=_timeout(call),
        bookmarks=call.option("allowWatchBookmarks") == "true",
    )


def _scope(call: Call, revision: int) -> list[StoredObject]:
    """Everything under the URL as of a revision; later pages of a list show the past."""
    namespace = call.namespace if call.resource.namespaced and call.namespace else None
    if revision == call.store.revision:
        return list(call.store.entries(call.resource.store_bucket, namespace))
    return call.store.entries_at(call.resource.store_bucket, namespace, revision)


def _page(
    call: Call, found: Sequence[StoredObject], revision: int
) -> tuple[Sequence[StoredObject], ListPage]:
    limit = _integer(call, "limit")
    if not limit or len(found) <= limit:
        return found, ListPage(revision=revision)
    filtered = call.option("labelSelector") or call.option("fieldSelector")
    token = _encode(_Continue(revision, *_key(found[limit - 1])))
    remaining = None if filtered else len(found) - limit
    return found[:limit], ListPage(revision=revision, next=token, remaining=remaining)


def _key(entry: StoredObject) -> tuple[str, str]:
    metadata = entry.object["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _encode(start: _Continue) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(start)).decode().rstrip("=")


def _continuation(call: Call) -> _Continue | None:
    token = call.option("continue")
    if not token:
        return None
    if call.option("resourceVersionMatch"):
        text = "resourceVersionMatch is forbidden when continue is provided"
        cause = not_allowed("resourceVersionMatch", text)
        raise invalid("ListOptions", "", [cause], "meta.k8s.io")
    if call.option("resourceVersion") not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        start = msgspec.json.decode(raw, type=_Continue)
    except (ValueError, msgspec.MsgspecError) as error:
        raise bad_request("continue key is not valid") from error
    if start.revision < call.store.floor(call.resource.store_bucket):
        raise expired(
            "The provided continue parameter is too old to display a consistent list result. "
            "You can start a new list without the continue parameter."
        )
    return start


def _list_revision(call: Call) -> int:
    """The revision a list shows; refuses what it may not ask of resourceVersion and friends."""
    match = call.option("resourceVersionMatch")
    causes: list[StatusCause] = []
    if call.option("sendInitialEvents"):
        text = "sendInitialEvents is forbidden for list"
        causes.append(not_allowed("sendInitialEvents", text))
    if match and not call.option("resourceVersion"):
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        causes.append(not_allowed("resourceVersionMatch", text))
    if match and match not in _MATCHES:
        causes.append(unsupported("resourceVersionMatch", match, _MATCHES))
    if causes:
        raise invalid("ListOptions", "", causes, "meta.k8s.io")
    revision = _revision(call)
    if revision > call.store.revision:
        raise _too_new(revision, call.store.revision)
    if match != "Exact":
        return call.store.revision
    if revision < call.store.floor(call.resource.store_bucket):
        raise expired("The provided resourceVersion is no longer available.")
    return revision


def _check_watch_options(call: Call) -> None:
    match, initial = call.option("resourceVersionMatch"), call.option("sendInitialEvents")
    causes = []
    if initial and match != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        causes.append(not_allowed("resourceVersionMatch", text))
    if match and not initial:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        causes.append(not_allowed("resourceVersionMatch", text))
    if causes:
        raise invalid("ListOptions", "", causes, "meta.k8s.io")


def _revision(call: Call) -> int:
    text = call.option("resourceVersion") or "0"
    if not text.isdigit():
        raise bad_request(f'Invalid value: "{text}": resource version must be a number')
    return int(text)


def _integer(call: Call, name: str) -> int:
    text = call.option(name) or "0"
    if not text.removeprefix("-").isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return max(int(text), 0)


def _timeout(call: Call) -> float | None:
    return float(_integer(call, "timeoutSeconds")) or None


def _too_new(wanted: int, current: int) -> ApiRefusal:
    details: dict[str, Any] = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    return ApiRefusal(failure(504, "Timeout", message, details), {"Retry-After": "1"})
