"""A profile: which plugins run, in which order, with which weights. It is the whole policy.

The ledger's own rule, as filters, is added to profiles whose plugins do not look at what is free.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.charge import INSUFFICIENT_CARD, REFUSES, insufficient
from kubeshare_py.cluster.columns import (
    ABSENT,
    CORDONED,
    FIXED_RESOURCES,
    PODS,
    PORTS,
    UNHEALTHY,
    IntArray,
)
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.configuration.scheduler import ProfileConfiguration
from kubeshare_py.domain.card_reading import NOTHING_TO_CHOOSE, IsolationChoice
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.gpu_capacities import NO_CAPACITIES, Capacities
from kubeshare_py.domain.pod import Shape, SpreadConstraint
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.claim_fit import (
    ModelTable,
    asked_bytes,
    fits_name,
    flags_for,
    shares_exclusion,
)
from kubeshare_py.framework.points import (
    CapacityBound,
    CardFilter,
    CardPredicate,
    CardScore,
    Depends,
    Explain,
    Filter,
    GangScore,
    Ground,
    Guard,
    Locality,
    Permit,
    PostFilter,
    PreBind,
    PreEnqueue,
    QueueingHint,
    QueueSort,
    Reserve,
    RowFilter,
    Score,
)
from kubeshare_py.framework.reasons import NO_USABLE_GPU, ReasonTable

# A profile: which plugins run, in which order, with which weights. It is the whole policy.


P = TypeVar("P")


#: The fields of shapes and of their claims, with the values that say nothing.
_OF_SHAPES = {one.name: one.default for one in fields(Shape)}
_OF_CLAIMS = {f"claim.{one.name}": one.default for one in fields(GpuClaim)}


def is_about(shape: Shape, names: Iterable[str]) -> bool:
    """Whether the shape says anything in these fields; `claim.tags` is one of its claims."""
    for name in names:
        if name in _OF_SHAPES:
            if getattr(shape, name) != _OF_SHAPES[name]:
                return True
            continue
        nothing, field_name = _OF_CLAIMS[name], name.removeprefix("claim.")
        if any(getattr(claim, field_name) != nothing for claim in shape.claims):
            return True
    return False


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
    of plugins whose `id` is in `trusted` are not checked, because tests of this project do. Those
    with their `id` in `only_for` are asked to filter, to score and before Bindings only about
    shapes that say something in one of these fields (`is_about`): about others they have nothing to
    say, which need not be found out for each.
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
    only_for: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
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
    #: The scores of whole gangs, with their weights.
    gang_scores: tuple[tuple[GangScore, int], ...] = field(init=False, compare=False, repr=False)
    #: Whether the keys of `queue_sort` need no check.
    trusts_keys: bool = field(init=False, compare=False, repr=False)
    #: The fields of shapes about which PreBind plugins are asked, and the values that say nothing;
    #: None if one is asked about all shapes.
    _pre_binds_about: tuple[tuple[Callable[[Shape], object], object], ...] | None = field(
        init=False, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        plugins = [*{id(one): one for one in (*self.filters, *self.card_filters)}.values()]
        cards_first = [*{id(one): one for one in (*self.card_filters, *self.filters)}.values()]
        put = object.__setattr__  # the dataclass is frozen
        # isinstance() of a Protocol takes 40 times as long as hasattr, and most plugins lack these.
        explains = [
            self._at(one) for one in plugins if hasattr(one, "explain") and isinstance(one, Explain)
        ]
        hints = [
            self._at(one)
            for one in cards_first
            if hasattr(one, "queueing_hint") and isinstance(one, QueueingHint)
        ]
        bounds = [
            self._at(one)
            for one in cards_first
            if hasattr(one, "capacity_bound") and isinstance(one, CapacityBound)
        ]
        put(self, "explains", tuple(explains))
        put(self, "hints", tuple(hints))
        put(self, "bounds", tuple(bounds))
        gang_scores = [
            (one, weight)
            for one, weight in self.scores
            if hasattr(one, "gang_score") and isinstance(one, GangScore)
        ]
        put(self, "gang_scores", tuple(gang_scores))
        put(self, "trusts_keys", id(self.queue_sort) in self.trusted)
        names = [self.only_for.get(id(one)) for one in self.pre_binds]
        about = [(attrgetter(one), _OF_SHAPES[one]) for some in names for one in some or ()]
        put(self, "_pre_binds_about", None if None in names else tuple(about))

    def _at(self, plugin: P) -> AtPoint[P]:
        of_claims = any(plugin is one for one in self.card_filters)
        return AtPoint(
            plugin, of_claims, next((one.name for one in self.filters if one is plugin), "")
        )

    def pre_binds_for(self, shape: Shape) -> Sequence[PreBind]:
        """The PreBind plugins that are asked about pods of this shape."""
        # Not `asks`: this is asked about each pod, and not once for its shape.
        for value_of, nothing in self._pre_binds_about or ():
            if value_of(shape) != nothing:
                return self.pre_binds
        return self.pre_binds if self._pre_binds_about is None else ()

    def asks(self, plugin: object, shape: Shape) -> bool:
        """Whether this plugin is asked about this shape."""
        names = self.only_for.get(id(plugin))
        return names is None or is_about(shape, names)

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


# The ledger's own rule as filters, for profiles whose plugins do not look at what is free.
#
# The ledger refuses a placement that takes more than there is (`cluster/charge`). These filters
# answer the same for many rows at once, so that a pod is tried where there is room.


NAME = "ledger"


class LedgerNodes:
    """A filter: the node has enough of each resource that the pod asks for."""

    name = NAME
    depends = Depends.ROW
    guards = Ground.NODE

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """One comparison for each resource that the shape asks for."""
        asked = list(_asked(shape))
        masks = [reasons.register(NAME, f"{REFUSES}{insufficient(name)}") for name, _ in asked]

        def ask(rows: Rows) -> IntArray:
            free, columns = rows.free, rows.resources
            found = np.zeros(len(free), np.int64)
            for (name, amount), mask in zip(asked, masks, strict=True):
                short = free[:, columns[name]] < amount if name in columns else True
                found |= np.where(short, mask, 0)
            return found

        return ask

    def explain(self, shape: Shape, row: Rows) -> Iterator[Shortfall]:
        """Each resource of which too little is free."""
        for name, amount in _asked(shape):
            column = row.resources.get(name)
            free = row.free.item(0, column) if column is not None else 0
            if free < amount:
                reason = f"{REFUSES}{insufficient(name)}"
                yield Shortfall(reason=reason, resource=name, asked=amount, free=free, unit="count")


class LedgerCards:
    """A card filter: the card is healthy, and enough of its share and memory is free."""

    name = NAME
    guards = Ground.CARDS

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardPredicate | None:
        """Cards without flags that have the share and memory; idle ones for exclusive claims."""
        claim = shape.claim
        if claim is None:
            return None
        mask = reasons.register(NAME, f"{REFUSES}{INSUFFICIENT_CARD}")
        unusable = reasons.register(NAME, f"{REFUSES}{NO_USABLE_GPU}", resolvable=False)
        milli_of, shares = ModelTable(claim.milli_on).of, shares_exclusion(claim)
        named = fits_name(claim)

        def fits(rows: Rows) -> NDArray[np.bool_]:
            found: NDArray[np.bool_] = flags_for(claim, rows) == 0
            if claim.exclusion:
                found &= shares(rows)
            if named is not None:
                found &= named(rows)
            milli = milli_of(rows)
            if claim.exclusive:  # all of an idle card, whatever its share
                found &= rows.tenants == 0
            else:
                found &= rows.free_milli >= milli
            found &= rows.free_bytes >= _bytes(claim, milli, rows)
            return found

        def lacks(rows: Rows) -> IntArray:
            gone = rows.flags & (ABSENT | UNHEALTHY | CORDONED) > 0
            return np.where(fits(rows), 0, np.where(gone, unusable, mask))

        return CardPredicate(fits, lacks)


def _asked(shape: Shape) -> Iterator[tuple[str, int]]:
    yield from ((name, amount) for name, amount in shape.resources if amount > 0)
    yield FIXED_RESOURCES[PODS], 1
    if shape.needs_port:
        yield FIXED_RESOURCES[PORTS], 1


def _bytes(claim: GpuClaim, milli: IntArray, rows: Rows) -> IntArray | int:
    """The memory charged on each card; for an exclusive claim at least what it asks for."""
    if claim.exclusive:
        return np.maximum(rows.capacity_bytes, claim.memory_bytes or 0)
    return asked_bytes(claim, milli, rows)


def guarded(profile: Profile, *, anew: bool = False) -> Profile:
    """The profile, with the ledger's rule where none of its plugins guards that ground.

    With `anew`, also where a plugin claims to, because it let a placement through.
    """
    own = (*profile.filters, *profile.card_filters) if anew else ()
    ours = {plugin.guards for plugin in own if isinstance(plugin, LedgerNodes | LedgerCards)}
    missing = {*Ground} - ours if anew else unguarded(profile)
    filters, card_filters = profile.filters, profile.card_filters
    if Ground.NODE in missing:
        filters = (*filters, LedgerNodes())
    if Ground.CARDS in missing:
        card_filters = (*card_filters, LedgerCards())
    return replace(profile, filters=filters, card_filters=card_filters) if missing else profile


def unguarded(profile: Profile) -> set[Ground]:
    """The grounds that no plugin of the profile guards."""
    plugins = (*profile.filters, *profile.card_filters)
    return {*Ground} - {
        plugin.guards
        for plugin in plugins
        if hasattr(plugin, "guards") and isinstance(plugin, Guard)
    }
