"""CardFilter: all cards of a claim near one NUMA node, for pods that ask for it."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kubeshare_plugins.card_groups import chosen_group, fitting_cards, tier_points
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import Rows, SomeRows
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.points import CardQuestion
from kubeshare_py.framework.reasons import ReasonTable

TOO_FEW_NEAR = "too few GPUs of one NUMA node"


class NumaBinding:
    """Leaves the cards of one NUMA node: of those with enough cards that fit, the one with fewest.

    A pod that prefers some models gets the NUMA node with the better ones. It judges by GpuFit and
    GpuModel, and takes cards of one model where OneModel would; of other card filters it does not
    know. Cards of which nobody says where they are do not count. Where too few fit altogether,
    others say so.
    """

    name = "NumaBinding"

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardQuestion | None:
        """Only for claims that ask for it."""
        claim = shape.claim
        if claim is None or not claim.one_numa_node:
            return None
        mask = reasons.register(self.name, TOO_FEW_NEAR)
        fitting_of, points = fitting_cards(shape, claim), tier_points(claim.wish)

        def fits(rows: Rows) -> NDArray[np.bool_]:
            fitting = fitting_of(rows)
            allowed, _ = chosen_group(claim, fitting, points, rows)
            few: NDArray[np.bool_] = fitting.sum(1, keepdims=True) < claim.count
            return allowed | few

        return CardQuestion(fits, lambda rows: np.where(fits(rows), 0, mask))

    def explain(self, shape: Shape, ledger: Ledger, row: int) -> Iterator[Shortfall]:
        """How many cards fit near the NUMA node that has most of them."""
        claim = shape.claim
        if claim is None or not claim.one_numa_node:
            return
        rows = SomeRows(ledger.columns, np.array([row]))
        fitting = fitting_cards(shape, claim)(rows)
        numa = rows.column("numa")[fitting]
        most = max(np.unique(numa[numa >= 0], return_counts=True)[1].tolist(), default=0)
        if most < claim.count <= fitting.sum():
            yield Shortfall(
                reason=TOO_FEW_NEAR, resource="gpu", asked=claim.count, free=most, unit="count"
            )
