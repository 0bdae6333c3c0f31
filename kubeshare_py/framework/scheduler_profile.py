"""A profile: which plugins run, in which order, with which weights. It is the whole policy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kubeshare_py.configuration.scheduler import ProfileConfiguration
from kubeshare_py.domain.gpu_capacities import NO_CAPACITIES, Capacities
from kubeshare_py.domain.isolation import NOTHING_TO_CHOOSE, IsolationChoice
from kubeshare_py.domain.needs.inter_pod import SpreadConstraint
from kubeshare_py.framework.points import (
    CardFilter,
    CardScore,
    Filter,
    Locality,
    Permit,
    PostFilter,
    PreBind,
    PreEnqueue,
    QueueSort,
    Reserve,
    Score,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The plugins that decide for pods with this schedulerName, in calling order.

    Scores have weights. A plugin that implements several points is listed at each of them. Answers
    of plugins whose `id` is in `trusted` are not checked, because tests of this project do.
    `isolation` is what keeps the tenants of a card apart; `capacities` relates shares of different
    models. `reads_images`: shapes have the images of their pods, because a score depends on them.
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
    default_spread: tuple[SpreadConstraint, ...] = ()
    ignores_resource: Callable[[str], bool] | None = None
    extender: bool = False

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
