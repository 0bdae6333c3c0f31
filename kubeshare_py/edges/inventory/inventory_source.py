"""The inventory from the source that the configuration names."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

from kubeshare_py.configuration.inventory import Inventory
from kubeshare_py.domain.events import InventoryFailed, InventoryRead
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.inventory import collector_scrape, inventory_file, prometheus
from kubeshare_py.edges.inventory.collector_scrape import CollectorTargets
from kubeshare_py.edges.inventory.inventory_reports import ScrapeAccess

#: Sources whose readings depend on the set of nodes.
OF_NODES = frozenset({"file", "annotation", "hami"})
#: Sources that need the collectors' addresses.
OF_TARGETS = frozenset({"scrape"})


def readings(
    settings: Inventory,
    nodes: Callable[[], Iterable[NodeName]],
    targets: CollectorTargets,
    on_reading: Callable[[], None] = lambda: None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> AsyncGenerator[InventoryRead | InventoryFailed, None]:
    """The inventory, then only changes and failures, for ever; close it with `aclosing`.

    `targets` are for the source `scrape`, `nodes` for `file`. `on_reading` is called for each
    successful reading. `sleep` may end early when `nodes` have changed.
    """
    if settings.source == "file":
        return inventory_file.readings(
            settings.path,
            nodes,
            interval_s=settings.interval_seconds,
            sleep=sleep,
            on_reading=on_reading,
        )
    access = ScrapeAccess(
        token_file=settings.bearer_token_file,
        ca_file=settings.ca_file,
        server_name=settings.server_name,
    )
    if settings.source == "scrape":
        return collector_scrape.readings(
            targets,
            scheme=settings.scheme,
            port=settings.port,
            interval_s=settings.interval_seconds,
            access=access,
            on_reading=on_reading,
        )
    return prometheus.readings(
        settings.url,
        selector=settings.selector,
        interval_s=settings.interval_seconds,
        access=access,
        on_reading=on_reading,
    )
