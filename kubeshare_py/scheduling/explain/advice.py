"""What would make a waiting pod fit: sentences for people.

The profile's own plugins are asked, on rows of a what-if: nothing is cached and nothing changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress, islice

import numpy as np

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import SomeRows
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.cluster_reading import ClusterReading
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.scheduling.explain.visibility import UNNAMED, Sees, reservation_name, sees_all
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.reservations import ReservationCause
from kubeshare_py.views.view import NodeWhy

#: The dialect whose pods can change the label that is named.
SHAREDGPU = "sharedgpu"
#: The most sentences of one kind.
_MAX_SENTENCES = 3
#: The most pods of which it is asked whether their end would help, on the first nodes by name, and
#: how many of them at once. A pod costs about 8 µs, and the scheduler waits meanwhile.
MAX_TRIED, _AT_ONCE = 2048, 256


def advice(
    machine: Machine,
    reading: ClusterReading,
    record: Record,
    nodes: Sequence[NodeWhy],
    sees: Sees = sees_all,
) -> Iterator[str]:
    """A few sentences: which pod's end would help, and which smaller request would fit.

    Neither is said if a plugin fails.
    """
    shape, ledger = record.shape, reading.ledger
    if not shape.claims:
        return
    evaluator = reading.evaluators[record.pod.scheduler_name]
    yield from _reserved(machine, record.pod.uid, [NodeName(node.name) for node in nodes], sees)
    if shape in evaluator.failed:
        return
    try:
        yield from islice(_leavers(ledger, evaluator, shape, machine.records, sees), _MAX_SENTENCES)
        dialect = record.pod.request.dialect if record.pod.request is not None else ""
        yield from _smaller(ledger, evaluator, shape, dialect)
    except PluginFailed:
        return


def _reserved(
    machine: Machine, uid: PodUid, names: Sequence[NodeName], sees: Sees
) -> Iterator[str]:
    """For which pods cards of these nodes are reserved, and how many; `uid` is the waiting pod."""
    ledger, there = machine.ledger, set(names)
    # What preemption keeps is reported per node, for the pods it is kept from.
    reservations = [
        one
        for one in machine.reservations.holders
        if one.cause is ReservationCause.STARVES or uid in one.uids
    ]
    for reservation in reservations[:_MAX_SENTENCES]:
        charges = [ledger.reservations[uid] for uid in reservation.uids]
        allocations = [charge.allocation for charge in charges if charge.node in there]
        cards = {card.uuid for one in allocations if one is not None for card in one.cards}
        if cards:
            kept = "1 card is" if len(cards) == 1 else f"{len(cards)} cards are"
            since = f"for {machine.age_s(reservation.since):.0f} s now"
            if uid in reservation.uids:
                yield f"{kept} reserved for it, {since}: it starts when those who hold them end"
            else:
                yield f"{kept} reserved for {reservation_name(machine, reservation, sees)}, {since}"


def _leavers(
    ledger: Ledger,
    evaluator: Evaluator,
    shape: Shape,
    records: Mapping[PodUid, Record],
    sees: Sees,
) -> Iterator[str]:
    """For each pod whose end would, alone, let the shape fit on its node.

    Further nodes are left out once MAX_TRIED pods were tried.
    """
    names = (ledger.columns.names[row] for row in evaluator.within_reach(shape).tolist())
    nodes = sorted(name for name in names if name is not None)
    every = ((node, uid) for node in nodes for uid in sorted(ledger.pods_on(node)))
    pods = list(islice(every, MAX_TRIED))
    for start in range(0, len(pods), _AT_ONCE):
        portion = pods[start : start + _AT_ONCE]
        for node, uid in _helpful(ledger, evaluator, shape, portion):
            key = records[uid].pod.key
            who = key if sees(key.namespace) else UNNAMED
            yield f"it fits on {node} when {who} ends{_held(ledger.pods_on(node)[uid])}"


def _helpful(
    ledger: Ledger, evaluator: Evaluator, shape: Shape, pods: Sequence[tuple[NodeName, PodUid]]
) -> Iterator[tuple[NodeName, PodUid]]:
    """Those of these pods without which the shape fits on their node. Raises PluginFailed."""
    rows = ledger.what_if(np.array([ledger.columns.row_of[node] for node, _ in pods]))
    every = np.arange(len(pods))
    rows.add(every, ledger.amounts([[uid] for _, uid in pods]), every, -1)
    rows.derive(every)
    return compress(pods, evaluator.fits(shape, rows).tolist())


def _held(charge: Charge) -> str:
    """The GPUs that a pod holds, in brackets; nothing for a pod without GPUs."""
    cards = charge.allocation.cards if charge.allocation else ()
    count = len(cards) + charge.native.unknown
    if len(cards) == count == 1:
        return f" (it holds {_share(cards[0].milli)} of {cards[0].uuid})"
    return f" (it holds {count} GPU{'s' if count > 1 else ''})" if count else ""


def _smaller(ledger: Ledger, evaluator: Evaluator, shape: Shape, dialect: str) -> Iterator[str]:
    """The largest share of one card that would fit now, if the shape asks for more.

    A share of another model's card is not the same share here, so these claims are left out. So are
    several claims: which of them is to be smaller is not to be guessed.
    """
    claim, columns = shape.claim, ledger.columns
    if claim is None or claim.count > 1 or claim.share_of:
        return
    index = np.flatnonzero(evaluator.keys(shape) < 0)
    fitting, too_large = 0, claim.milli
    while too_large - fitting > 1:
        milli = (fitting + too_large) // 2
        fits = evaluator.fits(_with_share(shape, milli), SomeRows(columns, index))
        if fits.any():
            fitting, index = milli, index[fits]
        else:
            too_large = milli
    if fitting:
        keys, slots = evaluator.rate(_with_share(shape, fitting), SomeRows(columns, index))
        assert slots is not None
        best = int(keys.argmax())
        row = index.item(best)
        where = f"{columns.names[row]} ({columns.uuids[row][slots.item(best)]})"
        label, alone = "a share of", "cards of its own"
        if dialect == SHAREDGPU:
            label, alone = "sharedgpu/gpu_request", "sharedgpu/gpu_exclusive"
        without = f", without {alone}" if claim.exclusive else ""
        yield f"it fits on {where} now with {label} {_share(fitting)} or less{without}"


def _with_share(shape: Shape, milli: int) -> Shape:
    """The shape of a pod that asks for this share of a card in place of its own request."""
    assert shape.claim is not None
    claim = replace(shape.claim, milli=milli, exclusive=False)
    return replace(shape, claims=(claim,), needs_port=shape.needs_port or shape.claim.exclusive)


def _share(milli: int) -> str:
    return f"{milli / WHOLE_MILLI:g}"
