"""Every extension point, in calling order, with its contract.

Names and meaning follow kube-scheduler's scheduling framework; the unit is a set of rows, not one
node. A plugin implements one or several of these small protocols; it is asked once per *shape* (all
that row-local placement depends on) for a question, and the question is then put to many rows at
once. `None` instead of a question means: this shape is none of my business, do not ask.

Answers are cached per shape and row. A plugin declares what they depend on:

- `Depends.STATIC`: the node object only (labels, taints, capacity). Asked again when that changes.
- `Depends.ROW`: anything in that node's row, charges included. Asked again when the row changes.

Answers must be the same for the same columns, must not depend on other rows, on time or on chance
(a seeded generator of the plugin's own excepted), and must not write to what they are given.

A plugin that raises, or answers what is not allowed here, lets what it was asked about wait with
"plugin X failed"; see `boundary`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.domain.preemption import Preemptor
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.topology.boards import MOST_CARDS
from kubeshare_py.topology.company import Company


class Depends(Enum):
    """What a plugin's answers depend on."""

    STATIC = "static"
    ROW = "row"


@dataclass(slots=True)
class Cards:
    """The cards of the asked rows, as CardFilter and CardScore left them, for a one-card claim.

    `slot` is each row's best card (k,), `picked` its flat index into (k, width) columns. Of rows
    none of whose cards fits, it is any card.
    """

    slot: IntArray
    picked: IntArray

    def of(self, column: IntArray) -> IntArray:
        """A card column's values at each row's best card; shape (k,)."""
        return column.ravel().take(self.picked)


#: A mask of reasons per row, 0 where the shape fits, shape (k,); None if it fits all of them.
RowFilter = Callable[[Rows], IntArray | None]


@dataclass(frozen=True, slots=True)
class CardQuestion:
    """A CardFilter's question about one shape, in two strengths.

    `fits` says which cards may hold one share of the claim, shape (k, width); it is put at every
    decision. `reasons` answers a mask per card, 0 exactly where `fits` is True; it is put when a
    pod waits and people want to know why. `least_room`, where it is not None, says that `fits` is
    exactly `room >= least_room`: then the framework may look answers up instead of asking.
    """

    fits: Callable[[Rows], NDArray[np.bool_]]
    reasons: Callable[[Rows], IntArray]
    least_room: int | None = None


#: The highest value of the column `keep`, and ranks to leave room for it between any two.
MOST_KEPT = MOST_CARDS
PLACES = MOST_KEPT + 1


@dataclass(frozen=True, slots=True)
class ByRoom:
    """A card rank that depends on nothing but the card's room: 1001 ranks, for 0 to 1000.

    With `keeps` idle cards that all ranks together do not tell apart come in the order of their
    board, by the column `keep`, whatever the weights are. Members of a gang take of such cards, of
    those in use too, what is near their gang's.
    """

    ranks: IntArray
    keeps: bool = False

    def __call__(self, rows: Rows) -> IntArray:
        """The ranks of the rows' cards; those of cards without room do not matter."""
        return self.ranks.take(rows.column("room"), mode="clip")


@dataclass(frozen=True, slots=True)
class BestSet:
    """In place of a card rank, for claims of several cards: says which are best together.

    `choose` is put to the row that was chosen and which of its cards fit, shape (width,), at least
    as many as are claimed; it answers with their slots. `near` is put instead for a member of a
    gang; without it members are chosen for as other pods are.
    """

    choose: Callable[[Rows, NDArray[np.bool_]], tuple[int, ...]]
    near: Callable[[Rows, NDArray[np.bool_], Company], tuple[int, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Among:
    """In place of a card rank, for claims of several cards: among which of them to choose.

    `leave` is put as `BestSet.choose` is, and before it; it answers with the cards that stay, at
    least as many as are claimed.
    """

    leave: Callable[[Rows, NDArray[np.bool_]], NDArray[np.bool_]]


#: 0…100 per row, higher is better; shape (k,). Cards is None when the shape claims not just one.
RowScore = Callable[[Rows, Cards | None], IntArray]
#: 0 or more per card, higher is better; shape (k, width). Ties go to the lower uuid. See ByRoom.
CardRank = Callable[[Rows], IntArray]
#: Raw scores of the rows that fit -> 0…100.
Normaliser = Callable[[IntArray], IntArray]


@runtime_checkable
class PreEnqueue(Protocol):
    """May this pod enter the queue? Asked when the pod is seen or has changed."""

    name: str

    def pre_enqueue(self, pod: Pod) -> str | None:
        """None to let it in, else a sentence: why it waits."""


@runtime_checkable
class QueueSort(Protocol):
    """Which pod first? Exactly one per profile."""

    name: str

    def key(self, pod: Pod) -> tuple[int | str, ...]:
        """Pods are tried in ascending order of this; equal ones in the order of their arrival."""


@runtime_checkable
class Filter(Protocol):
    """Does the shape fit these rows? All filters are asked, so that all reasons are known.

    Preparing the question is kube-scheduler's PreFilter: what is computed there is computed once.
    """

    name: str
    depends: Depends

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """The question for this shape."""


class Ground(Enum):
    """What placements use up."""

    NODE = "node"  # cpu, memory, pods, extended resources, ports
    CARDS = "cards"  # share, memory and tenants of cards; healthy ones only


@runtime_checkable
class Guard(Protocol):
    """For filters: lets nothing through that the ledger would refuse for want of this.

    The ledger refuses a placement that takes more than is free, whatever plugins say. Where no
    filter of a profile guards a ground, the framework's own does (`ledger_fit`), so that pods are
    tried elsewhere, or wait and are told why.
    """

    guards: Ground


@runtime_checkable
class CardFilter(Protocol):
    """Which cards of a row may hold this claim? A row fits when `count` of its cards may.

    Depends on the row. Asked only for shapes that claim GPUs.
    """

    name: str

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardQuestion | None:
        """The question for this shape."""


@runtime_checkable
class PostFilter(Protocol):
    """Nothing fits: who may be evicted to make room? Without such plugins nobody is.

    Asked once for each plan; of several plugins all must agree. The core asks only about bound pods
    of this scheduler that stay, and itself decides which of those that may go have to.
    """

    name: str

    def post_filter(self, preemptor: Preemptor) -> Callable[[Pod], bool]:
        """The question for this preemptor: does a pod give way to it?"""


def lower_priority(preemptor: Preemptor) -> Callable[[Pod], bool]:
    """Kubernetes' rule: pods of lower spec.priority give way."""
    return lambda pod: pod.priority < preemptor.priority


@runtime_checkable
class CardScore(Protocol):
    """Which of the cards that fit? Weighted sums decide; Score knows the best card of each row.

    Of a claim of several cards, the first plugin that answers with a BestSet decides alone, among
    the cards that those left which answer with Among, in their order.
    """

    name: str

    def card_score(self, shape: Shape) -> CardRank | BestSet | Among | None:
        """The question for this shape."""


@runtime_checkable
class Score(Protocol):
    """How good are these rows? Weighted sums decide; ties go to the row that was known first.

    Also put to rows that do not fit: what is answered there is ignored. `normaliser` None is the
    fast way: answers are absolute. With one, raw answers may be any integers, and every decision
    normalises over all rows that fit, which costs time in proportion to their number.
    """

    name: str
    normaliser: Normaliser | None

    def score(self, shape: Shape) -> RowScore | None:
        """The question for this shape."""


@runtime_checkable
class Together(Protocol):
    """For scores: how good are idle cards for a gang that gets them together on one node?

    Asked of nodes that hold a whole gang, and counted with the plugin's weight at score. Of these
    points and how full the node is then, its place among the others is made.
    """

    def together(self, count: int) -> RowScore:
        """The question for so many cards: of the best set of each row."""


@runtime_checkable
class Permit(Protocol):
    """May this placement be committed now? Asked once a row and its cards are chosen."""

    name: str

    def permit(self, pod: Pod, node: NodeName) -> str | None:
        """None for yes, else a sentence: why not. The pod is then tried again after a backoff."""


@runtime_checkable
class Reserve(Protocol):
    """Told of every placement of a pod of ours, and of its end, whatever the reason.

    That includes pods that were bound before this process started: `allocation` is then what the
    pod carries, None where it carries none that can be read.
    """

    name: str

    def reserve(self, pod: Pod, node: NodeName, allocation: Allocation | None) -> None:
        """The ledger was charged."""

    def unreserve(self, pod: Pod, node: NodeName) -> None:
        """The charge was taken back."""


@runtime_checkable
class Hint(Protocol):
    """For filters: could this row, which just improved, fit the shape? Asked before the question.

    Must be cheap and must never say no to a row that fits; saying yes to one that does not only
    costs time.
    """

    def may_fit(self, shape: Shape, ledger: Ledger, row: int) -> bool:
        """False only if the shape certainly does not fit the row."""


@runtime_checkable
class Locality(Protocol):
    """How near each other should the members of a gang be? At most one per profile.

    Asked for gangs whose pods want cards. Where no plugin answers, scores alone decide.
    """

    name: str

    def places(self) -> tuple[str, ...]:
        """Node labels by which nodes are near each other, from the widest place to the narrowest.

        The narrowest place that can hold a whole gang is taken; a node is narrower than all.
        """


#: More pods than any node ever has; sums over all nodes stay far within 64 bits.
MOST_PODS = 1 << 30
#: How many pods of the shape each row could take at once, at the very most; shape (k,).
RowRoom = Callable[[Rows], IntArray]


@runtime_checkable
class AtMost(Protocol):
    """For filters: how many pods of one shape could a row take at once?

    Saves trying to place a gang where there is certainly too little room, and must never say less
    than what fits. Depends on the row.
    """

    def at_most(self, shape: Shape) -> RowRoom | None:
        """The question for this shape; None if this plugin sets no bound."""


@runtime_checkable
class Explain(Protocol):
    """For filters: the numbers behind a reason, asked only for people."""

    def explain(self, shape: Shape, ledger: Ledger, row: int) -> Iterable[Shortfall]:
        """What is missing on this row: what was asked, what is there."""
