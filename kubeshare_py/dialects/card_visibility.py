"""Which cards a pod's containers see, known from its labels when it is created.

A pod of this scheduler whose labels ask for nothing, or with a limit of 0, gets `void`. A pod that
asks gets what the scheduler will have written by the time its containers start; shares come with
the profile's back-end, whole cards need none. The labels may change until the pod is bound, but its
containers' variables may not.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kubeshare_py.dialects.sharedgpu import EXCLUSIVE, LIMIT, MEMORY, REQUEST
from kubeshare_py.domain.request import ContainerRef

#: Labels that ask for a card; one of them is enough.
ASKING = (LIMIT, REQUEST, MEMORY)
#: A limit that asks for no card, as written; also for RE2.
NO_CARDS = "^0+([.]0*)?$"
#: A request above one card, as written; also for RE2, which the API server's CEL uses.
WHOLE_CARDS = "^0*([2-9]|[1-9][0-9]+)([.][0-9]*)?$"
#: In the key of an annotation that each container has of its own.
CONTAINER = "{container}"


class CardVisibility(StrEnum):
    """Void: no card. Share: part of one card, by way of a back-end. Whole: cards of its own."""

    VOID = "void"
    SHARE = "share"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class ContainerRule:
    """A container that asks for some of this extended resource sees a share or whole cards.

    One that asks for `whole_from` units or more sees whole cards; 0 is no such number. It also gets
    `variables`, which are (name, key of an annotation) pairs, unless it has variables of these
    names; `{container}` in a key stands for its kind and number, such as `container-0`. Without
    `init_containers` the rule concerns no init container, sidecars included.

    The webhook and the chart's admission policy follow the same rules; a policy knows no other part
    of a dialect. Invariant: not VOID, and whole_from is not negative, else ValueError.
    """

    resource: str
    sees: CardVisibility
    whole_from: int = 0
    variables: tuple[tuple[str, str], ...] = ()
    init_containers: bool = True

    def __post_init__(self) -> None:
        if self.sees is CardVisibility.VOID:
            raise ValueError(f"{self.resource}: containers without a rule see no card")
        if self.whole_from < 0:
            raise ValueError(f"{self.resource}: whole_from {self.whole_from} is negative")

    def concerns(self, container: ContainerRef) -> bool:
        """Whether a container of this kind can meet the rule."""
        return self.init_containers or not container.init

    def seen(self, amount: int) -> CardVisibility:
        """The cards that a container with this amount of `resource` sees; VOID for no amount."""
        if amount <= 0:
            return CardVisibility.VOID
        is_whole = 0 < self.whole_from <= amount
        return CardVisibility.WHOLE if is_whole else self.sees

    def keys_of(self, container: ContainerRef) -> tuple[tuple[str, str], ...]:
        """The variables of one container, sorted."""
        own = str(container)
        return tuple((name, key.replace(CONTAINER, own)) for name, key in sorted(self.variables))


def card_visibility(labels: Mapping[str, str]) -> CardVisibility:
    """The reach of a pod with these labels."""
    is_alone = labels.get(EXCLUSIVE) == "true"
    asks = is_alone or any(label in labels for label in ASKING)
    if not asks or re.search(NO_CARDS, labels.get(LIMIT, "")):
        return CardVisibility.VOID
    return (
        CardVisibility.WHOLE
        if is_alone or re.search(WHOLE_CARDS, labels.get(REQUEST, ""))
        else CardVisibility.SHARE
    )
