"""Why a bound pod is where it is: its node's score if the pod were placed now, and its neighbours.

Reads; decides nothing. The scores of the actual placement are not kept: the question is asked anew,
with the pod itself removed from its node.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.cluster_reading import ClusterReading
from kubeshare_py.scheduling.binding.holdings import holdings
from kubeshare_py.scheduling.explain.visibility import Sees, sees_all
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.views.holding import NeighbourView, PlacementView, RankedNode, ScoreView

#: The most other nodes that are named.
_MAX_OTHERS = 3


def placement_view(
    machine: Machine, reading: ClusterReading, record: Record, node: NodeName, sees: Sees = sees_all
) -> PlacementView:
    """The record must be charged to this node, which may be gone since.

    Neighbours in namespaces that the reader may not see have no names.
    """
    neighbours = _neighbours(machine.ledger, machine.records, record, node, sees)
    columns = machine.ledger.columns
    row = columns.row_of.get(node)
    gang = machine.gangs.of(record.pod.uid)
    if row is None or (gang is not None and gang.needs_quorum):
        return PlacementView(neighbours=neighbours)
    try:
        return replace(_ranked(reading, record, row), neighbours=neighbours)
    except PluginFailed:
        return PlacementView(neighbours=neighbours)


def _ranked(reading: ClusterReading, record: Record, row: int) -> PlacementView:
    """The rank of the pod's row if the pod were not there, by the scores that decide.

    The pod is removed for filters and scores about other pods too. Raises PluginFailed.
    """
    ledger, shape = reading.ledger, record.shape
    charge = ledger.charge_of(record.pod.uid)
    without = reading.snapshots.actual.trial()
    if charge is not None:
        without.remove(charge)
    evaluator, columns = without.evaluators[record.pod.scheduler_name], without.tables.columns
    totals = evaluator.totals(shape, np.arange(columns.rows))
    if totals.item(row) < 0:
        return PlacementView()
    # Of equal scores the first row wins, as in a decision.
    best = [at for at in np.argsort(-totals, kind="stable").tolist() if totals[at] >= 0]
    others = [at for at in best[: _MAX_OTHERS + 1] if at != row][:_MAX_OTHERS]
    return PlacementView(
        rank=best.index(row) + 1,
        fitting=len(best),
        score=totals.item(row),
        scores=tuple(
            ScoreView(plugin=plugin, weight=weight, points=points)
            for plugin, weight, points in evaluator.scores(shape, row)
        ),
        others=tuple(
            RankedNode(name=columns.names[at] or "", score=totals.item(at)) for at in others
        ),
    )


def _neighbours(
    ledger: Ledger,
    records: Mapping[PodUid, Record],
    record: Record,
    node: NodeName,
    sees: Sees,
) -> tuple[NeighbourView, ...]:
    """The other pods with a part of one of its cards, by name."""
    own = {card.uuid for card in record.allocation.cards} if record.allocation else set()
    found = []
    for uid, charge in ledger.pods_on(node).items() if own else ():
        shared = [one for one in holdings(ledger, node, charge.allocation) if one.uuid in own]
        if shared and uid != record.pod.uid:
            key = records[uid].pod.key
            named = (key.namespace, key.name) if sees(key.namespace) else ("", "")
            found.append(NeighbourView(namespace=named[0], name=named[1], holds=tuple(shared)))
    return tuple(sorted(found, key=lambda one: (one.namespace, one.name)))
