"""Memory of cards that use the node's: how much of it pods may have, by model.

NVML has no memory to report for GB10 (DGX Spark) and Jetsons: their GPU uses the CPU's memory.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kubeshare_py.domain.bounds import CARD_BYTES
from kubeshare_py.domain.card_reading import CardReading, NodeReading
from kubeshare_py.domain.gpu_models import name_part, names_model

_RULE = re.compile(r"(?P<model>[^=]+)=(?P<amount>[0-9]+)(?P<unit>%|Mi|Gi)")
_UNITS = {"Mi": 2**20, "Gi": 2**30}
#: Percentages of the node's memory are rounded down to whole MiB: what a kernel keeps for itself
#: differs a little from boot to boot, and a card's capacity should not.
_STEP = 2**20
_WHOLE_PERCENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRule:
    """How much memory (bytes) pods may have of a card whose name has the words of `model`."""

    model: str
    memory_bytes: int


def memory_rules(text: str, node_bytes: int) -> tuple[MemoryRule, ...]:
    """The rules of a text such as "GB10=80%,Orin=24Gi,*=8192Mi".

    `node_bytes` is the node's memory. Raises ValueError with what is wrong as its text.
    """
    return tuple(_rule(part.strip(), node_bytes) for part in text.split(",")) if text else ()


def with_shared_memory(reading: NodeReading, rules: Sequence[MemoryRule]) -> NodeReading:
    """The reading with memory for cards that share the node's, by the first rule for their model.

    Cards whose driver reports their memory, or refuses to, keep what they have.
    """
    given = [_with_memory(card, rules) for card in reading.unreadable]
    if not any(card.memory_bytes for card in given):
        return reading
    return replace(
        reading,
        cards=(*reading.cards, *(card for card in given if card.memory_bytes)),
        unreadable=tuple(card for card in given if not card.memory_bytes),
    )


def _rule(text: str, node_bytes: int) -> MemoryRule:
    parts = _RULE.fullmatch(text)
    model = name_part(parts["model"]) if parts else None
    if parts is None or model is None:
        raise ValueError(f"{text!r} is not like GB10=80%, GB10=96Gi or GB10=8192Mi")
    amount = int(parts["amount"])
    if parts["unit"] != "%":
        memory_bytes = amount * _UNITS[parts["unit"]]
    elif amount > _WHOLE_PERCENT:
        raise ValueError(f"{text!r} is more than all of the node's memory")
    else:
        memory_bytes = node_bytes * amount // _WHOLE_PERCENT // _STEP * _STEP
    if not CARD_BYTES.allows(memory_bytes):
        raise ValueError(f"{text!r} is no amount that a card can have")
    return MemoryRule(model=model, memory_bytes=memory_bytes)


def _with_memory(card: CardReading, rules: Sequence[MemoryRule]) -> CardReading:
    if not card.shares_memory or not card.model:
        return card
    fitting = (rule.memory_bytes for rule in rules if names_model(rule.model, card.model))
    return replace(card, memory_bytes=next(fitting, 0))
