"""CardFilter: all cards of a claim near one NUMA node, for pods that ask for it."""

from collections.abc import Iterator

from kubeshare_py.framework.card_groups import in_one_group, too_few
from kubeshare_py.plugin import CardPredicate, ReasonTable, Rows, Shape, Shortfall

TOO_FEW_NEAR = "too few GPUs of one NUMA node"


class NumaBinding:
    """Leaves the cards of one NUMA node.

    Among those with enough fitting cards, the one with the fewest.

    A pod that prefers some models gets the NUMA node with the better ones. Cards fit by GpuFit and
    GpuModel, and are of one model where OneModel applies; other card filters are not considered.
    Cards with an unknown NUMA node do not count. If too few cards fit altogether, another filter
    gives that reason.
    """

    name = "NumaBinding"
    only_for = ("claim.one_numa_node",)

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardPredicate | None:
        """Only for claims that ask for it."""
        claim = shape.claim
        if claim is None or not claim.one_numa_node:
            return None
        return in_one_group(claim, reasons.register(self.name, TOO_FEW_NEAR))

    def explain(self, shape: Shape, row: Rows) -> Iterator[Shortfall]:
        """How many fitting cards are near the NUMA node that has most of them."""
        claim = shape.claim
        if claim is None or not claim.one_numa_node:
            return
        yield from too_few(claim, row, row.numa, TOO_FEW_NEAR)
