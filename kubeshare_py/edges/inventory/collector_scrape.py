"""Inventory source `scrape`: the collectors themselves, found by their pods; no Prometheus."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from kubeshare_py.domain.events import InventoryFailed, InventoryRead
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.inventory import inventory_child
from kubeshare_py.edges.inventory.inventory_child import UNHEARD, Child, Heard, Send
from kubeshare_py.edges.inventory.inventory_reports import (
    ScrapeAccess,
    ScrapeStart,
    TargetsUpdate,
    line,
)
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.backoff import Backoff
from kubeshare_py.inventory.collector_page import ScrapeTarget
from kubeshare_py.inventory.sample_merge import Reading
from kubeshare_py.manifests.api_paths import CORE, collection_path
from kubeshare_py.manifests.partial_objects import CollectorPod
from kubeshare_py.manifests.watch import DELETED, Changes, Codec, ListResult


@dataclass(slots=True)
class CollectorTargets:
    """The collectors by their pods; changes are sent to the process that asks them."""

    _targets: dict[str, ScrapeTarget] = field(default_factory=dict)
    _is_listed: bool = False
    _send: Send | None = None

    async def follow(
        self,
        client: KubeClient,
        namespace: str,
        pod_selector: str,
        connected: Callable[[bool], None] = lambda is_connected: None,
    ) -> None:
        """Watch the collectors' pods for ever."""
        path = collection_path(CORE, "pods", namespace)
        selector = {"labelSelector": pod_selector}
        stream = follow(client, path, Codec(CollectorPod), selector=selector, connected=connected)
        async with aclosing(stream) as changes:
            async for update in changes:
                self.take(update)

    def ready_nodes(self) -> frozenset[NodeName]:
        """The nodes on which a collector's pod is ready, and is not being deleted."""
        targets = self._targets.values()
        return frozenset(one.node for one in targets if one.is_ready and not one.is_ending)

    def attach(self, send: Send | None) -> None:
        """Send changes with `send` from now on, and at once all that is known. None: to nothing."""
        self._send = send
        if self._is_listed:
            self._send_update(TargetsUpdate(targets={**self._targets}, all=True))

    def take(self, update: ListResult[CollectorPod] | Changes[CollectorPod]) -> None:
        """Pods came, changed or went.

        One that cannot be decoded keeps its address until it is deleted.
        """
        if isinstance(update, ListResult):
            problems = update.problems
            found = {pod.metadata.name: _target(pod) for pod in update.items}
            found |= {problem.name: self._targets.get(problem.name) for problem in problems}
            self._targets = {name: target for name, target in found.items() if target}
            self._is_listed = True
            self._send_update(TargetsUpdate(targets={**self._targets}, all=True))
        else:
            problems = [line.problem for line in update.changed if line.problem]
            self._take_changes(update)
        for problem in problems:
            decision_log.warn("unreadable", object=problem.name, message=problem.text)

    def _take_changes(self, update: Changes[CollectorPod]) -> None:
        changed: dict[str, ScrapeTarget | None] = {}
        for one in update.changed:
            found = one.item.metadata if one.item is not None else one.problem
            if one.type == DELETED and found is not None:
                changed[found.name] = None
            elif one.item is not None:
                changed[one.item.metadata.name] = _target(one.item)
        changed = {
            name: target for name, target in changed.items() if target != self._targets.get(name)
        }
        for name, target in changed.items():
            if target is None:
                self._targets.pop(name, None)
            else:
                self._targets[name] = target
        if changed:
            self._send_update(TargetsUpdate(targets=changed))

    def _send_update(self, update: TargetsUpdate) -> None:
        if self._send is not None:
            self._send(line(update))


async def readings(
    targets: CollectorTargets,
    *,
    scheme: str,
    port: int,
    interval_s: float,
    access: ScrapeAccess,
    backoff: Backoff | None = None,
    heard: Heard = UNHEARD,
) -> AsyncGenerator[InventoryRead | InventoryFailed, None]:
    """Yield the inventory, then only changes and failures, for ever; close it with `aclosing`.

    A reading succeeded if a collector answered.
    """
    child = scrape_child(targets, scheme, port, interval_s, access)
    async with aclosing(inventory_child.readings(child, backoff=backoff, heard=heard)) as stream:
        async for event in stream:
            yield event


def scrape_child(
    targets: CollectorTargets, scheme: str, port: int, interval_s: float, access: ScrapeAccess
) -> Child:
    """The process that asks the collectors at `port`."""

    def begin(known: Reading) -> bytes:
        return line(
            ScrapeStart(scheme=scheme, port=port, interval_s=interval_s, access=access, known=known)
        )

    return Child(
        module="kubeshare_py.edges.inventory.scrape_child",
        purpose="asks the collectors",
        begin=begin,
        attach=targets.attach,
    )


def _target(pod: CollectorPod) -> ScrapeTarget | None:
    """The address of a collector; None while it cannot answer."""
    if not pod.can_answer:
        return None
    return ScrapeTarget(
        node=pod.node,
        host=pod.status.pod_ip,
        is_ready=pod.is_ready,
        is_ending=pod.metadata.deletion_timestamp is not None,
    )
