"""kubeshare-aggregator: KubeShare 2.0's `gpu_requirement`, from the allocations of pods."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from kubeshare_py.edges.aggregator import RequirementWatch, serve
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.kube.errors import KubeConfigError
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.run_until_signal import until_signal

OK, NOT_STARTED = 0, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatorSettings:
    """`address` "" is all. `scheduler` is the schedulerName of the pods that have a series."""

    address: str
    port: int
    path: str
    scheduler: str
    kubeconfig: str | None = None
    log_level: str = "info"


def run(settings: AggregatorSettings) -> int:
    """Serve until SIGINT or SIGTERM; the exit code."""
    decision_log.set_up(settings.log_level)
    try:
        asyncio.run(until_signal(aggregate(settings)))
    except (OSError, KubeConfigError) as error:
        decision_log.warn("server", message=str(error))
        return NOT_STARTED
    return OK


async def aggregate(
    settings: AggregatorSettings, on_ready: Callable[[str], None] = lambda url: None
) -> None:
    """Watch and serve for ever; `on_ready` gets the page's URL. Raises OSError, KubeConfigError."""
    async with KubeClient(load(settings.kubeconfig), concurrency=1) as client:
        watch = RequirementWatch(client, settings.scheduler)
        async with serve(watch, settings.path, settings.address, settings.port) as url:
            on_ready(url)
            await watch.run()
