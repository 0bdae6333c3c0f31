"""CardFilter: all cards of a claim of one model, for pods that ask for it."""

from collections.abc import Iterator

from kubeshare_py.framework.card_groups import in_one_group, too_few
from kubeshare_py.plugin import CardPredicate, ReasonTable, Rows, Shape, Shortfall

TOO_FEW_ALIKE = "too few GPUs of one model"


class OneModel:
    """Leaves the cards of one model.

    Among those with enough fitting cards, the one the pod prefers.

    Among equally preferred models, the one with the fewest cards on the node. Cards fit by GpuFit
    and GpuModel; other card filters are not considered. If too few cards fit altogether, another
    filter gives that reason. The gang's plan sees to it that all members of a gang get the same
    model.
    """

    name = "OneModel"
    only_for = ("claim.one_model",)

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardPredicate | None:
        """Only for claims of several cards that ask for it."""
        claim = shape.claim
        if claim is None or not claim.one_model or claim.count == 1:
            return None
        return in_one_group(claim, reasons.register(self.name, TOO_FEW_ALIKE))

    def explain(self, shape: Shape, row: Rows) -> Iterator[Shortfall]:
        """How many fitting cards are of the model that has most of them."""
        claim = shape.claim
        if claim is None or not claim.one_model or claim.count == 1:
            return
        yield from too_few(claim, row, row.model, TOO_FEW_ALIKE)
