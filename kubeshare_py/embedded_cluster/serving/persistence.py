"""Requests that may be sent again: repeated until the API server gives a definite answer."""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TypeVar

import tenacity

from kubeshare_py.edges.kube.errors import KubeError, KubeUnreachable

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
