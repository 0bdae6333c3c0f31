"""Overuse of a node's parts, with a sentence about each.

More of a card than it has, an exclusive card of another pod, another pod's port; and cards that
other nodes claim.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from kubeshare_py.cluster.claims import Dispute
from kubeshare_py.cluster.columns import ABSENT
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.native.native_gpus import least_cards
from kubeshare_py.cluster.reserved_places import is_intruded
from kubeshare_py.domain.effects import Overuse
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.needs.native_resources import NATIVE_GPU
from kubeshare_py.domain.node import AGENT_ANNOTATION, Node
from kubeshare_py.domain.printable import MAX_MESSAGE, beginning

#: The most pods that a text names; the others are counted.
MAX_NAMED = 8
#: The most other nodes that a text names for one card.
MAX_NODES_NAMED = 2

_NO_CARD = GpuUuid("")


class Subject(NamedTuple):
    """A card in one respect, a port, or (neither) the cards that the kubelet gives out itself.

    Or (neither) the cards that other nodes claim, of which one may name hundreds, or the words of
    the node's agent.
    """

    kind: Overuse
    uuid: GpuUuid = _NO_CARD
    port: int = 0


Found = Iterator[tuple[Subject, str]]


def overused(ledger: Ledger, node: NodeName, key_of: Callable[[PodUid], PodKey]) -> Found:
    """All overuse of a node, with a sentence about each that names the pods."""
    for subject, note in _Look(ledger, node, key_of).found():
        yield subject, beginning(note, MAX_MESSAGE)


def ended(subject: Subject) -> str:
    """The sentence for its end."""
    if subject.kind is Overuse.EXCLUSIVITY:
        return f"GPU {subject.uuid} is not shared with a pod that has it for itself any more"
    if subject.kind is Overuse.PORT:
        return f"Pod-manager port {subject.port} is one pod's at most again"
    if subject.kind is Overuse.AGENT:
        return f"The annotation {AGENT_ANNOTATION} can be used again"
    if subject.kind is Overuse.CLAIM:
        return "No other node claims cards of this one any more"
    if not subject.uuid:
        return f"There are enough cards without other pods for those that hold {NATIVE_GPU} again"
    return f"GPU {subject.uuid} is not over-committed any more"


class _Look:
    """One check of one node."""

    def __init__(self, ledger: Ledger, node: NodeName, key_of: Callable[[PodUid], PodKey]) -> None:
        self._ledger = ledger
        self._node = node
        self._key_of = key_of

    def found(self) -> Found:
        columns = self._ledger.columns
        row = columns.row_of.get(self._node)
        if row is None:
            return
        if columns.gpu_count.item(row):
            yield from self._cards(row)
        for port in self._ledger.shared_ports(self._node):
            yield Subject(Overuse.PORT, port=port), self._about_port(port)
        disputes = self._ledger.claims.disputes_of(self._node)
        if disputes:
            yield Subject(Overuse.CLAIM), self._about_disputes(disputes)
        problem = self._about_agent(columns.nodes[row])
        if problem:
            yield Subject(Overuse.AGENT), problem

    def _cards(self, row: int) -> Found:
        columns, unused = self._ledger.columns, 0
        for slot, uuid in enumerate(columns.uuids[row]):
            if columns.flags.item(row, slot) & ABSENT:
                continue
            unused += columns.tenants.item(row, slot) == columns.reservations.item(row, slot)
            held = self._held_too_much(row, slot)
            if held:
                holders = self._names(self._ledger.allocations_of(self._node, uuid))
                note = f"GPU {uuid} is over-committed: {holders} hold {held}"
                yield Subject(Overuse.AMOUNT, uuid), note
            if is_intruded(columns, row, slot):
                yield from self._exclusivity(uuid)
        native = self._ledger.native_on(row)
        least = least_cards(columns, row, native)
        if least > unused:
            there = f"only {unused} cards are without other pods: some card may be in use twice"
            what = "GPUs of device plugins" if native.parts else NATIVE_GPU
            note = f"{self._native_holders()} hold {least} {what}, but {there}"
            yield Subject(Overuse.AMOUNT), note

    def _held_too_much(self, row: int, slot: int) -> str:
        """What pods hold of a card, if that is more than it has; else "". Reservations do not
        count."""
        columns, parts = self._ledger.columns, []
        free_milli = columns.free_milli.item(row, slot) + columns.reserved_milli.item(row, slot)
        free_bytes = columns.free_bytes.item(row, slot) + columns.reserved_bytes.item(row, slot)
        if free_milli < 0:
            milli = columns.capacity_milli.item(row, slot)
            parts.append(f"{milli - free_milli} of {milli} thousandths")
        if free_bytes < 0:
            size = columns.capacity_bytes.item(row, slot)
            parts.append(f"{size - free_bytes} of {size} bytes")
        return " and ".join(parts)

    def _exclusivity(self, uuid: GpuUuid) -> Found:
        """Nothing if the card is exclusive only to a reservation."""
        held = self._ledger.allocations_of(self._node, uuid)
        alone = [uid for uid, allocation in held.items() if allocation.holds_alone(uuid)]
        others = held.keys() - set(alone)
        if not alone:
            return
        note = f"GPU {uuid} is held exclusively by {self._names(alone)}"
        note += f", but also by {self._names(others)}" if others else ", by each of them"
        yield Subject(Overuse.EXCLUSIVITY, uuid), note

    def _about_port(self, port: int) -> str:
        charges = self._ledger.charges_on(self._node).items()
        holders = [uid for uid, one in charges if one.allocation and one.allocation.port == port]
        return f"pod-manager port {port} is held by {self._names(holders)} at once"

    def _about_disputes(self, disputes: Mapping[GpuUuid, Dispute]) -> str:
        texts = []
        for uuid, dispute in [*disputes.items()][:MAX_NAMED]:
            others = [party for party in dispute.parties if party != self._node]
            named = _some(others, MAX_NODES_NAMED)
            where = "on neither" if len(others) == 1 else "on none of them"
            if dispute.keeper is not None:
                where = "here" if dispute.keeper == self._node else f"on {dispute.keeper}"
            texts.append(f"{uuid} (by {named}, counts {where})")
        return "cards are claimed by other nodes too: " + _some(texts, MAX_NAMED, len(disputes))

    def _about_agent(self, node: Node | None) -> str:
        """Why words of the node's agent do not count; "" if all of them do."""
        if node is None:
            return ""
        claims, picks = self._ledger.claims, node.agent.picks or ()
        foreign = sorted(
            {card for pick in picks for card in pick.cards if claims.is_elsewhere(card, node.name)}
        )
        if foreign:
            return f"{AGENT_ANNOTATION} names cards of other nodes: {_some(foreign, MAX_NAMED)}"
        return node.agent.problem

    def _native_holders(self) -> str:
        charges = self._ledger.charges_on(self._node).items()
        return self._names([uid for uid, one in charges if one.native.on_unknown_cards])

    def _names(self, uids: Collection[PodUid]) -> str:
        return _some(sorted(str(self._key_of(uid)) for uid in uids), MAX_NAMED)


def _some(texts: Sequence[str], most: int, count: int | None = None) -> str:
    """The first texts, and how many more there are of `count` (default: the number of texts)."""
    more = (len(texts) if count is None else count) - most
    return ", ".join(texts[:most]) + (f" and {more} more" if more > 0 else "")
