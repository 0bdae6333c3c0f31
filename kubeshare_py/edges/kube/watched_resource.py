"""One resource that is listed and watched, and how."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.edges.kube.stream_timeout import Patience
from kubeshare_py.edges.process.backoff import Backoff
from kubeshare_py.manifests.watch import Codec

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
