"""LIST and WATCH of one resource, for ever: a list, then changes, and a new list when needed.

The list is the beginning of a watch if the server supports that (WatchList). If anything fails with
it, the list is read by pages, as in client-go: the server has answered, and may go on refusing for
ever. Rules: https://kubernetes.io/docs/reference/using-api/api-concepts/
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from typing import Generic, TypedDict, TypeVar, Unpack

import msgspec

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure, KubeUnreachable
from kubeshare_py.edges.process.backoff import Backoff
from kubeshare_py.manifests.watch import (
    ADDED,
    BOOKMARK,
    DELETED,
    ERROR,
    MODIFIED,
    Changes,
    Codec,
    InitialList,
    ListResult,
    Problem,
    UnreadableAnswer,
    WatchLine,
)

# Reads a stream that may be silent: when to check it, and when to give up.


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a watch may be silent, in seconds.

    look_s: after this silence, and again after as much more, check whether it is right. silence_s:
    then the connection counts as dead in any case. API servers send a bookmark about every 60 s:
    https://kubernetes.io/docs/reference/using-api/api-concepts/#watch-bookmarks
    """

    look_s: float = 20.0
    silence_s: float = 90.0


async def with_timeout(
    chunks: AsyncIterator[bytes], patience: Patience, look: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[bytes, None]:
    """Pass on what arrives, until it ends or `look` says that continuing is useless.

    Raises KubeUnreachable after too long a silence, and what `look` raises.
    """
    silent_s = 0.0
    while True:
        try:
            async with asyncio.timeout(patience.look_s) as limit:
                chunk = await anext(chunks, None)
        except TimeoutError:
            if not limit.expired():
                raise
            silent_s += patience.look_s
            if silent_s >= patience.silence_s:
                raise KubeUnreachable(f"nothing heard for {silent_s:.0f} s") from None
            if not await look():
                return
            continue
        if chunk is None:
            return
        silent_s = 0.0
        yield chunk
        del chunk  # not kept while the stream is silent


async def complete_lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[list[bytes], None]:
    """Split chunks of any size into complete lines; an unfinished last line is dropped."""
    head: list[bytes] = []
    async for chunk in chunks:
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            head.append(chunk)
            continue
        lines[0] = b"".join((*head, lines[0]))
        head = [lines.pop()]
        yield [line for line in lines if line]
        del chunk, lines


# One resource that is listed and watched, and how.


T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")


@dataclass(slots=True, kw_only=True)
class WatchedResource(Generic[T, R]):
    """One resource to follow, and how.

    `streams`: whether watches may begin with the list; otherwise `page_size` objects are listed at
    a time.
    """

    client: KubeClient
    path: str
    codec: Codec[T]
    reduce: Callable[[T], R]
    selector: dict[str, str]
    backoff: Backoff
    patience: Patience
    connected: Callable[[bool], None]
    gives_up_at: frozenset[int]
    page_size: int
    streams: bool = True
    rng: random.Random = field(default_factory=random.Random)

    async def pause(self, verb: str, error: Exception | None) -> None:
        """Wait after a request failed or a watch ended too soon, and record the failure."""
        self.connected(False)
        what = " ".join((self.path, *self.selector.values()))
        self.client.contact.failed(verb, error, what)
        asked_s = error.retry_after_s if isinstance(error, KubeError) else None
        await self.backoff.pause(asked_s or 0.0)


# WATCH of one resource over one connection after the other, until the position is lost.
#
# Rules: https://kubernetes.io/docs/reference/using-api/api-concepts/


#: The server ends a watch after a random time in this range (seconds), so that clients spread.
SHORTEST_WATCH_S, LONGEST_WATCH_S = 300, 600
#: Silence beyond the watch's own time, before the connection counts as dead.
READ_SLACK_S = 30.0
#: A watch that ends within this time (s) without a change counts as a failure, even if it ended in
#: order.
SHORT_LIFE_S = 5.0
#: After this time (s) without contact the server may have been restored to another past: list
#: again.
OUTAGE_S = 120.0
#: Statuses of servers that cannot begin a watch with a list.
_CANNOT_STREAM = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY})
_LOOK_TIMEOUT_S = 10.0

_CHANGES = frozenset({ADDED, MODIFIED, DELETED})


class Expired(Exception):
    """The server no longer has the history from which the watch should resume: list again."""


class NotStreamed(Exception):
    """The server did not begin the watch with the list; `is_for_good`: it never will."""

    def __init__(self, error: KubeFailure) -> None:
        super().__init__(str(error))
        status = error.status if isinstance(error, KubeError) else 0
        self.is_for_good = status in _CANNOT_STREAM or isinstance(error, _NoEnd)


class _NoEnd(KubeUnreachable):
    """The end of a watch's initial list did not come: an old server, or a proxy."""


@dataclass(slots=True, kw_only=True)
class WatchPosition:
    """The watch's position ("" before the list), whether it received anything since, and when (s).

    `answered`: the server began to answer. `reopened`: how many connections in a row were dropped
    because of silence. `in_doubt`: the last one broke or ended soon, so another server may be
    answering now.
    """

    resource_version: str = ""
    answered: bool = False
    moved: bool = False
    last_line_at: float = 0.0
    reopened: int = 0
    in_doubt: bool = False


async def watch(
    resource: WatchedResource[T, R], position: WatchPosition
) -> AsyncGenerator[ListResult[R] | Changes[T], None]:
    """Watch and reconnect until the server has lost our position: then raises Expired.

    Without a position the watch begins with the list: errors before its end are raised, as
    NotStreamed unless the server is away or busy.
    """
    loop = asyncio.get_running_loop()
    position.last_line_at = loop.time()
    while True:
        started, begun_at = loop.time(), position.resource_version
        error: KubeFailure | None = None
        try:
            async with aclosing(_connection(resource, position)) as stream:
                async for update in stream:
                    yield update
                    del update
        except KubeFailure as failure:
            error = failure
        is_soon = error is None and loop.time() - started < SHORT_LIFE_S
        position.in_doubt = is_soon or isinstance(error, KubeUnreachable)
        if not position.resource_version:
            error = error or _NoEnd("the watch ended before the list did")
            if _is_away(error, position):
                raise error
            raise NotStreamed(error) from error
        if error is not None and not error.may_pass:
            raise Expired(str(error)) from error
        if loop.time() - position.last_line_at > OUTAGE_S:
            raise Expired("the server was away for long")
        # A busy server ends watches whose reader is slower than the changes. client-go resumes at
        # once too: during a pause more would pile up.
        is_new = position.resource_version != begun_at
        if error is not None or (is_soon and not is_new):
            await resource.pause("watch", error)


async def _connection(
    resource: WatchedResource[T, R], position: WatchPosition
) -> AsyncGenerator[ListResult[R] | Changes[T], None]:
    """One watch request, from the position until the server or the network ends it."""
    loop = asyncio.get_running_loop()
    seconds = resource.rng.randint(SHORTEST_WATCH_S, LONGEST_WATCH_S)
    query = _query(resource, position, seconds)
    initial: InitialList[T, R] | None = None
    if not position.resource_version:
        initial = InitialList(resource.codec, resource.reduce)
    elif position.in_doubt:
        await _version_there(resource, position)
    look = partial(_look, resource, position)
    asked_at = loop.time()
    async with (
        resource.client.stream(
            resource.path, query=query, read_timeout_s=seconds + READ_SLACK_S
        ) as chunks,
        aclosing(with_timeout(chunks, _patience(resource, position), look)) as heeded,
    ):
        position.last_line_at = loop.time()
        position.answered = True
        resource.connected(True)
        async for lines in complete_lines(heeded):
            position.last_line_at = loop.time()
            decoded = [resource.codec.line(line) for line in lines]
            stop = _stop(decoded)
            if initial is not None and stop is None:
                decoded = initial.take(decoded)
                if not initial.resource_version:
                    continue
                position.resource_version = initial.resource_version
                yield ListResult(
                    items=initial.items(), problems=initial.problems(), asked_at=asked_at
                )
                initial = None
            del lines
            changed = _move(resource.codec, position, decoded) if initial is None else []
            del decoded
            if changed:
                yield Changes(changed=changed)
            del changed
            if stop is not None:
                raise stop


def _query(
    resource: WatchedResource[T, R], position: WatchPosition, seconds: int
) -> dict[str, str | int]:
    """The parameters of a watch of so many seconds, which begins with the list or at a version."""
    query: dict[str, str | int] = {
        **resource.selector,
        "watch": "1",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": seconds,
    }
    if position.resource_version:
        return query | {"resourceVersion": position.resource_version}
    # No resourceVersion: at least as new as the request.
    return query | {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}


def _move(
    codec: Codec[T], position: WatchPosition, decoded: list[WatchLine[T]]
) -> list[WatchLine[T]]:
    """Advance to the last received version; the lines that are changes."""
    versions = (codec.version(line) for line in reversed(decoded))
    version = next(filter(None, versions), "")
    if version:
        position.resource_version = version
        position.moved = True
        position.reopened = 0
    return [line for line in decoded if line.type in _CHANGES]


def _patience(resource: WatchedResource[T, R], position: WatchPosition) -> Patience:
    """The patience with silence; it grows while nothing happens."""
    patience = resource.patience
    look_s = min(patience.look_s * 2.0**position.reopened, patience.silence_s)
    return replace(patience, look_s=look_s)


async def _look(resource: WatchedResource[T, R], position: WatchPosition) -> bool:
    """Ask a server whose watch is silent for its version; whether the silence may be right.

    If it is ahead, a new watch delivers what this one may have lost: a half-open connection is
    silent for ever. If it is behind, it was restored from a backup and its watches are silent until
    it has caught up: raises KubeError 410.
    """
    if not position.resource_version:
        raise _NoEnd("the initial list did not end")
    there = await _version_there(resource, position)
    if there in ("", position.resource_version):
        return True
    position.reopened += 1
    return False


async def _version_there(resource: WatchedResource[T, R], position: WatchPosition) -> str:
    """The server's present version, "" if unknown; raises KubeError 410 if it went back."""
    query: dict[str, str | int] = {**resource.selector, "limit": 1}
    try:
        answer = await resource.client.request(
            "GET", resource.path, query=query, timeout_s=_LOOK_TIMEOUT_S, patient=False
        )
        there = resource.codec.page(answer.body).resource_version
    except (KubeError, UnreadableAnswer):
        return ""
    # Versions of one resource are growing numbers: KEP-5504, and etcd's revisions before it.
    here = position.resource_version
    if there.isdecimal() and here.isdecimal() and int(there) < int(here):
        raise KubeError(HTTPStatus.GONE, "Expired", f"the server went back from {here} to {there}")
    return there


def _is_away(error: KubeFailure, position: WatchPosition) -> bool:
    """Whether the server would not answer other requests either: it is away, or asks to wait."""
    if isinstance(error, KubeError):
        return error.status == HTTPStatus.TOO_MANY_REQUESTS
    return not position.answered


def _stop(decoded: list[WatchLine[T]]) -> KubeFailure | None:
    """Why this connection cannot go on: an ERROR event, or bytes that are no event; or None."""
    for line in decoded:
        if line.type == ERROR:
            return KubeError(line.status_code, "", line.problem.text if line.problem else "")
        if line.type not in _CHANGES and line.type != BOOKMARK:
            return KubeError(0, "", line.problem.text if line.problem else f"event {line.type!r}")
    return None


PAGE_SIZE = 500


class FollowOptions(TypedDict, total=False):
    """`selector` has query parameters (labelSelector, fieldSelector).

    `connected` is called with whether the server is in contact; a list that is answered with a
    status of `gives_up_at` ends it. `page_size` is the most objects of one answer, where the server
    does not stream lists: it holds whole objects, each of up to 3 MB.
    """

    selector: dict[str, str]
    backoff: Backoff
    patience: Patience
    connected: Callable[[bool], None]
    gives_up_at: frozenset[int]
    page_size: int


def follow(
    client: KubeClient, path: str, codec: Codec[T], **options: Unpack[FollowOptions]
) -> AsyncGenerator[ListResult[T] | Changes[T], None]:
    """`follow_reduced` with whole objects in the lists."""
    return follow_reduced(client, path, codec, lambda item: item, **options)


async def follow_reduced(
    client: KubeClient,
    path: str,
    codec: Codec[T],
    reduce: Callable[[T], R],
    **options: Unpack[FollowOptions],
) -> AsyncGenerator[ListResult[R] | Changes[T], None]:
    """Yield one ListResult, then Changes in batches, and a ListResult when history was lost.

    Of each listed object only the result of `reduce` is kept while the others arrive: whole, 50,000
    pods take 250 MB. It never ends and never raises for errors of the server or the network, except
    a KubeError with a status of `gives_up_at`: it logs, pauses and goes on. Close it with
    `contextlib.aclosing`.
    """
    resource = WatchedResource(
        client=client,
        path=path,
        codec=codec,
        reduce=reduce,
        selector=options.get("selector", {}),
        backoff=options.get("backoff") or Backoff(),
        patience=options.get("patience") or Patience(),
        connected=options.get("connected", lambda is_connected: None),
        gives_up_at=options.get("gives_up_at", frozenset()),
        page_size=options.get("page_size", PAGE_SIZE),
    )
    by_pages = False
    while True:
        position = WatchPosition()
        try:
            if by_pages:
                listed, position.resource_version = await _list(resource)
                yield listed
                del listed
            async with aclosing(watch(resource, position)) as stream:
                async for update in stream:
                    yield update
                    del update  # not kept while the stream is silent, here and below
        except NotStreamed as error:
            if by_pages:
                await resource.pause("list", error)  # its list names no version
            else:
                client.contact.lists_by_pages(path, str(error), is_for_good=error.is_for_good)
            by_pages = True
            resource.streams &= not error.is_for_good
        except (KubeFailure, UnreadableAnswer) as error:
            if isinstance(error, KubeError) and error.status in resource.gives_up_at:
                raise
            await resource.pause("list", error)
        except Expired as error:
            by_pages = not resource.streams
            if not position.moved:
                await resource.pause("watch", error)


async def _list(resource: WatchedResource[T, R]) -> tuple[ListResult[R], str]:
    """LIST page by page; a failed page is requested again, an expired continuation raises."""
    # Without resourceVersion the answer is consistent: at least as new as the request.
    query: dict[str, str | int] = {**resource.selector, "limit": resource.page_size}
    items: list[R] = []
    problems: list[Problem] = []
    asked_at = asyncio.get_running_loop().time()
    while True:
        try:
            answer = await resource.client.request("GET", resource.path, query=query)
        except KubeFailure as error:
            if "continue" not in query or not error.may_pass:
                raise
            await resource.pause("list", error)
            continue
        page = resource.codec.page(answer.body)
        items += map(resource.reduce, page.items)
        problems += page.problems
        if not page.continue_token:
            return ListResult(
                items=items, problems=problems, asked_at=asked_at
            ), page.resource_version
        query["continue"] = page.continue_token
