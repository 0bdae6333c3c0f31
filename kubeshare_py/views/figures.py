"""The scheduler's state in numbers, for its metrics."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kubeshare_py.domain.card_reading import IsolationBackend
from kubeshare_py.domain.gpu import WHOLE_MILLI

# The scheduler's state in numbers, for its metrics.
#
# Shares in thousandths of a GPU, memory in bytes.


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


class HeldSeconds(NamedTuple):
    """Whole cards times seconds, and bytes times seconds."""

    card_s: float
    byte_s: float


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


# What a namespace's pods hold of GPUs together, and may hold: for monitoring.


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """The use of one resource, as ResourceQuotas name it.

    `used` is in bytes or thousandths of a GPU, of which `unit` are one of the resource. `limit` is
    the smallest limit of the namespace's quotas without scopes, in units of the resource; None
    without one.
    """

    namespace: str
    resource: str
    used: int
    unit: int
    limit: int | None


# Cards and what pods hold of them, one by one: for monitoring that names each pod.


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCard:
    """One card. Amounts are in bytes and thousandths of a GPU, scaled as pods are charged.

    `index` is the driver's, None if the inventory does not show the card; its capacities are then
    0. `tenants` are pods. A MIG instance has the `parent` that it is a part of.
    """

    node: str
    uuid: str
    index: int | None
    model: str
    capacity_bytes: int
    capacity_milli: int
    allocated_bytes: int
    allocated_milli: int
    tenants: int
    parent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPart:
    """What one pod holds of one card; `of` is the card."""

    namespace: str
    pod: str
    of: SharedCard
    memory_bytes: int
    milli: int


# How the capacity of cards differs from their own size, in words: `0,1: memory 15 GiB x 1.5`.


_GIB = 1 << 30


def scaling_words(
    own_bytes: int, memory_scaling: int, cores_scaling: int, max_tenants: int = 0
) -> str:
    """What is special about a card's capacity; "" if nothing is.

    `own_bytes` is the card's own memory, and the scalings are in thousandths.
    """
    words = []
    if memory_scaling != WHOLE_MILLI:
        words.append(f"memory {own_bytes / _GIB:.4g} GiB x {memory_scaling / WHOLE_MILLI:g}")
    if cores_scaling != WHOLE_MILLI:
        words.append(f"cores x {cores_scaling / WHOLE_MILLI:g}")
    if max_tenants:
        words.append(f"at most {max_tenants:,} pod{'' if max_tenants == 1 else 's'}")
    return ", ".join(words)


def of_cards(cards: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """A text for each different wording with the labels of its cards, from (label, words) pairs."""
    labels: dict[str, list[str]] = {}
    for label, words in cards:
        if words:
            labels.setdefault(words, []).append(label)
    return tuple(f"{','.join(named)}: {words}" for words, named in labels.items())
