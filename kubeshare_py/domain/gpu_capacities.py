"""Relates cards of different models, so that a share of one can be had on another."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kubeshare_py.domain.gpu import WHOLE_MILLI, names_model
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.remembered import remembered


@dataclass(frozen=True, slots=True)
class Capacities:
    """(part of a name, capacity) pairs in any unit, 1 or more. The first match counts.

    Without pairs, pods cannot ask for shares of a certain model.
    """

    of_models: tuple[tuple[str, int], ...] = ()

    def of(self, model: str) -> int | None:
        """The capacity of a model; None if it has none."""
        return first_of(self.of_models, model)

    def shares(self, milli: int, model: str) -> tuple[tuple[str, int], ...] | None:
        """The same share on each other model, in milli, rounded up.

        None if the model itself has no capacity.
        """
        asked = self.of(model)
        if asked is None:
            return None
        return tuple((part, -(-milli * asked // capacity)) for part, capacity in self.of_models)

    def limit(self, milli: int, of_model: str, on_model: str) -> int:
        """A limit in milli of one model on a card of another: at most the whole card."""
        asked, there = self.of(of_model), self.of(on_model)
        if asked is None or there is None:
            return milli
        return min(WHOLE_MILLI, -(-milli * asked // there))


NO_CAPACITIES = Capacities()


def first_of(numbers: Iterable[tuple[str, int]], model: str) -> int | None:
    """The number of the first part of a name that matches the model."""
    return next((number for part, number in numbers if names_model(part, model)), None)


@remembered(4096)
def scaled(shape: Shape, capacities: Capacities) -> Shape | None:
    """The shape with its share on each model; None if the share's model has no capacity."""
    if not any(claim.share_of for claim in shape.claims):
        return shape
    claims = []
    for claim in shape.claims:
        shares = capacities.shares(claim.milli, claim.share_of) if claim.share_of else ()
        if shares is None:
            return None
        claims.append(replace(claim, shares=shares))
    return replace(shape, claims=tuple(claims))
