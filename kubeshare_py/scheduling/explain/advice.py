"""What would make a waiting pod fit: sentences for people.

The profile's own plugins are asked, on rows of a what-if: nothing is cached and nothing changes.
"""

from collections.abc import Iterator, Sequence
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
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.scheduling.explain.steps import Steps
from kubeshare_py.scheduling.explain.visibility import UNNAMED, Sees, reservation_name, sees_all
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.reservations import ReservationCause

#: The dialect whose pods can change the label that is named.
SHAREDGPU = "sharedgpu"
#: The most sentences of one kind.
_MAX_SENTENCES = 3
#: The most pods of which it is asked whether their end would help, on the first nodes by name, and
#: how many of them in one step. A pod costs about 8 µs.
MAX_TRIED, _AT_ONCE = 2048, 256


def advice(machine: Machine, record: Record, sees: Sees = sees_all) -> Steps[tuple[str, ...]]:
    """A few sentences: which pod's end would help, and which smaller request would fit.

    Neither is said if a plugin fails.
    """
    shape = record.shape
    if not shape.claims:
        return ()
    reserved = tuple(_reserved(machine, record.pod.uid, sees))
    reading = machine.reading()
    if shape in reading.evaluators[record.pod.scheduler_name].failed:
        return reserved
    try:
        leavers = yield from _leavers(machine, record, sees)
        smaller = yield from _smaller(machine, record)
    except PluginFailed:
        return reserved
    return (*reserved, *leavers, *smaller)


def _reserved(machine: Machine, uid: PodUid, sees: Sees) -> Iterator[str]:
    """For which pods cards are reserved, and how many; `uid` is the waiting pod."""
    ledger, there = machine.ledger, machine.ledger.columns.row_of
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


def _leavers(machine: Machine, record: Record, sees: Sees) -> Steps[list[str]]:
    """For each pod whose end would, alone, let the shape fit on its node.

    Further nodes are left out once MAX_TRIED pods were tried.
    """
    shape, reading = record.shape, machine.reading()
    evaluator, ledger = reading.evaluators[record.pod.scheduler_name], reading.ledger
    names = (ledger.columns.names[row] for row in evaluator.within_reach(shape).tolist())
    nodes = sorted(name for name in names if name is not None)
    every = ((node, uid) for node in nodes for uid in sorted(ledger.pods_on(node)))
    pods, changes = list(islice(every, MAX_TRIED)), machine.changes
    found: list[str] = []
    for start in range(0, len(pods), _AT_ONCE):
        yield
        if machine.changes != changes:
            reading, changes = machine.reading(), machine.changes
            evaluator, ledger = reading.evaluators[record.pod.scheduler_name], reading.ledger
        portion = [
            (node, uid)
            for node, uid in pods[start : start + _AT_ONCE]
            if uid in ledger.pods_on(node) and node in ledger.columns.row_of
        ]
        for node, uid in _helpful(ledger, evaluator, shape, portion):
            key = machine.records[uid].pod.key
            who = key if sees(key.namespace) else UNNAMED
            found.append(f"it fits on {node} when {who} ends{_held(ledger.pods_on(node)[uid])}")
            if len(found) == _MAX_SENTENCES:
                return found
    return found


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


def _smaller(machine: Machine, record: Record) -> Steps[list[str]]:
    """The largest share of one card that would fit now, if the shape asks for more.

    A share of another model's card is not the same share here, so these claims are left out. So are
    several claims: which of them is to be smaller is not to be guessed.
    """
    shape, claim = record.shape, record.shape.claim
    if claim is None or claim.count > 1 or claim.share_of:
        return []
    yield
    reading = machine.reading()
    evaluator, columns = reading.evaluators[record.pod.scheduler_name], reading.ledger.columns
    index = np.flatnonzero(evaluator.keys(shape) < 0)
    fitting, too_large = 0, claim.milli
    while too_large - fitting > 1:
        milli = (fitting + too_large) // 2
        fits = evaluator.fits(_with_share(shape, milli), SomeRows(columns, index))
        if fits.any():
            fitting, index = milli, index[fits]
        else:
            too_large = milli
    if not fitting:
        return []
    keys, slots = evaluator.rate(_with_share(shape, fitting), SomeRows(columns, index))
    assert slots is not None
    best = int(keys.argmax())
    row = index.item(best)
    where = f"{columns.names[row]} ({columns.uuids[row][slots.item(best)]})"
    label, alone = "a share of", "cards of its own"
    if record.pod.request is not None and record.pod.request.dialect == SHAREDGPU:
        label, alone = "sharedgpu/gpu_request", "sharedgpu/gpu_exclusive"
    without = f", without {alone}" if claim.exclusive else ""
    return [f"it fits on {where} now with {label} {_share(fitting)} or less{without}"]


def _with_share(shape: Shape, milli: int) -> Shape:
    """The shape of a pod that asks for this share of a card in place of its own request."""
    assert shape.claim is not None
    claim = replace(shape.claim, milli=milli, exclusive=False)
    return replace(shape, claims=(claim,), needs_port=shape.needs_port or shape.claim.exclusive)


def _share(milli: int) -> str:
    return f"{milli / WHOLE_MILLI:g}"
