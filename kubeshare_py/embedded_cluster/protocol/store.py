"""The embedded API server's store: objects, resourceVersions, and the recent events.

Objects are plain dicts, kept without `kind` and `apiVersion` and never changed once stored: an
update stores a new dict. Each object is serialised once; watchers and lists share the bytes.
One counter numbers every write, as etcd's revision does.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import msgspec

from kubeshare_py.embedded_cluster.protocol.status import Json

WINDOW = 20_000
"""Events kept per bucket; older ones answer 410 (the real watch cache holds 100 to 102,400)."""

StoreListener = Callable[["StoreEvent"], None]


class StoredObject:
    """One stored object and its JSON, encoded on first use."""

    __slots__ = ("_body", "object")

    def __init__(self, obj: Json) -> None:
        self.object = obj
        self._body: bytes | None = None

    def body(self) -> bytes:
        """The object as JSON, without kind and apiVersion."""
        if self._body is None:
            self._body = msgspec.json.encode(self.object)
        return self._body

    def revision(self) -> int:
        """The resourceVersion as a number."""
        return int(self.object["metadata"]["resourceVersion"])


@dataclass(slots=True)
class StoreEvent:
    """One write: the object before, and after (None: there is none).

    `rendered` caches watch lines by (view, event type), shared by all watchers.
    """

    revision: int
    before: StoredObject | None
    after: StoredObject | None
    rendered: dict[tuple[str, str], bytes] = field(default_factory=dict)


@dataclass(slots=True)
class _Bucket:
    """All objects of one kind, by namespace and name, and their recent events."""

    spaces: dict[str, dict[str, StoredObject]] = field(default_factory=dict)
    events: list[StoreEvent] = field(default_factory=list)
    floor: int = 0
    listeners: dict[str | None, list[StoreListener]] = field(default_factory=dict)

    def audience(self, event: StoreEvent) -> list[StoreListener]:
        """The listeners of an event: the general ones, and those of its nodes."""
        found = list(self.listeners.get(None, ()))
        for node in {_node_of(event.before), _node_of(event.after)} - {None}:
            found += self.listeners.get(node, ())
        return found


@dataclass(frozen=True, slots=True)
class Backup:
    """All objects at one revision, by bucket and namespace."""

    revision: int
    spaces: dict[str, dict[str, dict[str, StoredObject]]]


class ApiStore:
    """Objects by (bucket, namespace, name); cluster-scoped ones live in namespace ""."""

    def __init__(self, *, window: int = WINDOW) -> None:
        self.revision = 1
        self.now = 0.0  # seconds; the time of the request being handled, for rendered ages
        self._window = window
        self._buckets: dict[str, _Bucket] = {}

    def get(self, bucket: str, namespace: str, name: str) -> StoredObject | None:
        """The object, or None."""
        return self._bucket(bucket).spaces.get(namespace, {}).get(name)

    def entries(self, bucket: str, namespace: str | None = None) -> Iterator[StoredObject]:
        """All objects of a bucket (of one namespace), sorted by namespace and name."""
        spaces = self._bucket(bucket).spaces
        for space in sorted(spaces) if namespace is None else [namespace]:
            found = spaces.get(space, {})
            for name in sorted(found):
                yield found[name]

    def entries_at(self, bucket: str, namespace: str | None, revision: int) -> list[StoredObject]:
        """The objects as they were at an earlier revision, not below the bucket's floor.

        Later events are undone, newest first.
        """
        past = {_key_of(entry): entry for entry in self.entries(bucket, namespace)}
        for event in reversed(self.events_after(bucket, revision)):
            changed = event.before or event.after
            assert changed is not None
            key = _key_of(changed)
            if namespace not in (None, key[0]):
                continue
            if event.before is None:
                past.pop(key, None)
            else:
                past[key] = event.before
        return [past[key] for key in sorted(past)]

    def has_any(self, bucket: str) -> bool:
        """Whether a bucket holds anything."""
        return any(self._bucket(bucket).spaces.values())

    def is_empty(self, namespace: str) -> bool:
        """Whether no bucket holds anything in that namespace."""
        return not any(bucket.spaces.get(namespace) for bucket in self._buckets.values())

    def buckets_in(self, namespace: str) -> list[str]:
        """The buckets holding something in that namespace."""
        return [name for name, bucket in self._buckets.items() if bucket.spaces.get(namespace)]

    def put(self, bucket: str, obj: Json) -> StoredObject:
        """Store a new or changed object.

        `obj` gets its resourceVersion and belongs to the store now.
        """
        metadata = obj["metadata"]
        self.revision += 1
        metadata["resourceVersion"] = str(self.revision)
        held = self._bucket(bucket)
        space = held.spaces.setdefault(metadata.get("namespace", ""), {})
        before = space.get(metadata["name"])
        entry = space[metadata["name"]] = StoredObject(obj)
        self._publish(held, StoreEvent(self.revision, before, entry))
        return entry

    def remove(self, bucket: str, namespace: str, name: str) -> StoredObject:
        """Remove an object; returns its last state with the deletion's resourceVersion.

        Raises KeyError if it is not there.
        """
        held = self._bucket(bucket)
        before = held.spaces[namespace].pop(name)
        self.revision += 1
        self._publish(held, StoreEvent(self.revision, before, None))
        return at_revision(before, self.revision)

    def listen(self, bucket: str, listener: StoreListener, node: str | None = None) -> None:
        """Call `listener` for every later event of a bucket, or only for pods of one node.

        The real watch cache has this one index too: a thousand kubelets must not each look at
        every pod.
        """
        self._bucket(bucket).listeners.setdefault(node, []).append(listener)

    def unlisten(self, bucket: str, listener: StoreListener, node: str | None = None) -> None:
        """Stop calling it; unknown listeners are ignored."""
        listeners = self._bucket(bucket).listeners
        remaining = [held for held in listeners.pop(node, ()) if held != listener]
        if remaining:
            listeners[node] = remaining

    def floor(self, bucket: str) -> int:
        """Events up to this revision are dropped; a watch must start at or after it."""
        return self._bucket(bucket).floor

    def events_after(self, bucket: str, revision: int) -> list[StoreEvent]:
        """The kept events newer than `revision`, oldest first."""
        events = self._bucket(bucket).events
        start = bisect_right(events, revision, key=lambda event: event.revision)
        return list(islice(events, start, None))

    def compact(self) -> None:
        """Drop all past events: watches and continue tokens from before now get 410."""
        self.revision += 1
        for bucket in self._buckets.values():
            bucket.floor = self.revision
            bucket.events.clear()

    def backup(self) -> Backup:
        """The present state, to be restored later."""
        spaces = {
            name: {namespace: dict(found) for namespace, found in bucket.spaces.items()}
            for name, bucket in self._buckets.items()
        }
        return Backup(self.revision, spaces)

    def restore(self, backup: Backup) -> None:
        """Restore a state, the revision included, without history: as etcd after a restore.

        Listeners are not called: open watches do not survive a restore.
        """
        self.revision = backup.revision
        for name, bucket in self._buckets.items():
            spaces = backup.spaces.get(name, {})
            bucket.spaces = {namespace: dict(found) for namespace, found in spaces.items()}
            bucket.events.clear()
            bucket.floor = backup.revision

    def _bucket(self, name: str) -> _Bucket:
        found = self._buckets.get(name)
        if found is None:
            found = self._buckets[name] = _Bucket()
        return found

    def _publish(self, bucket: _Bucket, event: StoreEvent) -> None:
        bucket.events.append(event)
        if len(bucket.events) > 2 * self._window:
            bucket.floor = bucket.events[-self._window - 1].revision
            del bucket.events[: -self._window]
        for listener in bucket.audience(event):
            listener(event)


def _key_of(entry: StoredObject) -> tuple[str, str]:
    metadata = entry.object["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _node_of(entry: StoredObject | None) -> str | None:
    """The node a pod is bound to; "" for an unbound one, None without a pod."""
    if entry is None:
        return None
    spec = entry.object.get("spec")
    return str(spec.get("nodeName", "")) if isinstance(spec, dict) else ""


def at_revision(entry: StoredObject, revision: int) -> StoredObject:
    """The same state under another resourceVersion, as watches report deleted objects."""
    metadata = {**entry.object["metadata"], "resourceVersion": str(revision)}
    return StoredObject({**entry.object, "metadata": metadata})
