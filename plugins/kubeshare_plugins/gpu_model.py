"""CardFilter: only cards of the models that the pod accepts."""

from collections.abc import Iterator

import numpy as np

from kubeshare_py.framework.claim_fit import is_choosy
from kubeshare_py.plugin import (
    CardPredicate,
    GpuClaim,
    IntArray,
    ModelTable,
    ReasonTable,
    Rows,
    Shape,
    Shortfall,
)


class GpuModel:
    """A model in a label must equal the collector's model string, with spaces as dashes.

    Preferred models are parts of such a string (`PreferredModels`). A denied model stays denied,
    whatever else the pod accepts.
    """

    name = "GpuModel"
    only_for = (
        "claim.models",
        "claim.preferred",
    )

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardPredicate | None:
        """No question for claims that accept any model."""
        claim = shape.claim
        if claim is None or not is_choosy(claim):
            return None
        preferred, accepted = claim.preferred, _accepted(claim)
        other = denied = 0
        if accepted:
            text = f"no GPU of model {accepted}"
            other = reasons.register(self.name, text, resolvable=False)
        if preferred is not None and preferred.denied:
            text = f"GPU of a denied model ({', '.join(preferred.denied)})"
            denied = reasons.register(self.name, text, resolvable=False)

        def mask_of(model: str) -> int:
            if claim.takes(model):
                return 0
            return denied if preferred is not None and preferred.denies(model) else other

        # An empty slot must not be a nearer miss than a card of another model.
        masks = ModelTable(mask_of, empty=denied or other)

        def reasons_of(rows: Rows) -> IntArray:
            # A node without cards has a nearer reason than a missing model.
            any_card = (rows.model > 0).any(1, keepdims=True)
            return np.where(any_card, masks.of(rows), 0)

        return CardPredicate(lambda rows: reasons_of(rows) == 0, reasons_of)

    def explain(self, shape: Shape, row: Rows) -> Iterator[Shortfall]:
        """Each card of another model; one line if all are."""
        claim = shape.claim
        if claim is None or not is_choosy(claim):
            return
        codes, names = row.models()
        models = [names[code] for code in codes[0].tolist()]
        others = sorted({model for model in models if model and not claim.takes(model)})
        if others and not any(model and claim.takes(model) for model in models):
            described = " and ".join(_described(claim, model) for model in others)
            yield Shortfall(reason=f"its GPUs are {described}")
            return
        for uuid, model in zip(row.uuids[0], models, strict=False):
            if model in others:
                yield Shortfall(reason=f"is a {_described(claim, model)}", subject=uuid)


def _accepted(claim: GpuClaim) -> str:
    """The models that the claim accepts, as words; empty for any."""
    preferred, exact = claim.preferred, " or ".join(claim.models)
    parts = " or ".join(part for tier in preferred.tiers for part in tier) if preferred else ""
    if exact and parts and not all(claim.takes(model) for model in claim.models):
        return f"{exact} that is also {parts}"
    return exact or parts


def _described(claim: GpuClaim, model: str) -> str:
    denied = claim.preferred is not None and claim.preferred.denies(model)
    return f"{model} (denied)" if denied else model
