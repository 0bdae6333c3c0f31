"""Which cards there are, from the source that the configuration names."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

from kubeshare_py.domain.events import InventoryFailed, InventoryRead
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges import inventory_file, prometheus
from kubeshare_py.framework.configuration import Inventory

#: Sources whose readings depend on which nodes there are.
OF_NODES = frozenset({"file"})


def readings(
    settings: Inventory,
    nodes: Callable[[], Iterable[NodeName]],
    heard: Callable[[], None] = lambda: None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> AsyncGenerator[InventoryRead | InventoryFailed, None]:
    """The inventory, then only changes and failures, for ever; close it with `aclosing`.

    `heard` is called for each reading that succeeds, changes or not. `sleep` may end early where
    `nodes` are others than before.
    """
    if settings.source == "file":
        return inventory_file.readings(
            settings.path, nodes, interval_s=settings.interval_seconds, sleep=sleep, heard=heard
        )
    return prometheus.readings(
        settings.url,
        selector=settings.selector,
        interval_s=settings.interval_seconds,
        token_file=settings.bearer_token_file or None,
        ca_file=settings.ca_file or None,
        heard=heard,
    )
