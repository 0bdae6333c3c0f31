"""LIST and WATCH of one resource, for ever: a list, then changes, and a new list when needed.

The list is the beginning of a watch if the server supports that (WatchList). If anything fails with
it, the list is read by pages, as in client-go: the server has answered, and may go on refusing for
ever. Rules: https://kubernetes.io/docs/reference/using-api/api-concepts/
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypedDict, TypeVar, Unpack

import msgspec

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure
from kubeshare_py.edges.kube.stream_timeout import Patience
from kubeshare_py.edges.kube.watch_connection import Expired, NotStreamed, WatchPosition, watch
from kubeshare_py.edges.kube.watched_resource import WatchedResource
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.backoff import Backoff
from kubeshare_py.manifests.watch import Changes, Codec, ListResult, Problem, UnreadableAnswer

T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")

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
    """Yield one Listed, then Changes in batches, and a Listed again when history was lost.

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
                decision_log.inform("list by pages", path=path, message=str(error))
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
