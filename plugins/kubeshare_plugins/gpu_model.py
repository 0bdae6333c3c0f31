"""CardFilter: only cards of the models that the pod names."""

from collections.abc import Iterator

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.points import CardQuestion
from kubeshare_py.framework.reasons import ReasonTable


class GpuModel:
    """Names are compared as they are: the collector's model string, spaces replaced by dashes."""

    name = "GpuModel"

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardQuestion | None:
        """Nothing to ask of claims that take any model."""
        if shape.claim is None or not shape.claim.models:
            return None
        models = shape.claim.models
        text = f"no GPU of model {' or '.join(models)}"
        mask = reasons.register(self.name, text, resolvable=False)

        def reasons_of(rows: Rows) -> IntArray:
            numbers, names = rows.models()
            refused = np.array([name not in models for name in names]).take(numbers)
            # Of a node without cards there is a nearer thing to say than that a model is missing;
            # beside cards of another model an empty slot must not be the nearer miss.
            any_card = (numbers > 0).any(1, keepdims=True)
            return np.where(refused & any_card, mask, 0)

        return CardQuestion(lambda rows: reasons_of(rows) == 0, reasons_of)

    def explain(self, shape: Shape, ledger: Ledger, row: int) -> Iterator[Shortfall]:
        """Each card of another model; just one line where all are."""
        if shape.claim is None or not shape.claim.models:
            return
        columns, wanted = ledger.columns, shape.claim.models
        models = [columns.model_names[code] for code in columns.model[row].tolist()]
        others = sorted({model for model in models if model and model not in wanted})
        if others and not any(model in wanted for model in models):
            yield Shortfall(reason=f"its GPUs are {' and '.join(others)}")
            return
        for uuid, model in zip(columns.uuids[row], models, strict=False):
            if model in others:
                yield Shortfall(reason=f"is a {model}", subject=uuid)
