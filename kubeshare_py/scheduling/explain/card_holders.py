"""Which cards a waiting pod waits for, in one sentence, if it lacks nothing else."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import CORDONED, FOREIGN, HELD_BACK, UNHEALTHY, IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.impossible import cards_there
from kubeshare_py.scheduling.explain.visibility import UNNAMED, Sees
from kubeshare_py.scheduling.queue.pod_records import Record

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
