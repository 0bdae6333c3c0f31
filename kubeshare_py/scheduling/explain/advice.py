"""What would make a waiting pod fit: sentences for people, the cards it waits for, and a plan.

The profile's own plugins are asked, on rows of a what-if: nothing is cached and nothing changes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress, islice

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.columns import CORDONED, FOREIGN, HELD_BACK, UNHEALTHY, IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import AllRows, SomeRows
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import Pod, Shape, Toleration
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.diagnosis import cards_there
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.framework.snapshot import ClusterReading
from kubeshare_py.scheduling.explain.question import (
    UNNAMED,
    Sees,
    Steps,
    reservation_name,
    sees_all,
)
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.pod_groups.gang_reports import missing_members
from kubeshare_py.scheduling.queue.gangs import Gangs
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.reservations import ReservationCause
from kubeshare_py.views.view import NominatedPlaceView, PreemptionView, VictimView

# Which cards a waiting pod waits for, in one sentence, if it lacks nothing else.


#: The most nodes whose pods are looked at, and the most nodes and pods that are named.
_MAX_SEARCHED, _MAX_NAMED = 16, 3
#: Flags of cards that would take no pod if they were idle.
_OF_NO_USE = UNHEALTHY | HELD_BACK | CORDONED | FOREIGN


def held_cards(shape: Shape, ledger: Ledger, records: Mapping[PodUid, Record], sees: Sees) -> str:
    """`a Tesla-T4: all 4 (t4-1) are held by default/a`; "" if the pod lacks something else.

    Each card of a model that the pod takes must be in use, and have too little for the pod. Cards
    that take no pod at all (cordoned, faulty, reserved) are another matter.
    """
    claim = shape.claim
    if claim is None or not (claim.models or claim.preferred) or claim.is_named:
        return ""
    columns = ledger.columns
    cards = cards_there(claim, columns).fitting
    rows = np.flatnonzero(cards.any(1))
    if not len(rows) or not _are_full(claim, ledger, rows, cards[rows]):
        return ""
    names = sorted(columns.names[row] or "" for row in rows.tolist())
    count = int(cards.sum())
    others = int(columns.present.sum()) - len(rows)
    held = _holders(names, ledger, cards, records, sees)
    return f"{_wanted(claim)}: {_all(count)} ({_named(names, 'node')}) {held}{_elsewhere(others)}"


def _are_full(claim: GpuClaim, ledger: Ledger, rows: IntArray, cards: NDArray[np.bool_]) -> bool:
    """Whether each of these cards is in use and has too little left; `cards` is (k, width)."""
    columns = ledger.columns
    names = columns.model_names
    milli = np.array([claim.milli_on(name) for name in names])[columns.model[rows]]
    lacks = columns.free_milli[rows] < milli
    if claim.exclusive:
        lacks |= columns.tenants[rows] > 0
    lacks |= columns.free_bytes[rows] < (claim.memory_bytes or 0)
    is_held = (columns.tenants[rows] > 0) & (columns.flags[rows] & _OF_NO_USE == 0)
    is_kept = columns.reserved_milli[rows] > 0
    return bool((lacks & is_held & ~is_kept)[cards].all())


def _holders(
    names: Sequence[str],
    ledger: Ledger,
    cards: NDArray[np.bool_],
    records: Mapping[PodUid, Record],
    sees: Sees,
) -> str:
    """By which pods they are held."""
    if len(names) > _MAX_SEARCHED:
        return "are held by other pods"
    columns = ledger.columns
    keys: set[str] = set()
    hidden = 0
    for name in names:
        row = columns.row_of[NodeName(name)]
        uuids = {uuid for slot, uuid in enumerate(columns.uuids[row]) if cards.item(row, slot)}
        for uid, charge in ledger.pods_on(NodeName(name)).items():
            held = charge.allocation.cards if charge.allocation is not None else ()
            if uid not in records or uuids.isdisjoint(card.uuid for card in held):
                continue
            key = records[uid].pod.key
            if sees(key.namespace):
                keys.add(str(key))
            else:
                hidden += 1
    named = [*sorted(keys), *([UNNAMED] if hidden == 1 else [])]
    if hidden > 1:
        named.append(f"{hidden} pods of other namespaces")
    verb = "is" if int(cards.sum()) == 1 else "are"
    return f"{verb} held by {_named(named, 'pod')}" if named else f"{verb} in use"


def _wanted(claim: GpuClaim) -> str:
    model = " or ".join(claim.models) or str(claim.preferred)
    return f"{claim.count} cards of {model}" if claim.count > 1 else f"a card of {model}"


def _all(count: int) -> str:
    return {1: "the only one", 2: "both"}.get(count, f"all {count:,}")


def _named(names: Sequence[str], thing: str) -> str:
    if len(names) <= _MAX_NAMED:
        return ", ".join(names)
    more = len(names) - _MAX_NAMED
    return f"{', '.join(names[:_MAX_NAMED])} and {more:,} more {thing}{'' if more == 1 else 's'}"


def _elsewhere(others: int) -> str:
    if not others:
        return ""
    nodes = "1 other node has" if others == 1 else f"{others:,} other nodes have"
    return f"; {nodes} other cards or none"


# What would make a waiting pod fit: sentences for people.
#
# The profile's own plugins are asked, on rows of a what-if: nothing is cached and nothing changes.


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
            since = f"for {machine.time_since_s(reservation.since):.0f} s now"
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
    names = (ledger.columns.names[row] for row in evaluator.evictable_rows(shape).tolist())
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
    scores, slots = evaluator.score_rows(smaller, SomeRows(columns, rows))
    assert slots is not None
    best = int(scores.argmax())
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


# The preemption plan for a waiting pod, before it happens, as people see it.


NEVER = "its preemptionPolicy is Never"
REFUSED = "the API server refuses its Bindings, and may do so for a freed place, too"
OFF = "its profile evicts no pods"
SPENT = "pods were evicted for it {} times already"


def preemption_view(
    machine: Machine, record: Record, sees: Sees = sees_all
) -> Steps[PreemptionView | None]:
    """The plan, even if it will not be carried out; None if no eviction would help.

    A victim that may not be named has the namespace "" and the name "".
    """
    if not machine.ready or not machine.inventory_read:
        return None
    found = yield from machine.preemption.dry_run(record, machine.reading)
    if found is None:
        return None
    plan, under_way = found
    return PreemptionView(
        in_flight=under_way,
        obstacle=_obstacle(machine.profiles, machine.gangs, record),
        victims=tuple(
            VictimView(
                namespace=victim.key.namespace if sees(victim.key.namespace) else "",
                name=victim.key.name if sees(victim.key.namespace) else "",
                node=victim.node,
                priority=victim.priority,
                cards=tuple(victim.cards),
                answer=machine.preemption.evictions.answer_about(victim.uid),
            )
            for victim in plan.victims
        ),
        nominations=tuple(
            NominatedPlaceView(
                namespace=place.key.namespace,
                name=place.key.name,
                node=place.node,
                cards=tuple(dict.fromkeys(place.cards)),
            )
            for place in plan.nominations
        ),
        leaving=len(plan.awaited),
        violations=plan.violations,
    )


def _obstacle(profiles: Mapping[str, Profile], gangs: Gangs, record: Record) -> str:
    if not record.pod.preempts:
        return NEVER
    if record.shape.avoided:
        return REFUSED
    if not profiles[record.pod.scheduler_name].post_filters:
        return OFF
    gang = gangs.of(record.pod.uid)
    owner = gang if gang is not None and gang.needs_quorum else record
    return SPENT.format(owner.plans) if owner.remark else ""
