"""How the capacity of cards differs from their own size, in words: `0,1: memory 15 GiB x 1.5`."""

from collections.abc import Iterable

from kubeshare_py.domain.gpu import WHOLE_MILLI

_GIB = 1 << 30


def scaling_words(
    own_bytes: int, memory_scaling: int, cores_scaling: int, max_tenants: int = 0
) -> str:
    """What is special about a card's capacity; "" if nothing is.

    `own_bytes` is the card's own memory, and the scalings are in thousandths.
    """
    words = []
    if memory_scaling != WHOLE_MILLI:
        words.append(f"memory {own_bytes / _GIB:.4g} GiB x {memory_scaling / WHOLE_MILLI:g}")
    if cores_scaling != WHOLE_MILLI:
        words.append(f"cores x {cores_scaling / WHOLE_MILLI:g}")
    if max_tenants:
        words.append(f"at most {max_tenants:,} pod{'' if max_tenants == 1 else 's'}")
    return ", ".join(words)


def of_cards(cards: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """A text for each different wording with the labels of its cards, from (label, words) pairs."""
    labels: dict[str, list[str]] = {}
    for label, words in cards:
        if words:
            labels.setdefault(words, []).append(label)
    return tuple(f"{','.join(named)}: {words}" for words, named in labels.items())
