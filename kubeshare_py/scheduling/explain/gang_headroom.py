"""How many members of a gang each node would take now: for people, on private rows."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.snapshot import Snapshot
from kubeshare_py.scheduling.explain.steps import Steps
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.pod_groups.gang_models import ProfileShape, models_for
from kubeshare_py.scheduling.preemption.trial_rows import TrialPlacement, TrialRows
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.pod_records import Record

#: The most members times nodes that are tried, about 20 µs each; further nodes are left out.
MAX_TRIED = 20_000
#: The most of them in one step.
TRIED_A_STEP = 400


def headroom_on_nodes(
    machine: Machine, gang: Gang, members: Sequence[Record]
) -> Steps[dict[NodeName, int]]:
    """How many of these members each node alone would take, at most as many as the gang needs.

    Nodes that take none are left out; empty if a plugin fails.
    """
    snapshot, changes, need = machine.reading().snapshots.actual, machine.changes, gang.need
    models = list(models_for(gang.shapes, snapshot.tables.columns.model_names)) or [""]
    found: Counter[NodeName] = Counter()
    try:
        for model in models:
            names = _fitting(snapshot, members, model)[: max(1, MAX_TRIED // max(1, need))]
            yield
            size = max(1, TRIED_A_STEP // max(1, need))
            for start in range(0, len(names), size):
                if machine.changes != changes:
                    snapshot, changes = machine.reading().snapshots.actual, machine.changes
                some = names[start : start + size]
                for name, room in _on_model(snapshot, need, members, model, some).items():
                    found[name] = max(found[name], room)
                yield
    except PluginFailed:
        return {}
    return dict(found)


def _kinds(
    snapshot: Snapshot, members: Sequence[Record], model: str
) -> dict[ProfileShape, list[Record]]:
    none = TrialRows(snapshot, np.zeros(0, np.int64), model)
    kinds: dict[ProfileShape, list[Record]] = {}
    for record in members:
        kinds.setdefault(none.kind_of(record), []).append(record)
    return kinds


def _fitting(snapshot: Snapshot, members: Sequence[Record], model: str) -> list[NodeName]:
    """The nodes that take some member."""
    kinds, names = _kinds(snapshot, members, model), snapshot.tables.columns.names
    fits = [np.flatnonzero(snapshot.evaluators[one].keys(shape) >= 0) for one, shape in kinds]
    found = (names[row] for row in np.unique(np.concatenate(fits)).tolist())
    return [name for name in found if name is not None]


def _on_model(
    snapshot: Snapshot,
    need: int,
    members: Sequence[Record],
    model: str,
    names: Sequence[NodeName],
) -> dict[NodeName, int]:
    """How many members these nodes take if all cards are of one model; "" leaves it open."""
    row_of = snapshot.tables.columns.row_of
    rows = np.array(sorted(row_of[name] for name in names if name in row_of), np.int64)
    trial, room = TrialRows(snapshot, rows, model), np.zeros(len(rows), np.int64)
    for kind, records in _kinds(snapshot, members, model).items():
        evaluator = snapshot.evaluators[kind[0]]
        evaluator.keys(kind[1])  # so that what is prepared for the shape is kept
        _fill(trial, evaluator, kind, records, need, room)
    return {name: room.item(at) for at, name in enumerate(trial.names()) if room.item(at)}


def _fill(
    trial: TrialRows,
    evaluator: Evaluator,
    kind: ProfileShape,
    records: Sequence[Record],
    need: int,
    room: IntArray,
) -> None:
    """Put members of a kind on each row separately until no more fit."""
    left = trial.everywhere[room < need]
    for record in records:
        if not len(left):
            return
        keys, slots = evaluator.rate(kind[1], trial.rows.take(left))
        fits = np.flatnonzero(keys >= 0)
        seated = []
        for at in fits.tolist():
            position = left.item(at)
            chosen: tuple[int, ...] = (slots.item(at),) if slots is not None else ()
            if slots is None:
                chosen = evaluator.cards_of(kind[1], trial.rows.take(left[at : at + 1]))
            seated.append(TrialPlacement(record, position, chosen))
        trial.occupy(seated, 1)
        left = left[fits]
        room[left] += 1
        left = left[room[left] < need]
