"""Every extension point, in calling order, with its contract.

Names and meaning follow kube-scheduler's scheduling framework, but the unit is a set of rows, not
one node. A plugin implements one or several of these small protocols. It is asked for a question
once per *shape* (all that placement on one node depends on), and the question is then put to many
rows at once. `None` in place of a question means that the plugin has no say about this shape.

Answers are cached per shape and row. A plugin declares what they depend on:

- `Depends.STATIC`: the node object only (labels, taints, capacity). Asked again when that changes.
- `Depends.ROW`: anything in that node's row, charges included. Asked again when the row changes.
- `Depends.CLUSTER`: placed pods on any node, and objects besides nodes. Asked again, about all
  rows, when any of these changed; for a claim that names its card, when any row changed. Only
  shapes that ask for such things should get a question, because each decision then costs time in
  proportion to the number of nodes.

A shape says what its pod needs, not whose it is. A plugin that depends on that too declares it:
`reads_namespace = True`, and `reads_labels = ("team",)` with the keys that it reads. Shapes of its
profile then have `namespace` and `labels` of these keys; each different value makes a shape of its
own, with answers of its own, so keys with a value for each pod (as a Job's `controller-uid`) do not
belong here.

The same columns must give the same answers. Answers must not depend on other rows, unless they are
of the last kind, on time or on chance (except a seeded generator of the plugin's own). Arguments
are read-only: arrays that are written raise ValueError.

If a plugin raises, or its answer breaks the contract, the pod or shape waits with "plugin X
failed"; see `boundary`.

Shapes: k is the number of rows asked about, width the number of card slots per row.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.effects import Preemptor
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod, Shape, VolumeChoice
from kubeshare_py.domain.storage import ObjectRef, ObjectWrite
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.topology.card_sets import MAX_CARDS, GangContext


class Depends(Enum):
    """What a plugin's answers depend on."""

    STATIC = "static"
    ROW = "row"
    CLUSTER = "cluster"


@dataclass(slots=True)
class BestCards:
    """The best card of each asked row, for a claim of one card.

    Card filters and card scores rank the cards. `slot` is the card's slot and `picked` its flat
    index into (k, width) columns, (k,) int64 each. On rows where no card fits, both name any card.
    """

    slot: IntArray
    picked: IntArray

    def of(self, column: IntArray) -> IntArray:
        """The values of a (k, width) card column at each row's best card, (k,)."""
        found: IntArray = column.ravel()[self.picked]
        return found


#: A mask of reasons per row, (k,) int64, 0 where the shape fits; None if it fits all rows.
RowFilter = Callable[[Rows], IntArray | None]


@dataclass(frozen=True, slots=True)
class CardPredicate:
    """A CardFilter's question about one shape, in two strengths.

    `fits` says which cards may hold one share of the claim, (k, width) bool; it is called for every
    decision. `reasons` gives a mask per card, (k, width) int64, 0 exactly where `fits` is True; it
    is called when a pod waits and people want to know why. If `least_headroom` is not None, `fits`
    must be exactly `room >= least_headroom` (milli), and the framework may look answers up instead
    of calling it.
    """

    fits: Callable[[Rows], NDArray[np.bool_]]
    reasons: Callable[[Rows], IntArray]
    least_headroom: int | None = None


#: The highest value of the column `break_order`, and the number of its values: the distance of two
#: ranks.
MAX_KEPT = MAX_CARDS
PLACES = MAX_KEPT + 1


@dataclass(frozen=True, slots=True)
class ByHeadroom:
    """A card rank that depends only on the card's free share.

    `ranks` is (1001,) int64, for 0 to 1000 milli.

    With `keeps`, the column `break_order` orders idle cards of equal rank, whatever the weights
    are. For a member of a gang, nearness to the gang's cards orders all cards of equal rank.
    """

    ranks: IntArray
    keeps: bool = False

    def __call__(self, rows: Rows) -> IntArray:
        """The rank of each card, (k, width) int64; arbitrary for cards with no free share."""
        return self.ranks[rows.headroom]


@dataclass(frozen=True, slots=True)
class CardSetScore:
    """Chooses the best set of cards for a claim of several cards, in place of a card rank.

    `choose` gets the one chosen row and which of its cards fit, (width,) bool, at least as many as
    the claim asks for, and returns the slots of the best ones. `near` is called in its place for a
    member of a gang; without it, members are treated like other pods.
    """

    choose: Callable[[Rows, NDArray[np.bool_]], tuple[int, ...]]
    near_gang: Callable[[Rows, NDArray[np.bool_], GangContext], tuple[int, ...]] | None = None


@dataclass(frozen=True, slots=True)
class CardPreselection:
    """Narrows the cards of a claim of several cards, in place of a card rank.

    `leave` gets the same arguments as `CardSetScore.choose`, before it is called, and returns the
    cards that remain, (width,) bool, at least as many as the claim asks for.
    """

    preselect: Callable[[Rows, NDArray[np.bool_]], NDArray[np.bool_]]


#: 0…100 per row, (k,) int64, higher is better. Cards is None unless the shape claims one card.
RowScore = Callable[[Rows, BestCards | None], IntArray]
#: 0 or more per card, (k, width) int64, higher is better. Ties go to the lower uuid. See
#: ByHeadroom.
CardRank = Callable[[Rows], IntArray]
#: Raw scores of the rows that fit -> 0…100, (k,) int64 both.
Normaliser = Callable[[IntArray], IntArray]


@runtime_checkable
class PreEnqueue(Protocol):
    """May this pod enter the queue? Asked when the pod is first seen and when it changes."""

    name: str

    def pre_enqueue(self, pod: Pod) -> str | None:
        """None if the pod may enter; else a sentence that says why it waits."""


@runtime_checkable
class QueueSort(Protocol):
    """In which order are pods tried? Exactly one plugin per profile."""

    name: str

    def key(self, pod: Pod) -> tuple[int | str, ...]:
        """Pods are tried in ascending order of this key; equal ones in order of arrival."""


@runtime_checkable
class PreFilter(Protocol):
    """For filters and scores: what do they need to know about a shape? Asked once per shape.

    Each of the plugin's methods `filter`, `card_filter`, `score` and `card_score` then gets the
    answer as one more argument, the last one. A plugin with one such method has no need of it: that
    method is called once per shape too, and what it prepares stays in the function that it returns.
    """

    def pre_filter(self, shape: Shape) -> object:
        """The value that the other methods get for this shape."""


@runtime_checkable
class Filter(Protocol):
    """Does the shape fit these rows? All filters are asked, so that all reasons are known."""

    name: str
    depends: Depends

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """The question for this shape."""


class Ground(Enum):
    """A kind of resource that placements use up."""

    NODE = "node"  # cpu, memory, pods, extended resources, ports
    CARDS = "cards"  # share, memory and tenants of cards; healthy ones only


@runtime_checkable
class Guard(Protocol):
    """For filters: the filter passes nothing that the ledger would refuse for want of this ground.

    The ledger refuses a placement that takes more than is free, whatever plugins answer. If no
    filter of a profile guards a ground, the framework adds its own (`scheduler_profile`), so that
    the pod is tried elsewhere, or waits with a reason.
    """

    guards: Ground


@runtime_checkable
class CardFilter(Protocol):
    """Which cards of a row may hold this claim? A row fits when at least `count` of its cards may.

    Depends on the row. Asked only for shapes that claim GPUs; about a pod with several claims once
    for each different claim, with a shape that has it alone. So are a card filter's CapacityBound,
    QueueingHint and Explain. The framework sees to it that the claims fit together.
    """

    name: str

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardPredicate | None:
        """The question for this shape."""


@runtime_checkable
class PostFilter(Protocol):
    """Which pods may be evicted for a pod or gang that fits nowhere? Without such plugins, none.

    Asked once for each plan; if there are several plugins, all must agree. The core asks only about
    bound pods of this scheduler that are not leaving, and chooses the victims among those that may
    be evicted.
    """

    name: str

    def post_filter(self, preemptor: Preemptor) -> Callable[[Pod], bool]:
        """The question for this preemptor: may this pod be evicted for it?"""


def lower_priority(preemptor: Preemptor) -> Callable[[Pod], bool]:
    """Kubernetes' rule: pods of lower spec.priority may be evicted."""
    return lambda pod: pod.priority < preemptor.priority


@runtime_checkable
class CardScore(Protocol):
    """Which of the cards that fit are best? Weighted sums decide.

    A pod with several claims is asked about as by CardFilter. The sum over its claims decides.

    Score gets the best card of each row.

    For a claim of several cards, the first plugin that answers with a CardSetScore decides alone.
    It chooses among the cards that remain after all that answer with a CardPreselection, in order.
    """

    name: str

    def card_score(self, shape: Shape) -> CardRank | CardSetScore | CardPreselection | None:
        """The question for this shape."""


@runtime_checkable
class Score(Protocol):
    """How good are these rows? Weighted sums decide; ties go to the row that was added first.

    The shape has all claims of the pod.

    Rows that do not fit are asked about too, and their answers ignored. With `normaliser` None,
    answers are absolute; this is the fast way. With a normaliser, raw answers may be any integers,
    and each decision normalises over all rows that fit, which costs time in proportion to their
    number.

    With an attribute `score_depends` Depends.STATIC, raw answers of a score with a normaliser
    depend on the node object alone: it is asked again when that changes, without cards, and costs
    nothing while all rows have the same raw score. With Depends.CLUSTER it is asked at each
    decision, about exactly the rows that fit; it must have a normaliser.
    """

    name: str
    normaliser: Normaliser | None

    def score(self, shape: Shape) -> RowScore | None:
        """The question for this shape."""


@runtime_checkable
class GangScore(Protocol):
    """For scores: how good are idle cards for a gang that gets them together on one node?

    Asked about nodes that can hold the whole gang, and multiplied by the plugin's weight at Score.
    These points, and how full the node is afterwards, decide the node's order among the others.
    """

    def gang_score(self, count: int) -> RowScore:
        """The question for `count` cards: points of the best set of each row, (k,)."""


@runtime_checkable
class Permit(Protocol):
    """May this placement be committed now? Asked when a row and its cards are chosen.

    Members of a gang are asked about one after the other once all have a place, each after Reserve
    plugins were called for those before it. Also asked before a place is reserved for a pod that
    waits.
    """

    name: str

    def permit(self, pod: Pod, node: NodeName) -> str | None:
        """None for yes; else a sentence why not. The pod is then tried again after a backoff."""


@runtime_checkable
class Reserve(Protocol):
    """Is called for every placement of a pod of this scheduler, and when it ends.

    Not for places that are only tried. If one member of a gang is refused, `unreserve` is called
    for those that were charged before it.

    Pods that were bound before this process started are included: `allocation` is then read from
    the pod, and None if the pod has none that can be read.
    """

    name: str

    def reserve(self, pod: Pod, node: NodeName, allocation: Allocation | None) -> None:
        """The ledger was charged for the pod."""

    def unreserve(self, pod: Pod, node: NodeName) -> None:
        """The pod's charge was taken back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPlacement:
    """A charged placement whose Binding is not sent yet.

    `choice` says which volumes the pod's claims are to get; None if there is nothing to do for
    them. `written` are the writes that were performed for this placement, in order.
    """

    choice: VolumeChoice | None = None
    written: tuple[ObjectWrite, ...] = ()


@dataclass(frozen=True, slots=True)
class Ready:
    """Nothing is left to do before the Binding, as far as this plugin is concerned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The Binding has to wait.

    `sentence` says what for, as words that follow "waits for". `writes` are to be performed; each
    is performed once. `on` are the objects whose next change makes the plugin be asked again; it is
    also asked when a write was performed, and when the pod's node changed. `for_s` is the longest
    time (s) since the plugin first answered Wait about this placement, and `late` the sentence with
    which the placement then ends.
    """

    sentence: str
    writes: tuple[ObjectWrite, ...] = ()
    on: tuple[ObjectRef, ...] = ()
    for_s: float = 600.0
    late: str = "context deadline exceeded"


@dataclass(frozen=True, slots=True)
class Rejected:
    """The placement must end, and the pod is tried again after a backoff. `sentence` says why."""

    sentence: str


PreBindAnswer = Ready | Wait | Rejected
READY = Ready()


@runtime_checkable
class PreBind(Protocol):
    """What is left to do in the cluster before a placement's Binding may be sent?

    Asked once the pod is charged and permitted, and again as the last answer says; the Binding is
    sent once all such plugins are ready. They are asked in order, a plugin only while those before
    it are ready. The answer must follow from the arguments alone: a scheduler that starts anew
    places the pod again, and finds in the cluster what was done.

    The Bindings of a gang's members that are placed together wait for all of them. If the placement
    of one ends, the others' end with it.
    """

    name: str

    def pre_bind(self, pod: Pod, row: Rows, placement: PendingPlacement) -> PreBindAnswer:
        """What is left to do for this pod on the only node of `row`.

        The pod is among the charges of the row.
        """


@runtime_checkable
class QueueingHint(Protocol):
    """For filters: could this row, which just improved, fit the shape? Asked before the question.

    kube-scheduler's QueueingHint. It must be cheap and must never return False for a row that fits;
    returning True for one that does not only costs time.
    """

    def queueing_hint(self, shape: Shape, row: Rows) -> bool:
        """False only if the shape certainly does not fit the row, the only one of `row`."""


@runtime_checkable
class Locality(Protocol):
    """How near each other should the members of a gang be? At most one plugin per profile.

    Asked for gangs whose pods claim cards. If no plugin answers, scores alone decide.
    """

    name: str

    def places(self) -> tuple[str, ...]:
        """The node labels of topology domains, from the widest domain to the narrowest.

        The gang gets the narrowest domain that can hold all of it; a node is narrower than all of
        them.
        """


#: More pods than any node ever has; sums over all nodes stay far below 2**63.
MAX_PODS = 1 << 30
#: An upper bound of how many pods of the shape each row takes at once, (k,) int64.
RowHeadroom = Callable[[Rows], IntArray]


@runtime_checkable
class CapacityBound(Protocol):
    """For filters: how many pods of one shape could a row take at once?

    Saves attempts to place a gang where there is certainly too little room. The bound must never be
    below what fits. Depends on the row.
    """

    def capacity_bound(self, shape: Shape) -> RowHeadroom | None:
        """The question for this shape; None if this plugin sets no bound."""


@runtime_checkable
class Explain(Protocol):
    """For filters: the amounts behind a reason, asked only for people.

    An answer must follow from the shape and from what is read of the row: it is given for every
    row with the same values there (`scheduling/explain/node_verdicts`).
    """

    def explain(self, shape: Shape, row: Rows) -> Iterable[Shortfall]:
        """What the shape lacks on the only row of `row`: how much is asked and how much is free."""
