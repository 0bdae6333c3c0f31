"""Inventory source `prometheus`: the cards, as a child process reads them."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from kubeshare_py.domain.events import InventoryFailed, InventoryRead
from kubeshare_py.edges.inventory import inventory_child
from kubeshare_py.edges.inventory.inventory_child import UNHEARD, Child, Heard
from kubeshare_py.edges.inventory.inventory_reports import ScrapeAccess, Start, line
from kubeshare_py.edges.process.backoff import Backoff
from kubeshare_py.edges.process.run_until_signal import StartModule, module_process
from kubeshare_py.inventory.sample_merge import Reading
from kubeshare_py.inventory.series import parse_matchers

SELECTOR = 'job="kubeshare-collector"'
INTERVAL_S = 5.0


async def readings(
    url: str,
    *,
    selector: str = SELECTOR,
    interval_s: float = INTERVAL_S,
    access: ScrapeAccess | None = None,
    backoff: Backoff | None = None,
    heard: Heard = UNHEARD,
    start: StartModule = module_process,
) -> AsyncGenerator[InventoryRead | InventoryFailed, None]:
    """Yield the inventory, then only changes and failures, for ever; close it with `aclosing`.

    `selector` are label conditions as in the braces of a PromQL selector. A reading succeeded if
    Prometheus' answer is usable. Raises SelectorProblem for a bad selector, before the first query.
    """
    child = prometheus_child(url, selector, interval_s, access or ScrapeAccess())
    async with aclosing(
        inventory_child.readings(child, backoff=backoff, heard=heard, start=start)
    ) as stream:
        async for event in stream:
            yield event


def prometheus_child(url: str, selector: str, interval_s: float, access: ScrapeAccess) -> Child:
    """The process that asks. Raises SelectorProblem for a bad selector."""
    parse_matchers(selector)

    def begin(known: Reading) -> bytes:
        return line(
            Start(url=url, selector=selector, interval_s=interval_s, access=access, known=known)
        )

    return Child(
        module="kubeshare_py.edges.inventory.prometheus_child",
        purpose="asks Prometheus",
        begin=begin,
    )
