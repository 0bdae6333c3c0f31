"""Private rows on which a preemption is tried: pods are removed, and others get places."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kubeshare_py.cluster.charge import card_charges
from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.what_if import Amounts
from kubeshare_py.domain.card_tags import exclusions
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.framework.snapshot import Snapshot
from kubeshare_py.scheduling.pod_groups.gang_models import ProfileShape, kind_of
from kubeshare_py.scheduling.queue.pod_records import Record


@dataclass(slots=True, eq=False)
class TrialPlacement:
    """A pod with its place in the plan: the row's position, and its cards' slots."""

    record: Record
    position: int
    slots: tuple[int, ...]


class TrialRows:
    """Copies of some rows. A position is a row's index among them."""

    def __init__(self, snapshot: Snapshot, index: IntArray, model: str) -> None:
        """`index`, (k,) int64, are the rows of the tables to copy."""
        self.rows = snapshot.tables.what_if(index)
        self.rows.be_one_plan()
        self.everywhere = np.arange(len(index))
        self.placements: list[TrialPlacement] = []
        self._model = model
        self._ledger, self._evaluators = snapshot.ledger, snapshot.evaluators
        self._position = {row: position for position, row in enumerate(index.tolist())}

    def names(self) -> list[NodeName]:
        """The nodes of the rows, by position."""
        names = (self._ledger.columns.names[row] for row in self.rows.index.tolist())
        return [name for name in names if name is not None]

    def kind_of(self, record: Record) -> ProfileShape:
        """The profile and shape by which this pod is placed."""
        return kind_of(record, self._model)

    def positions_of(self, records: Sequence[Record]) -> set[int]:
        """The positions of these pods; pods on other rows are left out."""
        found = (self._position_of(record.node) for record in records if record.node is not None)
        return {position for position in found if position is not None}

    def take_away(self, records: Sequence[Record]) -> set[int]:
        """Remove pods from the rows; the positions that changed."""
        return self._change(records, -1)

    def put_back(self, records: Sequence[Record]) -> None:
        """Return pods that were removed."""
        self._change(records, 1)

    def _change(self, records: Sequence[Record], sign: int) -> set[int]:
        by_position: dict[int, list[PodUid]] = {}
        for record in records:
            assert record.node is not None
            position = self._position_of(record.node)
            if position is not None:
                by_position.setdefault(position, []).append(record.pod.uid)
        if by_position:
            positions = np.array(list(by_position), np.int64)
            amounts = self._ledger.amounts(list(by_position.values()))
            self.rows.add(positions, amounts, np.arange(len(positions)), sign)
            self.rows.derive(positions)
        return set(by_position)

    def _position_of(self, node: NodeName) -> int | None:
        """The position of a node; None for other rows, and for a node without a row."""
        row = self._ledger.columns.row_of.get(node)
        return None if row is None else self._position.get(row)

    # --- places --------------------------------------------------------------------------------

    def fill(
        self, kind: ProfileShape, left: list[Record], positions: IntArray, *, one_each: bool = False
    ) -> None:
        """Give pods from the front of `left` places at these positions, (k,) int64, the best first.

        `one_each`: first one pod at each position where it fits, all at once.
        """
        if not len(positions):
            return
        evaluator, shape = self._evaluators[kind[0]], kind[1]
        keys, slots = evaluator.rate(shape, self.rows.take(positions))
        if one_each and len(positions) > 1:
            fitting = np.flatnonzero(keys >= 0)[: len(left)]
            self._place(kind, left, positions[fitting], _some(slots, fitting))
            keys, slots = evaluator.rate(shape, self.rows.take(positions))
        while left:
            best = int(keys.argmax())
            if keys[best] < 0:
                return
            here = np.array([best])
            self._place(kind, left, positions[here], _some(slots, here))
            keys[here], card = evaluator.rate(shape, self.rows.take(positions[here]))
            if slots is not None and card is not None:
                slots[here] = card

    def _place(
        self, kind: ProfileShape, left: list[Record], positions: IntArray, slots: IntArray | None
    ) -> None:
        """Give the next pods these places, one each."""
        seated = []
        for number, position in enumerate(positions.tolist()):
            if slots is not None:
                chosen: tuple[int, ...] = (slots.item(number),)
            else:
                row = self.rows.take(positions[number : number + 1])
                chosen = self._evaluators[kind[0]].cards_of(kind[1], row)
            seated.append(TrialPlacement(left[number], position, chosen))
        del left[: len(seated)]
        self.occupy(seated, 1)
        self.placements += seated

    def occupy(self, seated: Sequence[TrialPlacement], sign: int) -> None:
        """Charge pods to their places (sign 1), or remove them (-1)."""
        while seated:
            # A row can be changed only once per call.
            first = {one.position: number for number, one in reversed([*enumerate(seated)])}
            now = [seated[number] for number in sorted(first.values())]
            positions = np.array([one.position for one in now], np.int64)
            self.rows.add(positions, self.amounts(now), np.arange(len(now)), sign)
            self.rows.derive(positions)
            done = set(first.values())
            seated = [one for number, one in enumerate(seated) if number not in done]

    def amounts(self, seated: Sequence[TrialPlacement]) -> Amounts:
        """What pods take at their places, one line each."""
        columns = self._ledger.columns
        amounts = Amounts.none(len(seated), columns.free.shape[1], columns.width)
        for line, one in enumerate(seated):
            _, shape = self.kind_of(one.record)
            row = self.rows.index.item(one.position)
            amounts.free[line] = self._ledger.vector(shape.charged, shape.needs_port)
            amounts.pods[line] = [one.record.pod.placed]
            # A plugin may take an empty slot for a card: such a place becomes no plan.
            uuids = columns.uuids[row]
            slots = one.slots if max(one.slots, default=0) < len(uuids) else ()
            for card in card_charges(columns, row, slots, shape.claims):
                slot = uuids.index(card.uuid)
                amounts.milli[line, slot] = card.milli
                amounts.memory[line, slot] = card.memory_bytes
                amounts.tenants[line, slot] = 1
                amounts.exclusive[line, slot] = card.exclusive
                if card.tags:
                    amounts.excluding[line, slot] = bool(exclusions(card.tags))
                    amounts.tags.setdefault(line, []).append((slot, card.tags))
        return amounts


def _some(slots: IntArray | None, index: IntArray) -> IntArray | None:
    return None if slots is None else slots[index]
