"""The `inventory.scaling` of a configuration: cards that give more or less than they have."""

from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.domain.bounds import CARD_TENANTS
from kubeshare_py.domain.card_scaling import CardScaling, thousandths
from kubeshare_py.domain.gpu_models import name_part

#: As `bounds.SCALING`, which is in thousandths.
_Factor = Annotated[float, Meta(ge=0.001, le=100)]


class CardScalingRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How much pods may hold of the cards of some nodes and models, and how many pods may.

    `nodes` are shell patterns of names, `models` parts of model names; empty for all. A
    `split_count` of 0 is no limit. `memory_scaling` and `cores_scaling` multiply a card's memory
    and share.
    """

    nodes: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    split_count: Annotated[int, Meta(ge=CARD_TENANTS.least, le=CARD_TENANTS.most)] = 0
    memory_scaling: _Factor = 1.0
    cores_scaling: _Factor = 1.0

    def rule(self) -> CardScaling:
        """The rule; raises ValueError, whose text begins with the field."""
        models = []
        for name in self.models:
            part = name_part(name)
            if part is None:
                raise ValueError(f"models: {name!r} is not the name of a model or words of it")
            models.append(part)
        return CardScaling(
            nodes=self.nodes,
            models=tuple(models),
            max_tenants=self.split_count,
            memory_scaling=_thousandths("memoryScaling", self.memory_scaling),
            cores_scaling=_thousandths("coresScaling", self.cores_scaling),
        )


def _thousandths(field: str, factor: float) -> int:
    try:
        return thousandths(factor)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from error
