"""CardFilter: only cards whose UUID the pod names, and none that it denies."""

from collections.abc import Iterator

import numpy as np

from kubeshare_py.framework.claim_fit import names_cards
from kubeshare_py.plugin import (
    ABSENT,
    CardPredicate,
    IntArray,
    ReasonTable,
    Rows,
    Shape,
    Shortfall,
)

NOT_NAMED = "no GPU of a UUID that the pod names"
DENIED = "GPU of a UUID that the pod denies"


class GpuUuids:
    """A denied card stays denied, even if it is named too."""

    name = "GpuUuids"
    only_for = (
        "claim.uuids",
        "claim.denied_uuids",
    )

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardPredicate | None:
        """No question for claims that name no UUIDs."""
        claim = shape.claim
        if claim is None or not names_cards(claim):
            return None
        named = denied = 0
        if claim.uuids:
            named = reasons.register(self.name, NOT_NAMED, resolvable=False)
        if claim.denied_uuids:
            denied = reasons.register(self.name, DENIED, resolvable=False)

        def reasons_of(rows: Rows) -> IntArray:
            # A node without cards has a nearer reason; beside cards, an empty slot has none.
            absent = rows.flags & ABSENT > 0
            any_card = ~absent.all(1, keepdims=True)
            masks = ~rows.among(claim.uuids) * named if named else np.zeros_like(rows.flags)
            if denied:
                masks |= (absent | rows.among(claim.denied_uuids)) * denied
            return masks * any_card

        return CardPredicate(lambda rows: reasons_of(rows) == 0, reasons_of)

    def queueing_hint(self, shape: Shape, row: Rows) -> bool:
        """False if the row has none of the named cards."""
        claim = shape.claim
        return claim is None or not claim.uuids or not {*claim.uuids}.isdisjoint(row.uuids[0])

    def explain(self, shape: Shape, row: Rows) -> Iterator[Shortfall]:
        """Each card that is not named or is denied; one line if no card is named."""
        claim = shape.claim
        if claim is None or not names_cards(claim):
            return
        there = row.uuids[0]
        if there and claim.uuids and {*claim.uuids}.isdisjoint(there):
            yield Shortfall(reason="it has none of the GPUs that the pod names")
            return
        absent = np.flatnonzero(row.flags[0] & ABSENT).tolist()
        for slot, uuid in enumerate(there):
            if slot in absent:
                continue
            if uuid in claim.denied_uuids:
                yield Shortfall(reason="is one that the pod denies", subject=uuid)
            elif claim.uuids and uuid not in claim.uuids:
                yield Shortfall(reason="is not one that the pod names", subject=uuid)
