"""What a pod holds that nano-gpu's own scheduler bound, by the indices in its annotations.

That scheduler wrote each container's cards into an annotation, and a flag, as an annotation and as
a label. The flag says nothing that the containers' annotations do not: it is not needed here.
"""

from collections.abc import Sequence

from kubeshare_py.dialects.dialect import PodAsk
from kubeshare_py.dialects.nano_gpu.generations import Generation
from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.bounds import CARD_INDEX, CARDS_OF_NODE
from kubeshare_py.domain.identity import DecisionToken, card_at
from kubeshare_py.domain.printable import beginning
from kubeshare_py.domain.request import ContainerClaim, GpuClaim

#: Of a container without a card, and what a Binding writes over another's annotation.
_NO_CARD = frozenset({"-1", ""})
_LONGEST = len(str(CARD_INDEX.most))
_SHOWN = 64


def held_before(
    pod: PodAsk, generation: Generation, claims: Sequence[ContainerClaim]
) -> Allocation | str | None:
    """What the containers hold by their annotations; a sentence if none of them can be read.

    None if the pod has no such annotation. A container without a readable one is left out of the
    allocation; the reader of that compares it with the pod's claims.
    """
    names = {one.container: one.name for one in pod.containers}
    held: list[ClaimCharge] = []
    problem = ""
    for one in claims:
        assert one.container is not None
        key = generation.container + names[one.container]
        text = pod.annotations.get(key, "")
        if text in _NO_CARD:
            continue
        indices = _indices(text)
        if isinstance(indices, str):
            problem = problem or f"{key}: {indices}"
            continue
        held.append(
            ClaimCharge(
                container=one.container,
                cards=tuple(_charge(index, one.claim) for index in indices),
                limit_milli=one.limit_milli,
            )
        )
    if not held:
        return problem or _without_containers(pod, generation)
    cards = summed(card for charge in held for card in charge.cards)
    return Allocation(token=DecisionToken(""), cards=cards, claims=tuple(held))


def _without_containers(pod: PodAsk, generation: Generation) -> str | None:
    if pod.annotations.get(generation.assumed) != "true":
        return None
    return f'{generation.assumed}="true": no annotation {generation.container}NAME says which GPU'


def _indices(text: str) -> Sequence[int] | str:
    """The indices of different cards; what is wrong with the text if it has none."""
    parts = text.split(",", CARDS_OF_NODE.most)
    shown = beginning(text, _SHOWN)
    if not all(part.isascii() and part.isdecimal() and len(part) <= _LONGEST for part in parts):
        return f"{shown!r} is no index of a GPU"
    indices = [int(part) for part in parts]
    if len({*indices}) < len(indices):
        return f"{shown!r} names a GPU twice"
    if not all(map(CARD_INDEX.allows, indices)):
        return f"{shown!r} is no index of a GPU"
    return indices


def _charge(index: int, claim: GpuClaim) -> CardCharge:
    """Memory that goes with a share is not counted, as nano-gpu counted it."""
    return CardCharge(
        card_at(index), claim.milli, claim.memory_bytes or 0, exclusive=claim.exclusive
    )
