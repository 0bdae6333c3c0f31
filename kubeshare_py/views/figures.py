"""The scheduler's state in numbers, for its metrics.

Shares in thousandths of a GPU, memory in bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kubeshare_py.domain.isolation import IsolationBackend

#: What an attempt to place a pod may lead to, in kube-scheduler's words.
RESULTS = ("scheduled", "unschedulable", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFigures:
    """Cards in columns of one length; one object per card would be slow for tens of thousands.

    A card that pods hold and the inventory does not show has capacity 0 and is not healthy.
    `memory_scaling` is in thousandths.
    """

    nodes: Sequence[str] = ()
    uuids: Sequence[str] = ()
    models: Sequence[str] = ()
    capacity_milli: Sequence[int] = ()
    capacity_bytes: Sequence[int] = ()
    memory_scaling: Sequence[int] = ()
    allocated_milli: Sequence[int] = ()
    allocated_bytes: Sequence[int] = ()
    tenants: Sequence[int] = ()
    healthy: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFigures:
    """Sums over all cards.

    `free_milli` is the free share of healthy cards, `broken_milli` the part of it on cards with
    tenants. `disputed_cards` are uuids that several nodes claim.
    """

    nodes: int = 0
    cards: int = 0
    idle_cards: int = 0
    overcommitted_cards: int = 0
    unexclusive_cards: int = 0
    disputed_cards: int = 0
    shared_ports: int = 0
    reserved_cards: int = 0
    lingering_pods: int = 0
    free_milli: int = 0
    broken_milli: int = 0
    silent_nodes: int = 0
    binds_in_flight: int = 0
    prebinding_pods: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFigures:
    """What was decided so far, in numbers.

    `attempts` by result (see `RESULTS`) and profile, zeros included: a rate needs to know where a
    count began. `queue_moves` are pods by queue and event, `plugin_failures` calls by plugin and
    extension point. `preemption_attempts` are searches for victims, `preemptors_exhausted` pods and
    gangs that have used up their plans, `pre_bind_timeouts` placements that ended because a PreBind
    plugin waited too long, `scheduled_after_flush` pods bound after the flush.
    """

    attempts: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    queue_moves: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    plugin_failures: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    preemption_attempts: int = 0
    preemptors_exhausted: int = 0
    pre_bind_timeouts: int = 0
    scheduled_after_flush: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFigures:
    """Waiting pods, and problems of bound ones.

    `outside` are pods outside of the queue, because the limit of their namespace is reached.
    `holding` are pods with a place, `assumed` those of them not seen bound yet. `shares` are pods
    with a share of a card, by the back-end that enforces it; `not_ready` those of them on whose
    cards it is not ready, `unreported` those on whose cards that is unknown. `unschedulable_by`:
    (plugin, profile, pods that this plugin keeps from some node).
    """

    active: int = 0
    backoff: int = 0
    unschedulable: int = 0
    gated: int = 0
    outside: int = 0
    allocation_problems: int = 0
    holding: int = 0
    assumed: int = 0
    unschedulable_by: tuple[tuple[str, str, int], ...] = ()
    shares: Mapping[IsolationBackend, int] = field(default_factory=dict)
    not_ready: Mapping[IsolationBackend, int] = field(default_factory=dict)
    unreported: Mapping[IsolationBackend, int] = field(default_factory=dict)
