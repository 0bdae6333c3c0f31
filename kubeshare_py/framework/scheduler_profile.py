"""A profile: which plugins run, in which order, with which weights. It is the whole policy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kubeshare_py.configuration.scheduler import ProfileConfiguration
from kubeshare_py.domain.gpu_capacities import NO_CAPACITIES, Capacities
from kubeshare_py.domain.isolation import NOTHING_TO_CHOOSE, IsolationChoice
from kubeshare_py.domain.needs.inter_pod import SpreadConstraint
from kubeshare_py.framework.points import (
    CapacityBound,
    CardFilter,
    CardScore,
    Explain,
    Filter,
    Locality,
    Permit,
    PostFilter,
    PreBind,
    PreEnqueue,
    QueueingHint,
    QueueSort,
    Reserve,
    Score,
)

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class AtPoint(Generic[P]):
    """A plugin at a point that filters may also have.

    `of_claims`: it is a card filter, which is asked about one claim after the other. `filters_as`
    is its name as a filter of nodes, "" for a plugin that is none.
    """

    plugin: P
    of_claims: bool
    filters_as: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The plugins that decide for pods with this schedulerName, in calling order.

    Scores have weights. A plugin that implements several points is listed at each of them. Answers
    of plugins whose `id` is in `trusted` are not checked, because tests of this project do.
    `isolation` is what keeps the tenants of a card apart; `capacities` relates shares of different
    models. `reads_images`: shapes have the images of their pods, because a score depends on them.
    `reads_namespace` and `reads_labels`: shapes have the namespaces of their pods, and of their
    labels these, because plugins depend on them.
    `default_spread` are constraints for pods without any of their own, if Services select them or
    they have a controller; which pods they count follows from these, and not from their selectors.
    `ignores_resource` says which resources need not be free; None if all must. `extender`:
    kube-scheduler has the pods in its queue and chooses their nodes; the plugins are asked about
    cards, as its extender.
    """

    scheduler_name: str
    queue_sort: QueueSort
    pre_enqueue: Sequence[PreEnqueue] = ()
    filters: Sequence[Filter] = ()
    card_filters: Sequence[CardFilter] = ()
    post_filters: Sequence[PostFilter] = ()
    card_scores: Sequence[tuple[CardScore, int]] = ()
    scores: Sequence[tuple[Score, int]] = ()
    locality: Locality | None = None
    permits: Sequence[Permit] = ()
    reserves: Sequence[Reserve] = ()
    pre_binds: Sequence[PreBind] = ()
    trusted: frozenset[int] = frozenset()
    isolation: IsolationChoice = NOTHING_TO_CHOOSE
    capacities: Capacities = NO_CAPACITIES
    reads_images: bool = False
    reads_namespace: bool = False
    reads_labels: frozenset[str] = frozenset()
    default_spread: tuple[SpreadConstraint, ...] = ()
    ignores_resource: Callable[[str], bool] | None = None
    extender: bool = False
    #: The filters and card filters that are also at these points, in calling order. They are chosen
    #: once: whether a plugin has a Protocol's methods costs about 13 µs for each answer.
    explains: tuple[AtPoint[Explain], ...] = field(init=False, compare=False, repr=False)
    hints: tuple[AtPoint[QueueingHint], ...] = field(init=False, compare=False, repr=False)
    bounds: tuple[AtPoint[CapacityBound], ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        plugins = [*{id(one): one for one in (*self.filters, *self.card_filters)}.values()]
        cards_first = [*{id(one): one for one in (*self.card_filters, *self.filters)}.values()]
        put = object.__setattr__  # the dataclass is frozen
        explains = [self._at(one) for one in plugins if isinstance(one, Explain)]
        hints = [self._at(one) for one in cards_first if isinstance(one, QueueingHint)]
        bounds = [self._at(one) for one in cards_first if isinstance(one, CapacityBound)]
        put(self, "explains", tuple(explains))
        put(self, "hints", tuple(hints))
        put(self, "bounds", tuple(bounds))

    def _at(self, plugin: P) -> AtPoint[P]:
        of_claims = any(plugin is one for one in self.card_filters)
        return AtPoint(
            plugin, of_claims, next((one.name for one in self.filters if one is plugin), "")
        )

    def trusts(self, plugin: object) -> bool:
        """Whether this plugin's answers need no check."""
        return id(plugin) in self.trusted


@dataclass(frozen=True, slots=True)
class ProfilesReplaced:
    """The event that other plugins decide from now on; not in `domain`: plugins are no values.

    The profiles have the same scheduler names as before: pods of other schedulers have no record.
    `configured` is what they were made from, which the event log writes down and a replay makes
    them from again.
    """

    profiles: tuple[Profile, ...]
    configured: tuple[ProfileConfiguration, ...] = ()
