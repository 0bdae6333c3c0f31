"""LIST and WATCH of one resource, for ever: a list, then changes, and a new list when it must be.

Rules: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from kubeshare_py.edges.backoff import Backoff
from kubeshare_py.edges.kube_client import KubeClient
from kubeshare_py.edges.kube_errors import KubeError, KubeFailure
from kubeshare_py.manifests.watch import (
    ADDED,
    BOOKMARK,
    DELETED,
    ERROR,
    MODIFIED,
    Codec,
    Line,
    Problem,
    UnreadableAnswer,
)

T = TypeVar("T", bound=msgspec.Struct)

PAGE_SIZE = 500
#: The server ends a watch after a random time in this range (seconds), so that clients spread.
SHORTEST_WATCH_S, LONGEST_WATCH_S = 300, 600
#: Silence beyond the watch's own time, before the connection counts as dead.
READ_SLACK_S = 30.0
#: A watch that ends sooner than this counts as a failure even if it ended in good order.
SHORT_LIFE_S = 5.0

_CHANGES = frozenset({ADDED, MODIFIED, DELETED})
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(Generic[T]):
    """Everything there is. `asked_at` is the event loop's time (s) when the LIST was sent."""

    items: list[T]
    problems: list[Problem]
    asked_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes(Generic[T]):
    """What happened next, in order: lines of type ADDED, MODIFIED or DELETED.

    A line has an `item` or, where the object could not be decoded, a `problem`.
    """

    changed: list[Line[T]]


class _Expired(Exception):
    """The server no longer has the history from where the watch should go on: list again."""


@dataclass(slots=True, kw_only=True)
class _Position:
    """Where the watch is, and whether it got anything since the last LIST."""

    resource_version: str
    moved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source(Generic[T]):
    """One resource to follow, and how."""

    client: KubeClient
    path: str
    codec: Codec[T]
    selector: dict[str, str]
    page_size: int
    backoff: Backoff
    rng: random.Random = field(default_factory=random.Random)


async def follow(
    client: KubeClient,
    path: str,
    codec: Codec[T],
    *,
    selector: dict[str, str] | None = None,
    page_size: int = PAGE_SIZE,
    backoff: Backoff | None = None,
) -> AsyncGenerator[Listed[T] | Changes[T], None]:
    """Yield one Listed, then Changes in batches, and a Listed again when history was lost.

    `selector` holds query parameters (labelSelector, fieldSelector). It never ends and never
    raises for what the server or the network does: it logs, pauses and goes on. Close it with
    `contextlib.aclosing`.
    """
    source = _Source(
        client=client,
        path=path,
        codec=codec,
        selector=selector or {},
        page_size=page_size,
        backoff=backoff or Backoff(),
    )
    while True:
        try:
            listed, version = await _list(source)
        except (KubeFailure, UnreadableAnswer) as error:
            await _pause(source, "list", error)
            continue
        yield listed
        position = _Position(resource_version=version)
        try:
            async with aclosing(_watch(source, position)) as batches:
                async for changes in batches:
                    yield changes
        except _Expired as error:
            if not position.moved:
                await _pause(source, "watch", error)


async def _list(source: _Source[T]) -> tuple[Listed[T], str]:
    """LIST page by page; a page that fails is asked again, an expired continuation raises."""
    # Without resourceVersion the answer is consistent: at least as new as the moment of asking.
    query: dict[str, str | int] = {**source.selector, "limit": source.page_size}
    items: list[T] = []
    problems: list[Problem] = []
    asked_at = asyncio.get_running_loop().time()
    while True:
        try:
            answer = await source.client.request("GET", source.path, query=query)
        except KubeFailure as error:
            if "continue" not in query or not error.may_pass:
                raise
            await _pause(source, "list", error)
            continue
        page = source.codec.page(answer.body)
        items += page.items
        problems += page.problems
        if not page.continue_token:
            return Listed(items=items, problems=problems, asked_at=asked_at), page.resource_version
        query["continue"] = page.continue_token


async def _watch(source: _Source[T], position: _Position) -> AsyncGenerator[Changes[T], None]:
    """Watch and reconnect until the server has forgotten our position: then raises _Expired."""
    loop = asyncio.get_running_loop()
    while True:
        started = loop.time()
        error: Exception | None = None
        try:
            async with aclosing(_connection(source, position)) as batches:
                async for changes in batches:
                    yield changes
        except KubeFailure as failure:
            if not failure.may_pass:
                raise _Expired(str(failure)) from failure
            error = failure
        if error is not None or loop.time() - started < SHORT_LIFE_S:
            await _pause(source, "watch", error)


async def _connection(source: _Source[T], position: _Position) -> AsyncGenerator[Changes[T], None]:
    """One watch request, from the position until the server or the network ends it."""
    seconds = source.rng.randint(SHORTEST_WATCH_S, LONGEST_WATCH_S)
    query: dict[str, str | int] = {
        **source.selector,
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": position.resource_version,
        "timeoutSeconds": seconds,
    }
    async with source.client.stream(
        source.path, query=query, read_timeout_s=seconds + READ_SLACK_S
    ) as chunks:
        async for lines in _lines(chunks):
            decoded = [source.codec.line(line) for line in lines]
            changed = [line for line in decoded if line.type in _CHANGES]
            stop = _stop(decoded) if len(changed) != len(decoded) else None
            versions = (line.resource_version for line in reversed(decoded))
            version = next(filter(None, versions), "")
            if version:
                position.resource_version = version
                position.moved = True
            if changed:
                yield Changes(changed=changed)
            if stop is not None:
                raise stop


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[list[bytes], None]:
    """Cut chunks of any size into complete lines; an unfinished line at the end is dropped."""
    head: list[bytes] = []
    async for chunk in chunks:
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            head.append(chunk)
            continue
        lines[0] = b"".join((*head, lines[0]))
        head = [lines.pop()]
        yield [line for line in lines if line]


def _stop(decoded: list[Line[T]]) -> KubeFailure | None:
    """Say why this connection cannot go on: an ERROR event, or bytes that are no event."""
    for line in decoded:
        if line.type == ERROR:
            return KubeError(line.status_code, "", line.problem.text if line.problem else "")
        if line.type not in _CHANGES and line.type != BOOKMARK:
            return KubeError(0, "", line.problem.text if line.problem else f"event {line.type!r}")
    return None


async def _pause(source: _Source[T], verb: str, error: Exception | None) -> None:
    _log.warning("%s %s: %s", verb, source.path, error or "ended early")
    asked_s = error.retry_after_s if isinstance(error, KubeError) else None
    await source.backoff.pause(asked_s or 0.0)
