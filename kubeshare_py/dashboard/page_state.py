"""The state as the page gets it: a row for each node and each pod, and which rows changed when.

A state of 40,000 cards has 68 MB of JSON, of which the page needs an eighth. Parts of an answer
that are the same, byte for byte, as in the answer before are not decoded again.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

import msgspec

from kubeshare_py.manifests.decoding import UNDECODABLE
from kubeshare_py.manifests.state_group import state_of
from kubeshare_py.terminal.cards import asks_of, card_state, held, node_state
from kubeshare_py.views.view import CardView, NodeView, PodView, TenantView

#: Some milliseconds of work each: between two portions other viewers are answered.
NODES_A_PORTION, PODS_A_PORTION = 50, 400
#: The most rows that went away which are remembered. Pages that are older get the whole state.
MAX_GONE = 20_000

#: Counts the states that differ, from 1.
Version = int
#: Makes a row's name and text of a part of an answer; raises UNDECODABLE for other JSON.
_Read = Callable[[msgspec.Raw], tuple[str, bytes]]


class BadState(Exception):
    """An answer is not a state of this version; the text says what is wrong."""


class _Whole(msgspec.Struct):
    """A `ClusterView` whose nodes and pods are not decoded."""

    nodes: list[msgspec.Raw] = []
    pods: list[msgspec.Raw] = []
    overcommitted: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class _Row:
    """`source` is the digest of what the row was made of, `since` the version of its text."""

    source: bytes
    text: bytes
    since: Version


@dataclass(slots=True)
class _Rows:
    """Rows by name, and the names by the digest of their source."""

    rows: dict[str, _Row] = field(default_factory=dict)
    names: dict[bytes, str] = field(default_factory=dict)


class PageState:
    """The newest state that was read for one audience."""

    def __init__(self) -> None:
        self.version: Version = 0
        self._nodes, self._pods = _Rows(), _Rows()
        #: Versions in which rows went away, with the kind and the name of each.
        self._gone: list[tuple[Version, str, str]] = []
        #: Changes since older versions are not known.
        self._oldest: Version = 0

    def take(self, body: bytes) -> Generator[None, None, bool]:
        """Take in an answer in steps, between which others may read; whether anything changed.

        All of it counts from the end of the last step. Raises BadState, and keeps what was known.
        """
        try:
            whole = msgspec.json.decode(body, type=_Whole)
        except UNDECODABLE as error:
            raise BadState(str(error)) from error
        yield
        after = self.version + 1
        hidden = frozenset(whole.overcommitted)
        # The state of a card depends on this list too, so it is part of each node's source.
        salt = msgspec.json.encode(sorted(hidden)) if hidden else b""
        nodes = yield from _taken(
            self._nodes, whole.nodes, NODES_A_PORTION, salt, after, lambda raw: _node(raw, hidden)
        )
        pods = yield from _taken(self._pods, whole.pods, PODS_A_PORTION, b"", after, _pod)
        gone = [
            *((after, "node", name) for name in self._nodes.rows.keys() - nodes.rows.keys()),
            *((after, "pod", name) for name in self._pods.rows.keys() - pods.rows.keys()),
        ]
        changed = bool(
            gone
            or any(one.since == after for one in nodes.rows.values())
            or any(one.since == after for one in pods.rows.values())
        )
        self._nodes, self._pods = nodes, pods
        if changed:
            self.version = after
            self._remember(gone)
        return changed

    def knows(self, version: Version) -> bool:
        """Whether the changes since that version are known."""
        return version > 0 and self._oldest <= version <= self.version

    def whole(self) -> Iterator[bytes]:
        """All rows as pieces of JSON, between the brackets of an object."""
        yield from self._parts(0)

    def changes(self, since: Version) -> Iterator[bytes]:
        """The rows that changed since a version that it `knows`, and the names of those gone."""
        yield from self._parts(since)
        for kind in ("node", "pod"):
            # A row that went away and came back is among the rows.
            there = (self._nodes if kind == "node" else self._pods).rows
            names = {
                name
                for version, what, name in self._gone
                if version > since and what == kind and name not in there
            }
            yield b',"gone_%bs":' % kind.encode() + msgspec.json.encode(sorted(names))

    def _parts(self, since: Version) -> Iterator[bytes]:
        yield b'"nodes":[' + b",".join(_newer(self._nodes, since)) + b"]"
        yield b',"pods":[' + b",".join(_newer(self._pods, since)) + b"]"

    def _remember(self, gone: list[tuple[Version, str, str]]) -> None:
        self._gone += gone
        if len(self._gone) > MAX_GONE:
            self._oldest = self.version
            self._gone.clear()


def _newer(rows: _Rows, since: Version) -> Iterator[bytes]:
    return (one.text for one in rows.rows.values() if one.since > since)


def _taken(
    before: _Rows,
    raws: Iterable[msgspec.Raw],
    a_portion: int,
    salt: bytes,
    version: Version,
    read: _Read,
) -> Generator[None, None, _Rows]:
    """The rows of these parts; `read` makes those whose source was not known before."""
    after = _Rows()
    for number, raw in enumerate(raws):
        if number % a_portion == a_portion - 1:
            yield
        source = blake2b(bytes(raw) + salt, digest_size=16).digest()
        name = before.names.get(source)
        row = before.rows.get(name) if name is not None else None
        if name is None or row is None or row.source != source:
            name, text = _read(raw, read)
            row = before.rows.get(name)
            # Others looked at what changed: this text may be the same all the same.
            since = row.since if row is not None and row.text == text else version
            row = _Row(source, text, since)
        after.rows[name] = row
        after.names[source] = name
    return after


def _read(raw: msgspec.Raw, read: _Read) -> tuple[str, bytes]:
    try:
        return read(raw)
    except UNDECODABLE as error:
        raise BadState(str(error)) from error


# The rows: arrays, whose places page/state.js names.


def _node(raw: msgspec.Raw, overcommitted: frozenset[tuple[str, str]]) -> tuple[str, bytes]:
    node = msgspec.json.decode(raw, type=NodeView)
    islands = node.topology.islands if node.topology else ()
    places = {card.uuid: at for at, card in enumerate(node.cards)}
    row = (
        node.name,
        node_state(node),
        node.native_gpus,
        [_card(node, card, overcommitted) for card in node.cards],
        [
            (one.bandwidth, [places[uuid] for uuid in one.cards if uuid in places], one.intact)
            for one in islands
        ],
    )
    return node.name, msgspec.json.encode(row)


def _card(node: NodeView, card: CardView, overcommitted: frozenset[tuple[str, str]]) -> object:
    return (
        card.uuid,
        card.index,
        card.model,
        state_of(node, card),
        card_state(node, card, overcommitted),
        card.capacity_milli,
        card.used_milli,
        card.reserved_milli,
        card.memory_bytes,
        card.used_bytes,
        None if card.busy_milli is msgspec.UNSET else card.busy_milli,
        None if card.in_use_bytes is msgspec.UNSET else card.in_use_bytes,
        [_tenant(one) for one in card.tenants],
        [(one.backend, one.ready, one.reason) for one in card.isolation],
    )


def _tenant(one: TenantView) -> object:
    return (one.namespace, one.name, one.milli, one.memory_bytes, one.exclusive, one.unheld)


def _pod(raw: msgspec.Raw) -> tuple[str, bytes]:
    pod = msgspec.json.decode(raw, type=PodView)
    row = (
        pod.uid,
        pod.namespace,
        pod.name,
        pod.state,
        pod.node,
        pod.priority,
        pod.label_priority,
        pod.created,
        asks_of(pod),
        held(pod),
        pod.message,
        pod.profile,
        pod.cards,
        pod.gang,
    )
    return pod.uid, msgspec.json.encode(row)
