"""How many members of a gang each node would take now: for people, on private rows."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.snapshot import Snapshot
from kubeshare_py.scheduling.pod_groups.gang_models import ProfileShape, models_for
from kubeshare_py.scheduling.preemption.trial_rows import TrialPlacement, TrialRows
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.pod_records import Record

#: The most members times nodes that are tried, about 20 µs each; further nodes are left out.
MAX_TRIED = 20_000


def headroom_on_nodes(
    snapshot: Snapshot, gang: Gang, members: Sequence[Record]
) -> dict[NodeName, int]:
    """How many of these members each node alone would take, at most as many as the gang needs.

    Nodes that take none are left out; empty if a plugin fails.
    """
    models = list(models_for(gang.shapes, snapshot.tables.columns.model_names)) or [""]
    found: Counter[NodeName] = Counter()
    try:
        for model in models:
            for name, room in _on_model(snapshot, gang.need, members, model).items():
                found[name] = max(found[name], room)
    except PluginFailed:
        return {}
    return dict(found)


def _on_model(
    snapshot: Snapshot, need: int, members: Sequence[Record], model: str
) -> dict[NodeName, int]:
    """The same if all cards are of one model; "" leaves it open."""
    none, evaluators = TrialRows(snapshot, np.zeros(0, np.int64), model), snapshot.evaluators
    kinds: dict[ProfileShape, list[Record]] = {}
    for record in members:
        kinds.setdefault(none.kind_of(record), []).append(record)
    fitting = [np.flatnonzero(evaluators[profile].keys(shape) >= 0) for profile, shape in kinds]
    rows = np.unique(np.concatenate(fitting))[: max(1, MAX_TRIED // max(1, need))]
    trial = TrialRows(snapshot, rows, model)
    room = np.zeros(len(rows), np.int64)
    for kind, records in kinds.items():
        _fill(trial, evaluators[kind[0]], kind, records, need, room)
    names = trial.names()
    return {name: room.item(at) for at, name in enumerate(names) if room.item(at)}


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
