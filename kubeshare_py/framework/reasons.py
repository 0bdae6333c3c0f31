"""Reasons as bits: a filter answers a mask per row, and each bit has a text and a plugin."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

#: Stands for the reasons of a row's cards until they are asked for. It must be 1 (see Evaluator).
NO_CARD = 1
#: Marks rows without a node. It is not a reason, and such rows are not counted.
NO_NODE = 2
#: The framework's own reasons.
TOO_FEW_GPUS = "too few GPUs"
NO_USABLE_GPU = "no usable GPU"
BINDING_REFUSED = "node(s) to which the API server refused to bind the pod"
#: Stands for the plugins whose reasons share a bit.
FRAMEWORK = "framework"
_FIRST_BIT = 2
_LAST_BIT = 61


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason why a shape does not fit.

    `resolvable`: evicting pods from the node could help. `is_of_pod`: it is about the pod, whatever
    the node, and hides what is said of nodes. `narrows`: its plugin left the node out before any
    filter was asked. `is_later`: the plugin has not looked at the node yet.
    """

    plugin: str
    text: str
    resolvable: bool
    is_of_pod: bool = False
    narrows: bool = False
    is_later: bool = False


class ReasonTable:
    """Gives each reason a bit, in the order of registration.

    Of two cards, the one whose mask has the lower value is reported as the nearer miss, so plugins
    register near misses first.
    """

    def __init__(self) -> None:
        self._rank: dict[str, int] = {}
        self._bits: dict[Reason, int] = {}
        #: Whether each reason has its own bit: masks may then be added instead of combined.
        self.distinct = True
        self._cost = 0

    @classmethod
    def ranked(cls, order: Iterable[str]) -> Self:
        """A table for a profile whose filters have these names; those of cards come after them."""
        table = cls()
        table._rank = {name: number for number, name in enumerate(order)}
        return table

    def register(self, plugin: str, text: str, *, resolvable: bool = True) -> int:
        """The mask of this reason, the same one each time; it has one bit.

        There are 60 bits. When they are used up (by dozens of extended resources), further reasons
        of the profile share the last one, and its text says so.
        """
        return self._bit_of(Reason(plugin, text, resolvable))

    def refuse(self, plugin: str, text: str) -> int:
        """The mask of a reason why the pod fits no node: kube-scheduler's PreFilter."""
        return self._bit_of(Reason(plugin, text, resolvable=False, is_of_pod=True))

    def later(self, plugin: str, text: str) -> int:
        """The mask of rows that a filter has not looked at yet, because that takes long.

        A filter that depends on the whole cluster may answer so. Where the shape fits no other row,
        the filter is asked again in the next turn of the pod's namespace, and must get further.
        """
        return self._bit_of(Reason(plugin, text, resolvable=False, is_later=True))

    def spend(self, cost: int) -> None:
        """Count what an answer cost beyond its rows: in rows, of about 0.4 µs.

        It counts toward the share of the pod's namespace.
        """
        self._cost += cost

    def take_cost(self) -> int:
        """What was spent since this was asked last, in rows."""
        cost, self._cost = self._cost, 0
        return cost

    def narrow(self, plugin: str) -> int:
        """The mask of the reason of nodes that a plugin left out: a PreFilterResult's node names.

        kube-scheduler asks no filter about such nodes (RunPreFilterPlugins in
        pkg/scheduler/framework/runtime).
        """
        text = f"node(s) didn't satisfy plugin(s) [{plugin}]"
        return self._bit_of(Reason(plugin, text, resolvable=False, narrows=True))

    def _bit_of(self, reason: Reason) -> int:
        if reason not in self._bits:
            if len(self._bits) >= _LAST_BIT - _FIRST_BIT:
                reason = Reason(FRAMEWORK, "Insufficient other resources", True)
                self.distinct = False
            self._bits.setdefault(reason, len(self._bits) + _FIRST_BIT)
        return 1 << self._bits[reason]

    @property
    def registered(self) -> int:
        """The mask of all reasons."""
        return sum(1 << bit for bit in {*self._bits.values()})

    @property
    def unresolvable(self) -> int:
        """The mask of all reasons that no eviction helps against."""
        return sum(1 << bit for reason, bit in self._bits.items() if not reason.resolvable)

    @property
    def not_yet(self) -> int:
        """The mask of all reasons that stand until rows were looked at."""
        return sum(1 << bit for reason, bit in self._bits.items() if reason.is_later)

    def of(self, mask: int) -> list[Reason]:
        """The reasons in a mask."""
        return [reason for reason, bit in self._bits.items() if mask >> bit & 1]

    def first(self, mask: int) -> list[Reason]:
        """The reasons in a mask that kube-scheduler would give.

        It asks its filters in turn, and none after the first that refuses the node. All that is
        said of a node's cards counts as one filter, the last.
        """
        found = self.of(mask)
        first = min(map(self._stands_at, found), default=0)
        return self.decisive([one for one in found if self._stands_at(one) == first])

    def decisive(self, found: list[Reason]) -> list[Reason]:
        """The reasons without what cards lack that are of no use to the pod anyhow.

        A card of another model that has no share free, too, is only of another model.
        """
        last = len(self._rank)
        of_cards = [one for one in found if self._stands_at(one) == last]
        if all(one.resolvable for one in of_cards):
            return found
        return [one for one in found if not one.resolvable or one not in of_cards]

    def first_of_pod(self, mask: int) -> Reason | None:
        """The first reason in a mask that is about the pod, whatever the node."""
        found = [one for one in self.of(mask) if one.is_of_pod]
        return min(found, key=self._stands_at, default=None)

    def _stands_at(self, reason: Reason) -> int:
        return -1 if reason.narrows else self._rank.get(reason.plugin, len(self._rank))
