"""Watches: which events a watcher sees, and its bounded queue of lines to send."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace

import msgspec

from kubeshare_py.embedded_cluster.protocol.rendering import (
    Rendering,
    bookmark_body,
    object_body,
    table,
    watch_line,
)
from kubeshare_py.embedded_cluster.protocol.selectors import Predicate
from kubeshare_py.embedded_cluster.protocol.status import Json
from kubeshare_py.embedded_cluster.protocol.store import (
    ApiStore,
    StoredObject,
    StoreEvent,
    at_revision,
)

QUEUE_LIMIT = 20_000
"""Lines a watcher may be behind before it is cut."""
PORTION = 1_000
"""Lines handed out at once."""
_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


def _nobody() -> None:
    return None


class Subscription:
    """One watch. The store pushes events in; the edge takes lines out and sends them.

    An object that leaves the selector is reported as DELETED with its old content and the new
    resourceVersion, one that enters as ADDED (measured on kube-apiserver). `node`: the only node
    whose pods can match, if the selector says so.
    """

    def __init__(
        self,
        store: ApiStore,
        view: Rendering,
        matches: Predicate,
        *,
        node: str | None = None,
        limit: int = QUEUE_LIMIT,
    ) -> None:
        self.ended = False
        self.on_ready: Callable[[], None] = _nobody
        self._store = store
        self._view = view
        self._matches = matches
        self._node = node
        self._limit = limit
        self._pending: deque[bytes] = deque()
        self._initial: deque[bytes] = deque()
        self._columns_sent = False

    def open(self) -> None:
        """Begin to receive live events."""
        self._store.listen(self._view.resource.store_bucket, self.offer, self._node)
        if self._view.resource.definition:
            self._store.listen(_DEFINITIONS, self._redefine)

    def close(self) -> None:
        """Stop receiving; idempotent."""
        self._store.unlisten(self._view.resource.store_bucket, self.offer, self._node)
        self._store.unlisten(_DEFINITIONS, self._redefine)

    def take(self) -> bytes:
        """The next lines to be sent, at most `PORTION`; b"" when there are none."""
        lines: list[bytes] = []
        for queue in (self._initial, self._pending):
            while queue and len(lines) < PORTION:
                lines.append(queue.popleft())
        return b"".join(lines)

    def offer(self, event: StoreEvent) -> None:
        """Queue the line this watcher should see for an event, if any."""
        before = event.before is not None and self._matches(event.before.object)
        after = event.after is not None and self._matches(event.after.object)
        if after:
            assert event.after is not None
            self._push("MODIFIED" if before else "ADDED", event.after, event)
        elif before:
            assert event.before is not None
            self._push("DELETED", at_revision(event.before, event.revision), event)

    def add(self, entry: StoredObject) -> None:
        """Queue an object of the initial list; the limit does not apply to these."""
        self._initial.append(watch_line("ADDED", self._body(entry)))

    def bookmark(self, *, initial_end: bool = False) -> None:
        """Queue a BOOKMARK at the store's present revision."""
        body = bookmark_body(self._view, self._store.revision, initial_end=initial_end)
        line = watch_line("BOOKMARK", body)
        if initial_end:
            self._initial.append(line)
        else:
            self._enqueue(line)

    def fail(self, status: Json) -> None:
        """Queue an ERROR event; the stream ends after it."""
        self._enqueue(watch_line("ERROR", msgspec.json.encode(status)))
        self.ended = True

    def _redefine(self, event: StoreEvent) -> None:
        """End when the kind's definition changes or ends: clients then discover it again."""
        before = event.before.object if event.before is not None else {}
        if before.get("metadata", {}).get("name") != self._view.resource.definition:
            return
        after = event.after.object if event.after is not None else {}
        if after.get("spec") != before["spec"]:
            self.close()
            self.ended = True
            self.on_ready()

    def _push(self, event_type: str, entry: StoredObject, event: StoreEvent) -> None:
        key = (self._view.cache_key, event_type)
        if not key[0]:
            self._enqueue(watch_line(event_type, self._body(entry)))
            return
        line = event.rendered.get(key)
        if line is None:
            line = event.rendered[key] = watch_line(event_type, object_body(self._view, entry))
        self._enqueue(line)

    def _body(self, entry: StoredObject) -> bytes:
        if self._view.mode != "table":
            return object_body(self._view, entry)
        metadata = {"resourceVersion": entry.object["metadata"]["resourceVersion"]}
        view = replace(self._view, now=self._store.now)
        body = table(view, [entry], metadata, columns=not self._columns_sent)
        self._columns_sent = True
        return msgspec.json.encode(body)

    def _enqueue(self, line: bytes) -> None:
        if len(self._pending) >= self._limit:
            self.ended = True
            self._pending.clear()
            self._initial.clear()
            self.close()
        else:
            self._pending.append(line)
        self.on_ready()
