"""CardFilter: all cards of a claim near one NUMA node, for pods that ask for it."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kubeshare_plugins.gpu_fit import fits_claim
from kubeshare_plugins.gpu_model import GpuModel
from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import Rows, SomeRows
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.points import CardQuestion
from kubeshare_py.framework.reasons import ReasonTable

TOO_FEW_NEAR = "too few GPUs of one NUMA node"


class NumaBinding:
    """Leaves the cards of one NUMA node: of those with enough cards that fit, the one with fewest.

    It judges by GpuFit and GpuModel; of other card filters it does not know. Cards of which nobody
    says where they are do not count. Where too few fit altogether, others say so.
    """

    name = "NumaBinding"

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardQuestion | None:
        """Only for claims that ask for it."""
        claim = shape.claim
        if claim is None or not claim.one_numa_node:
            return None
        mask = reasons.register(self.name, TOO_FEW_NEAR)

        def fits(rows: Rows) -> NDArray[np.bool_]:
            fitting = _fitting(shape, claim, rows)
            allowed: NDArray[np.bool_] = rows.column("numa") == _nearest(claim, fitting, rows)
            few: NDArray[np.bool_] = fitting.sum(1, keepdims=True) < claim.count
            return allowed | few

        return CardQuestion(fits, lambda rows: np.where(fits(rows), 0, mask))

    def explain(self, shape: Shape, ledger: Ledger, row: int) -> Iterator[Shortfall]:
        """How many cards fit near the NUMA node that has most of them."""
        claim = shape.claim
        if claim is None or not claim.one_numa_node:
            return
        rows = SomeRows(ledger.columns, np.array([row]))
        fitting = _fitting(shape, claim, rows)
        numa = rows.column("numa")[fitting]
        most = max(np.unique(numa[numa >= 0], return_counts=True)[1].tolist(), default=0)
        if most < claim.count <= fitting.sum():
            yield Shortfall(
                reason=TOO_FEW_NEAR, resource="gpu", asked=claim.count, free=most, unit="count"
            )


def _fitting(shape: Shape, claim: GpuClaim, rows: Rows) -> NDArray[np.bool_]:
    """The cards that could hold one share of the claim, wherever they are."""
    fitting = fits_claim(claim)(rows)
    model = GpuModel().card_filter(shape, ReasonTable())
    return fitting if model is None else fitting & model.fits(rows)


def _nearest(claim: GpuClaim, fitting: NDArray[np.bool_], rows: Rows) -> IntArray:
    """The NUMA node to take cards of, shape (k, 1); -2, which none is, where none has enough."""
    numa = rows.column("numa")
    chosen = np.full((len(numa), 1), -2, np.int64)
    fewest = np.full((len(numa), 1), numa.shape[1] + 1, np.int64)
    for number in np.unique(numa[numa >= 0]).tolist():
        there = (fitting & (numa == number)).sum(1, keepdims=True)
        better = (there >= claim.count) & (there < fewest)
        chosen[better], fewest[better] = number, there[better]
    return chosen
