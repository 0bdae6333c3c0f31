"""What a bound pod holds, read back from its annotations, and whether they agree."""

from collections.abc import Mapping

import msgspec

from kubeshare_py.dialects.allocation import read_allocation
from kubeshare_py.dialects.results import (
    ALLOCATION,
    GPU_UUID,
    MANAGER_PORT,
    container_cards,
    is_result,
    visible_cards,
)
from kubeshare_py.dialects.unknown_allocation import whole_cards_of
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.printable import beginning

#: The most characters of an annotation in a sentence; a list of six cards is not longer.
_MAX_SHOWN = 256
#: The end of the keys with the cards of one container.
_CARDS = ".gpu_uuid"


class ReadBack(msgspec.Struct, frozen=True, gc=False):
    """What a bound pod's annotations say that it holds.

    `problem` says why its allocation cannot be read. `allocation` is then None; or, if another
    version wrote it and its cards can be read, each of them held wholly. `mismatch` names the cards
    or the port in its containers' variables if they are not the allocation's. `difference` says
    where another scheduler's annotations and the pod's spec differ; the larger is in `allocation`.
    """

    allocation: Allocation | None = None
    problem: str = ""
    mismatch: str = ""
    difference: str = ""


NOTHING_HELD = ReadBack()


def read_back(annotations: Mapping[str, str]) -> ReadBack:
    """What a bound pod holds. Never raises."""
    text = annotations.get(ALLOCATION)
    held = read_allocation(text) if text else None
    if not isinstance(held, str):
        return ReadBack(held, "", _mismatch(annotations, held))
    whole = whole_cards_of(text or "")
    return ReadBack(whole, f"{ALLOCATION}: {held}", _mismatch(annotations, whole))


def _mismatch(annotations: Mapping[str, str], held: Allocation | None) -> str:
    """The first annotation that is not as the allocation says, with both values; "" if none."""
    ours = {GPU_UUID: "" if held is None else visible_cards(held.cards)}
    if held is not None and held.claims:
        ours |= container_cards(held)
    for key in annotations:
        if key.endswith(_CARDS) and key not in ours and is_result(key):
            ours[key] = ""
    for key, cards in ours.items():
        told = annotations.get(key, "")
        if told != cards:
            return f"{key} says {_shown(told)}, the allocation {_shown(cards)}"
    port = annotations.get(MANAGER_PORT, "")
    if not port or held is None or port == str(held.port):
        return ""
    return f"{MANAGER_PORT} says {_shown(port)}, the allocation {held.port or 'nothing'}"


def _shown(text: str) -> str:
    return beginning(text, _MAX_SHOWN) if text else "nothing"
