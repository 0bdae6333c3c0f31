"""Which cards the name in a claim's tags admits, on each node for itself.

The card of the node that has the name, or, where the node has none, cards without pods. The ledger
refuses a second card of a name, and a second name of a card (`cluster.card_tags`).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.card_tags import CardTag
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.number_table import NumberTable


def having_name(name: CardTag) -> Callable[[Rows], NDArray[np.bool_]]:
    """Which cards have pods of this name, (k, width) bool."""
    table = NumberTable(
        Rows.tag_counts, lambda counts: int(any(tag == name for tag, _ in counts)), first=0
    )
    return lambda rows: table.of(rows) > 0


def fits_name(claim: GpuClaim) -> Callable[[Rows], NDArray[np.bool_]] | None:
    """Which cards the claim takes by their name, (k, width) bool; None if it takes all."""
    if claim.name is None:
        return None
    has_name = having_name(claim.name)

    def fits(rows: Rows) -> NDArray[np.bool_]:
        named = has_name(rows)
        found: NDArray[np.bool_] = np.where(
            named.any(1, keepdims=True), named, np.equal(rows.tenants, 0)
        )
        return found

    return fits
