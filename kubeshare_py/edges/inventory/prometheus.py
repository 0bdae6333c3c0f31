"""Inventory source `prometheus`: the cards, as a child process reads them."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from kubeshare_py.domain.events import InventoryFailed, InventoryRead
from kubeshare_py.edges.inventory import inventory_child
from kubeshare_py.edges.inventory.inventory_child import Child
from kubeshare_py.edges.inventory.inventory_reports import ScrapeAccess, Start, line
from kubeshare_py.edges.process.backoff import Backoff
from kubeshare_py.inventory.reading import Reading
from kubeshare_py.inventory.series_selectors import parse_matchers

SELECTOR = 'job="kubeshare-collector"'
INTERVAL_S = 5.0


async def readings(
    url: str,
    *,
    selector: str = SELECTOR,
    interval_s: float = INTERVAL_S,
    access: ScrapeAccess | None = None,
    backoff: Backoff | None = None,
    on_reading: Callable[[], None] = lambda: None,
) -> AsyncGenerator[InventoryRead | InventoryFailed, None]:
    """Yield the inventory, then only changes and failures, for ever; close it with `aclosing`.

    `selector` are label conditions as in the braces of a PromQL selector. `on_reading` is called
    for each usable answer of Prometheus. Raises SelectorProblem for a bad selector, before the
    first query.
    """
    parse_matchers(selector)

    def begin(known: Reading) -> bytes:
        return line(
            Start(
                url=url,
                selector=selector,
                interval_s=interval_s,
                access=access or ScrapeAccess(),
                known=known,
            )
        )

    child = Child(
        module="kubeshare_py.edges.inventory.prometheus_child",
        purpose="asks Prometheus",
        begin=begin,
    )
    async with aclosing(
        inventory_child.readings(child, backoff=backoff, on_reading=on_reading)
    ) as stream:
        async for event in stream:
            yield event
