"""Whether a card may take new pods: all rules; docs/inventory.md explains them."""

from collections.abc import Iterable

from kubeshare_py.domain.card_reading import CardReading, MemoryErrors, Repair

#: The driver no longer lists the card: it fell off the bus.
LOST = "lost"
#: The driver lists the card and cannot describe it.
UNREADABLE = "unreadable"
#: The driver lists the card and has no memory of it to report: the card uses the node's.
MEMORY_UNKNOWN = "memory-unknown"
#: Nothing was read for too long: what is known of the node's cards may be wrong.
STALE = "stale"
MEMORY_ERRORS = "memory-errors"
REMAP_WAITS = "remap-waits"
REMAP_FAILED = "remap-failed"
RETIREMENT_WAITS = "retirement-waits"

#: The names of faults, without driver errors (xid-79).
NAMES = (
    LOST,
    UNREADABLE,
    MEMORY_UNKNOWN,
    STALE,
    MEMORY_ERRORS,
    REMAP_WAITS,
    REMAP_FAILED,
    RETIREMENT_WAITS,
    *(f"repair-{one.value}" for one in Repair if one is not Repair.NONE),
)


def faults(card: CardReading, parent: CardReading | None, happened: Iterable[str]) -> list[str]:
    """The faults of a readable card; empty if it is healthy.

    An instance has its parent's faults too. `happened` are codes of driver errors that are still
    held against the card and are not a program's mistake.
    """
    found = [*_state(card), *(_state(parent) if parent is not None else ()), *happened]
    return sorted(set(found))


def _state(card: CardReading) -> list[str]:
    found = _memory(card.errors)
    if card.repair not in (None, Repair.NONE):
        found.append(f"repair-{card.repair}")
    return found


def _memory(errors: MemoryErrors) -> list[str]:
    return [
        name
        for name, is_wrong in (
            (MEMORY_ERRORS, errors.uncorrected),
            (REMAP_WAITS, errors.remap_waits),
            (REMAP_FAILED, errors.remap_failed),
            (RETIREMENT_WAITS, errors.retirement_waits),
        )
        if is_wrong
    ]
