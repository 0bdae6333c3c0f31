"""Simulated controllers and kubelets as clients: requests sent until answered, watches."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

import tenacity

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError, KubeUnreachable
from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.manifests.watch import DELETED, Codec, ListResult

# Requests that may be sent again: repeated until the API server gives a definite answer.


T = TypeVar("T")

FIRST_S, LONGEST_S, JITTER_S = 0.2, 10.0, 0.2


def is_passing(error: BaseException) -> bool:
    """Whether the same request may succeed later: no answer, 429 or 5xx."""
    return isinstance(error, KubeUnreachable) or (
        isinstance(error, KubeError)
        and (
            error.status == HTTPStatus.TOO_MANY_REQUESTS
            or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        )
    )


async def persist(
    request: Callable[[], Awaitable[T]],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """Send a request until it is answered; raises KubeError if it is refused."""
    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(is_passing),
        wait=tenacity.wait_exponential(multiplier=FIRST_S, max=LONGEST_S)
        + tenacity.wait_random(0, JITTER_S),
        sleep=sleep,
    )
    return await retrying(request)


# Follows untyped objects: lists and changes, handed to a listener.


_objects: Codec[UnstructuredObject] = Codec(UnstructuredObject)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Callbacks for a whole list, an object as it is now, and the uid of a deleted one.

    `news` is called after each list and each batch of changes.
    """

    listed: Callable[[ListResult[UnstructuredObject]], None]
    seen: Callable[[UnstructuredObject], None]
    gone: Callable[[str], None]
    news: Callable[[], None]


async def listen(
    client: KubeClient, path: str, listener: Listener, *, selector: dict[str, str] | None = None
) -> None:
    """Follow the objects at `path` until cancelled; unreadable objects are skipped."""
    async with aclosing(follow(client, path, _objects, selector=selector or {})) as batches:
        async for batch in batches:
            if isinstance(batch, ListResult):
                listener.listed(batch)
            else:
                for line in batch.changed:
                    if line.item is None:
                        continue
                    if line.type == DELETED:
                        listener.gone(line.item.uid)
                    else:
                        listener.seen(line.item)
            listener.news()
