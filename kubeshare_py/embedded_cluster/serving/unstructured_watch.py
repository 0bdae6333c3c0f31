"""Follows untyped objects: lists and changes, handed to a listener."""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.manifests.watch import DELETED, Codec, ListResult

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
