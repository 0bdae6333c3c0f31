"""What each node says of a waiting pod; nodes that say the same are one verdict.

Which nodes refuse the pod, and for which reasons, is of the instant of the first step. What their
cards lack is of the step that looks at them.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.framework.cluster_reading import ClusterReading
from kubeshare_py.framework.reasons import NO_NODE
from kubeshare_py.scheduling.explain.gang_headroom import headroom_on_nodes
from kubeshare_py.scheduling.explain.kept_for import kept_from
from kubeshare_py.scheduling.explain.shortfalls import RowLacks, Shortfalls
from kubeshare_py.scheduling.explain.steps import Steps
from kubeshare_py.scheduling.explain.visibility import Sees
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.isolation_hold import not_ready_on
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.views.card_scaling import of_cards, scaling_words
from kubeshare_py.views.view import NodeWhy

#: What a step may cost, where a node costs 1, about 50 µs, and a call of a plugin CALL_COST.
STEP_COST, CALL_COST = 100, 8


@dataclass(frozen=True, slots=True)
class _MaskMeaning:
    """What a mask of reasons means: their texts, and the plugins that give them."""

    reasons: tuple[str, ...]
    plugins: frozenset[str]
    resolvable: bool


@dataclass(slots=True)
class _NodesAlike:
    """A verdict without names, and the nodes that have it."""

    verdict: NodeWhy
    names: list[str] = field(default_factory=list)


def node_whys(machine: Machine, record: Record, sees: Sees) -> Steps[tuple[NodeWhy, ...]]:
    """The verdicts, by the name of their first node. The pod must wait."""
    reading = machine.reading()
    profile = reading.evaluators[record.pod.scheduler_name].profile
    masks, refusals, layout = *_masks(reading, record), machine.ledger.columns.layout
    kept = kept_from(machine, record, sees)
    yield
    room = yield from _room(machine, record)
    shortfalls, verdicts = Shortfalls(profile, record), dict[Hashable, _NodesAlike]()
    # Nearest misses first: their numbers say most, if there are too many for all.
    order = sorted(masks, key=lambda name: (masks[name] > 0, not refusals[masks[name]].resolvable))
    cost, ledger = 0, machine.ledger.for_reading()
    for name in order:
        if cost >= STEP_COST:
            yield
            cost, ledger = 0, machine.ledger.for_reading()
            if ledger.columns.layout != layout:  # rows and masks have other numbers
                return (yield from node_whys(machine, record, sees))
        row = ledger.columns.row_of.get(name)
        if row is None:
            continue  # it left meanwhile
        refusal, calls = refusals[masks[name]], shortfalls.calls
        lacks = (
            shortfalls.of(ledger.columns, row, refusal.plugins, refusal.reasons)
            if masks[name]
            else RowLacks()
        )
        cost += 1 + CALL_COST * (shortfalls.calls - calls)
        verdict = NodeWhy(
            name="",
            fits=not masks[name],
            headroom=None if room is None else room.get(name, 0),
            reasons=refusal.reasons,
            not_ready=not_ready_on(ledger, row, record.shape),
            kept=kept.get(name, ()),
            scaled=_scaled(ledger, name) if record.shape.claims else (),
        )
        alike = (verdict, None if lacks is None else lacks.alike)
        if alike not in verdicts:
            said = shortfalls.said(lacks, ledger, row) if lacks is not None else ()
            verdicts[alike] = _NodesAlike(replace(verdict, shortfalls=tuple(said)))
        verdicts[alike].names.append(name)
    found = [_named(verdict) for verdict in verdicts.values()]
    return tuple(sorted(found, key=lambda node: node.name))


def _named(verdict: _NodesAlike) -> NodeWhy:
    """The verdict with its nodes; the first one asked about has the cards of its shortfalls."""
    first, *others = verdict.names
    return replace(verdict.verdict, name=first, alike=tuple(sorted(others)))


def _masks(
    reading: ClusterReading, record: Record
) -> tuple[dict[NodeName, int], dict[int, _MaskMeaning]]:
    """The mask of each node, in the order of names, and what each of these masks means."""
    evaluator = reading.evaluators[record.pod.scheduler_name]
    found = evaluator.masks(record.shape).tolist()
    row_of = reading.ledger.columns.row_of
    masks = {name: found[row_of[name]] for name in sorted(row_of)}
    masks = {name: mask for name, mask in masks.items() if not mask & NO_NODE}
    refusals = {}
    for mask in {*masks.values()}:
        reasons = evaluator.reasons_in(record.shape, mask)
        refusals[mask] = _MaskMeaning(
            # Several plugins may say the same, for example of a claim that is not there.
            tuple(dict.fromkeys(reason.text for reason in reasons)),
            frozenset(reason.plugin for reason in reasons),
            all(reason.resolvable for reason in reasons),
        )
    return masks, refusals


def _room(machine: Machine, record: Record) -> Steps[dict[NodeName, int] | None]:
    """How many members of the pod's gang each node would take; None if it is in no such gang."""
    gang = machine.gangs.of(record.pod.uid)
    if gang is None or not gang.needs_quorum or not gang.waiting:
        return None
    members = sorted(gang.waiting.values(), key=lambda one: one.key)
    return (yield from headroom_on_nodes(machine, gang, members))


def _scaled(ledger: Ledger, name: NodeName) -> tuple[str, ...]:
    """Which of a node's cards have another capacity than their own size."""
    return of_cards(
        (
            str(gpu.index),
            scaling_words(gpu.memory_bytes, gpu.memory_scaling, gpu.cores_scaling),
        )
        for gpu in ledger.inventory.get(name, ())
    )
