"""What would make a waiting pod fit: sentences for people.

The profile's own plugins are asked, on rows of a what-if: nothing is cached and nothing changes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import compress, islice

import numpy as np

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import AllRows, SomeRows
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import Pod, Shape, Toleration
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.cluster_reading import ClusterReading
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.scheduling.explain.steps import Steps
from kubeshare_py.scheduling.explain.visibility import UNNAMED, Sees, reservation_name, sees_all
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.pod_groups.gang_reports import missing_members
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.reservations import ReservationCause

#: The dialect whose pods can change the label that is named.
SHAREDGPU = "sharedgpu"
#: The cluster as it is when this is called.
_ReadCluster = Callable[[], ClusterReading]

#: Of a pod that the same Deployment replaces by the one that waits.
SURGE = (
    ", which its own rolling update ends only once this pod runs: with maxSurge: 0 in the "
    "Deployment's strategy it is ended first"
)
_GIB = 1 << 30
_TEMPLATE_HASH = "pod-template-hash"
_OF_CORDONS = Toleration("node.kubernetes.io/unschedulable", "Exists")
#: The most sentences of one kind.
_MAX_SENTENCES = 3
#: The most pods of which it is asked whether their end would help, on the first nodes by name, and
#: how many of them in one step. A pod costs about 8 µs.
MAX_TRIED, _AT_ONCE = 2048, 256


def advice(machine: Machine, record: Record, sees: Sees = sees_all) -> Steps[tuple[str, ...]]:
    """A few sentences: what would let the pod start.

    Members that its gang lacks; else for which pods cards are reserved, which pod's end would help,
    which smaller request or other model would fit, and which cordoned node. Of a gang that waits
    for room, only the first: what one member lacks is not what the gang lacks. Only what cards are
    reserved is said if a plugin fails.
    """
    shape, gang = record.shape, machine.gangs.of(record.pod.uid)
    if gang is not None and gang.needs_quorum and (missing := missing_members(gang)):
        more = "1 more member" if missing == 1 else f"{missing} more members"
        return (f"it can start when its pod group has {more}: create them",)
    if not shape.claims:
        return ()
    reserved = tuple(_reserved(machine, record.pod.uid, sees))
    yield
    reading = machine.reading()
    evaluator = reading.evaluators[record.pod.scheduler_name]
    if (gang is not None and gang.needs_quorum) or shape in evaluator.failed:
        return reserved
    try:
        leavers = yield from _leavers(machine, record, sees)
        if evaluator.fits_anywhere(shape):
            return (*reserved, *leavers)
        smaller = yield from _smaller(machine.reading, record)
        others = yield from _fewer_cards(machine.reading, record)
        others = others or (yield from _other_model(machine.reading, record))
        yield
        cordoned = _uncordoned(machine.reading, record)
        yield
    except PluginFailed:
        return reserved
    return (*reserved, *leavers, *smaller, *others, *cordoned)


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
            if _is_replaced_by(machine.records[uid].pod, record.pod):
                found[-1] += SURGE
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
    count = len(cards) + charge.native.on_unknown_cards
    if len(cards) == count == 1:
        card = cards[0]
        part = _share(card.milli) if card.milli else f"{card.memory_bytes / _GIB:.4g} GiB"
        return f" (it holds {part} of {card.uuid})"
    return f" (it holds {count} GPU{'s' if count > 1 else ''})" if count else ""


def _smaller(read: _ReadCluster, record: Record) -> Steps[list[str]]:
    """The largest share of one card that would fit now, if the shape asks for more.

    A share of another model's card is not the same share here, so these claims are left out. So are
    several claims: which of them is to be smaller is not to be guessed.
    """
    shape, claim = record.shape, record.shape.claim
    if claim is None or claim.count > 1 or claim.share_of:
        return []
    fitting, too_large = 0, claim.milli
    while too_large - fitting > 1:
        yield
        milli = (fitting + too_large) // 2
        if _fits_somewhere(read, record, _with_share(shape, milli)):
            fitting = milli
        else:
            too_large = milli
    if not fitting:
        return []
    yield
    reading = read()
    evaluator, columns = reading.evaluators[record.pod.scheduler_name], reading.ledger.columns
    smaller = _with_share(shape, fitting)
    rows = np.flatnonzero(evaluator.fits(smaller, AllRows(columns)))
    if not len(rows):  # some steps ago it did
        return []
    keys, slots = evaluator.rate(smaller, SomeRows(columns, rows))
    assert slots is not None
    best = int(keys.argmax())
    row = rows.item(best)
    where = f"{columns.names[row]} ({columns.uuids[row][slots.item(best)]})"
    label, alone = "a share of", "cards of its own"
    if record.pod.request is not None and record.pod.request.dialect == SHAREDGPU:
        label, alone = "sharedgpu/gpu_request", "sharedgpu/gpu_exclusive"
    without = f", without {alone}" if claim.exclusive else ""
    return [f"it fits on {where} now with {label} {_share(fitting)} or less{without}"]


def _fewer_cards(read: _ReadCluster, record: Record) -> Steps[list[str]]:
    """The most cards of their own that would fit on one node now, if the claim is for more."""
    shape, claim = record.shape, record.shape.claim
    if claim is None or claim.count == 1:
        return []
    for count in range(min(claim.count - 1, read().ledger.columns.width), 0, -1):
        yield
        fewer = replace(shape, claims=(replace(claim, count=count),))
        name = _first_that_fits(read, record, fewer)
        if name:
            cards = "1 GPU" if count == 1 else f"{count} GPUs"
            return [f"it fits on {name} now with {cards} in place of {claim.count}"]
    return []


def _other_model(read: _ReadCluster, record: Record) -> Steps[list[str]]:
    """Models of the cluster on which it would fit now, if it takes only others."""
    shape, claim = record.shape, record.shape.claim
    if claim is None or claim.share_of or not (claim.models or claim.preferred):
        return []
    found: list[str] = []
    for model in sorted({*read().ledger.columns.model_names} - {""}):
        if claim.takes(model):
            continue
        yield
        other = replace(shape, claims=(replace(claim, models=(model,), preferred=None),))
        name = _first_that_fits(read, record, other)
        if name:
            found.append(f"it fits on {name} now with the model {model}")
        if len(found) == _MAX_SENTENCES:
            break
    return found


def _fits_somewhere(read: _ReadCluster, record: Record, shape: Shape) -> bool:
    """Whether this shape fits a node now. Raises PluginFailed."""
    reading = read()
    evaluator = reading.evaluators[record.pod.scheduler_name]
    return bool(evaluator.fits(shape, AllRows(reading.ledger.columns)).any())


def _first_that_fits(read: _ReadCluster, record: Record, shape: Shape) -> str:
    """The first node by name that this shape fits now, "" if none does. Raises PluginFailed."""
    reading = read()
    evaluator, columns = reading.evaluators[record.pod.scheduler_name], reading.ledger.columns
    rows = np.flatnonzero(evaluator.fits(shape, AllRows(columns)))
    return min((columns.names[row] or "" for row in rows.tolist()), default="")


def _uncordoned(read: _ReadCluster, record: Record) -> list[str]:
    """The cordoned nodes that would take it now if they were not cordoned."""
    reading = read()
    evaluator, columns = reading.evaluators[record.pod.scheduler_name], reading.ledger.columns
    rows = np.flatnonzero(columns.unschedulable)
    if not len(rows):
        return []
    # A pod may tolerate a cordon, as DaemonSets do: then it is asked about without it.
    tolerant = replace(record.shape, tolerations=(*record.shape.tolerations, _OF_CORDONS))
    fits = evaluator.fits(tolerant, SomeRows(columns, rows))
    names = sorted(columns.names[row] or "" for row in rows[fits].tolist())
    return [
        f"it fits on {name} when that node is no longer cordoned: kubectl uncordon {name}"
        for name in names[:_MAX_SENTENCES]
    ]


def _is_replaced_by(old: Pod, new: Pod) -> bool:
    """Whether a rolling update of a Deployment replaces one pod by the other.

    Their labels differ only in the hash of the template (Deployment's pod-template-hash).
    """
    ours, theirs = dict(new.labels), dict(old.labels)
    hashes = ours.pop(_TEMPLATE_HASH, ""), theirs.pop(_TEMPLATE_HASH, "")
    return (
        all(hashes)
        and hashes[0] != hashes[1]
        and ours == theirs
        and (old.key.namespace == new.key.namespace)
    )


def _with_share(shape: Shape, milli: int) -> Shape:
    """The shape of a pod that asks for this share of a card in place of its own request."""
    assert shape.claim is not None
    claim = replace(shape.claim, milli=milli, exclusive=False)
    return replace(shape, claims=(claim,), needs_port=shape.needs_port or shape.claim.exclusive)


def _share(milli: int) -> str:
    return f"{milli / WHOLE_MILLI:g}"
