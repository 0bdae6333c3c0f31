"""Which cards there are, from the source that the configuration names."""

from collections.abc import AsyncGenerator, Callable, Iterable

from kubeshare_py.domain.events import InventoryFailed, InventoryRead
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges import inventory_file, prometheus
from kubeshare_py.framework.configuration import Inventory


def readings(
    settings: Inventory,
    nodes: Callable[[], Iterable[NodeName]],
    heard: Callable[[], None] = lambda: None,
) -> AsyncGenerator[InventoryRead | InventoryFailed, None]:
    """The inventory, then only changes and failures, for ever; close it with `aclosing`.

    `heard` is called for each reading that succeeds, changes or not.
    """
    if settings.source == "file":
        return inventory_file.readings(
            settings.path, nodes, interval_s=settings.interval_seconds, heard=heard
        )
    return prometheus.readings(
        settings.url,
        selector=settings.selector,
        interval_s=settings.interval_seconds,
        token_file=settings.bearer_token_file or None,
        ca_file=settings.ca_file or None,
        heard=heard,
    )
