"""CardFilter: all cards of a claim of one model, for pods that ask for it."""

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

TOO_FEW_ALIKE = "too few GPUs of one model"


class OneModel:
    """Leaves the cards of one model: of those with enough that fit, the one that the pod prefers.

    Models that it likes equally: the one with the fewest cards there. It judges by GpuFit and
    GpuModel; of other card filters it does not know. Where too few fit altogether, others say so.
    That members of a gang get the same model is the gang's plan.
    """

    name = "OneModel"

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardQuestion | None:
        """Only for claims of several cards that ask for it."""
        claim = shape.claim
        if claim is None or not claim.one_model or claim.count == 1:
            return None
        mask = reasons.register(self.name, TOO_FEW_ALIKE)
        fitting_of, points = fitting_cards(shape, claim), tier_points(claim.wish)

        def fits(rows: Rows) -> NDArray[np.bool_]:
            fitting = fitting_of(rows)
            allowed, _ = chosen_group(claim, fitting, points, rows)
            few: NDArray[np.bool_] = fitting.sum(1, keepdims=True) < claim.count
            return allowed | few

        return CardQuestion(fits, lambda rows: np.where(fits(rows), 0, mask))

    def explain(self, shape: Shape, ledger: Ledger, row: int) -> Iterator[Shortfall]:
        """How many cards fit of the model that has most of them."""
        claim = shape.claim
        if claim is None or not claim.one_model or claim.count == 1:
            return
        rows = SomeRows(ledger.columns, np.array([row]))
        fitting = fitting_cards(shape, claim)(rows)
        codes = rows.column("model")[fitting]
        most = max(np.unique(codes, return_counts=True)[1].tolist(), default=0)
        if most < claim.count <= fitting.sum():
            yield Shortfall(
                reason=TOO_FEW_ALIKE, resource="gpu", asked=claim.count, free=most, unit="count"
            )
