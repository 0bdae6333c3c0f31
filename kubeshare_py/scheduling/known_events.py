"""What a machine knows, as the events that would tell another machine.

The other one begins as a scheduler that was started now: it knows of no attempt, backoff,
reservation or eviction, and of no pod that lingers after a forced deletion.
"""

from collections.abc import Iterator
from dataclasses import replace

from kubeshare_py.domain.events import (
    BudgetsListed,
    Event,
    InventoryFailed,
    InventoryRead,
    NodesListed,
    ObjectsListed,
    PodGroupsListed,
    PodsListed,
)
from kubeshare_py.domain.pod import Pod
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.pod_records import Record


def known_events(machine: Machine, now: float) -> Iterator[Event]:
    """The events, as of `now` (s); a few ms for 50,000 pods."""
    budgets = machine.preemption.planner.budgets
    yield BudgetsListed(tuple(budgets.values()))
    for api, (groups, problem) in machine.group_objects.listed().items():
        yield PodGroupsListed(api, groups, problem)
    for kind, objects, why in machine.ledger.columns.objects.listed():
        yield ObjectsListed(kind, objects, why)
    if machine.synced.nodes:
        nodes = machine.ledger.columns.nodes
        yield NodesListed(tuple(node for node in nodes if node is not None))
    if machine.inventory_read:
        cards = machine.ledger.claims.as_listed
        yield InventoryRead(tuple(cards.items()), tuple(sorted(machine.silent_nodes)))
    if machine.inventory_failure:
        yield InventoryFailed(machine.inventory_failure)
    if machine.synced.pods:
        pods = tuple(map(_as_shown, machine.records.values()))
        yield PodsListed(pods, now, finished=machine.gangs.finished_members())


def _as_shown(record: Record) -> Pod:
    """The pod as the API server shows it, or will once it has stored the Binding under way."""
    if record.node is None or record.pod.node_name is not None:
        return record.pod
    return replace(record.pod, node_name=record.node, allocation=record.allocation)
