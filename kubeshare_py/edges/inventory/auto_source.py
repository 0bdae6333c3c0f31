"""Inventory source `auto`: Prometheus where one names every card, else the collectors themselves.

One of the two child processes runs at a time, and both begin with what is known. While the
collectors are asked, Prometheus is tried now and then by a process that ends after one reading.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

import msgspec

from kubeshare_py.configuration.inventory import Inventory
from kubeshare_py.domain.events import InventoryFailed, InventoryRead
from kubeshare_py.edges.inventory import inventory_child
from kubeshare_py.edges.inventory.collector_scrape import CollectorTargets, scrape_child
from kubeshare_py.edges.inventory.inventory_child import (
    Child,
    Heard,
    InventorySoFar,
    OnUsed,
    unseen,
)
from kubeshare_py.edges.inventory.inventory_reports import ScrapeAccess
from kubeshare_py.edges.inventory.prometheus import prometheus_child
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure
from kubeshare_py.edges.process import decision_log
from kubeshare_py.inventory.sample_merge import Reading
from kubeshare_py.inventory.source_choice import (
    SourceChange,
    SourceChoice,
    SourceInCharge,
    SourceState,
)
from kubeshare_py.manifests.partial_objects import PrometheusObject, only_prometheus

#: All Prometheuses of the Prometheus Operator, in all namespaces.
PATH = "/apis/monitoring.coreos.com/v1/prometheuses"
#: The most seconds that a trial of Prometheus may take.
TRIAL_S = 120.0
#: With more collectors than this, a Prometheus is recommended.
MANY = 500
_EVENT = "inventory source"


@dataclass(frozen=True, slots=True)
class _TriedPrometheus:
    """What the Prometheus at `url` names, or why it names nothing."""

    url: str
    found: Reading | str


@dataclass(slots=True)
class AutoSource:
    """Cards from the source in charge.

    `on_source` is called with its name whenever it changes. With more than `many` collectors to ask
    the log recommends a Prometheus.
    """

    settings: Inventory
    targets: CollectorTargets
    on_reading: Callable[[], None] = lambda: None
    on_source: Callable[[str], None] = lambda source: None
    many: int = MANY
    on_used: OnUsed = unseen
    _choice: SourceChoice = field(init=False)
    _known: InventorySoFar = field(default_factory=InventorySoFar)
    #: The Prometheus in charge, or the last one.
    _url: str = ""
    _trial: _TriedPrometheus | None = None
    _trial_wanted: asyncio.Event = field(default_factory=asyncio.Event)
    _said: str = ""
    _has_recommended: bool = False

    def __post_init__(self) -> None:
        self._choice = SourceChoice(self.settings.interval_seconds)

    async def readings(self) -> AsyncGenerator[InventoryRead | InventoryFailed, None]:
        """Yield the inventory, then only changes and failures, for ever; close it with `aclosing`.

        `try_prometheus` has to run meanwhile.
        """
        while True:
            self.on_source(self._choice.in_charge)
            stream = inventory_child.readings(
                self._child(),
                heard=Heard(self.on_reading, self.on_used),
                known=self._known,
                ends=self._ends,
            )
            async with aclosing(stream) as events:
                async for event in events:
                    yield event

    async def try_prometheus(self, client: KubeClient) -> None:
        """Try Prometheus whenever that is due, for ever."""
        while True:
            await self._trial_wanted.wait()
            self._trial = await self._tried(client)
            self._trial_wanted.clear()

    # --- inside --------------------------------------------------------------------------------

    def _child(self) -> Child:
        settings = self.settings
        if self._choice.in_charge is SourceInCharge.PROMETHEUS:
            return self._prometheus(self._url)
        access = ScrapeAccess(ca_file=settings.ca_file, server_name=settings.server_name)
        return scrape_child(
            self.targets, settings.scheme, settings.port, settings.interval_seconds, access
        )

    def _prometheus(self, url: str) -> Child:
        """The process that asks this one; only the one that is configured gets the token."""
        settings = self.settings
        access = ScrapeAccess(
            token_file=settings.bearer_token_file if settings.url else "", ca_file=settings.ca_file
        )
        return prometheus_child(url, settings.selector, settings.interval_seconds, access)

    def _ends(self) -> bool:
        """After a reading or a failure: whether another source takes over."""
        now = asyncio.get_running_loop().time()
        known = self._known
        standing = SourceState(
            reading=known.reading(),
            failure=known.failure or "",
            collectors=self.targets.ready_nodes(),
        )
        if self._choice.in_charge is SourceInCharge.PROMETHEUS:
            change = self._choice.failed(now, standing)
        else:
            self._recommend(len(standing.collectors))
            change = self._take_trial(now, standing)
        if change is None:
            return False
        known.pass_on()
        fields = {"from": change.before, "to": change.after, "prometheus": self._url}
        decision_log.inform(_EVENT, **fields, message=change.reason)
        return True

    def _take_trial(self, now: float, standing: SourceState) -> SourceChange | None:
        trial, self._trial = self._trial, None
        if trial is None:
            if self._choice.trial_is_due(now):
                self._trial_wanted.set()
            return None
        change = self._choice.tried(now, standing, trial.found)
        if isinstance(change, SourceChange):
            self._url, self._said = trial.url, ""
            return change
        if change != self._said:
            self._said = change
            source = SourceInCharge.SCRAPE
            decision_log.inform(_EVENT, source=source, prometheus=trial.url, message=change)
        return None

    async def _tried(self, client: KubeClient) -> _TriedPrometheus:
        url, problem = self.settings.url, ""
        if not url:
            url, problem = await _found(client)
        if problem:
            return _TriedPrometheus(url, problem)
        try:
            async with asyncio.timeout(TRIAL_S):
                answer = await inventory_child.first_reading(self._prometheus(url))
        except TimeoutError:
            return _TriedPrometheus(url, f"no answer for {TRIAL_S:.0f} s")
        if isinstance(answer, str):
            return _TriedPrometheus(url, answer)
        reading, diagnostics = answer
        if not reading.cards and diagnostics:
            return _TriedPrometheus(url, diagnostics[0])
        return _TriedPrometheus(url, reading)

    def _recommend(self, collectors: int) -> None:
        if collectors > self.many and not self._has_recommended:
            self._has_recommended = True
            message = f"{collectors} collectors are asked one by one: a Prometheus costs less"
            decision_log.warn(_EVENT, source=SourceInCharge.SCRAPE, message=message)


async def _found(client: KubeClient) -> tuple[str, str]:
    """The URL of the Prometheus Operator's only Prometheus, or "" and why there is none."""
    try:
        listed = await client.list_all(PATH)
        return only_prometheus(msgspec.convert(listed, list[PrometheusObject]))
    except KubeError as error:
        return "", f"no inventory.url is set, and {PATH} cannot be read: {error}"
    except (KubeFailure, msgspec.ValidationError) as error:
        return "", f"{PATH}: {error}"
