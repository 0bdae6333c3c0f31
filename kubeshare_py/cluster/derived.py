"""The rules by which columns follow from others, and the tags of a card's pods.

`usage_accounting` states which columns these are, and keeps them up to date.
"""

from collections.abc import Callable
from hashlib import sha256
from itertools import count
from typing import TypeVar

from kubeshare_py.cluster.columns import (
    ABSENT,
    CORDONED,
    CROWDED,
    EXCLUDING,
    EXCLUSIVE,
    FOREIGN,
    HELD_BACK,
    UNHEALTHY,
    Columns,
    IntArray,
    TagCounts,
)
from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.gpu import WHOLE_MILLI, CardTag, CardTags, TagKind, exclusions, names

# Columns that follow from others: flags, room for one more pod, and how full a node is.
#
# They are kept so that plugins can decide with one comparison. Each rule is stated once, for the
# ints of one card or node as for the int64 arrays of many: `Accounting` derives card by card after
# each change of the columns that others follow from, and `WhatIf` derives many rows at once.
# Comparisons count as 0 or 1.


#: One entry of a column of cards or nodes, or many: an int64 array of the column's shape.
Entries = TypeVar("Entries", int, IntArray)
#: The flags that charges do not change.
_LASTING = ABSENT | UNHEALTHY | CORDONED | FOREIGN


def flags_of(
    before: Entries,
    tenants: Entries,
    max_tenants: Entries,
    exclusive: Entries,
    excluding: Entries,
) -> Entries:
    """A card's flags without HELD_BACK; those that charges do not change are as `before`."""
    is_crowded = (max_tenants > 0) & (tenants >= max_tenants)
    alone = (exclusive > 0) * EXCLUSIVE | (excluding > 0) * EXCLUDING
    flags: Entries = before & _LASTING | alone | is_crowded * CROWDED
    return flags


def held_back(
    flags: Entries, idle: Entries, idle_from: Entries, idle_all: Entries, native: Entries
) -> Entries:
    """HELD_BACK for the last idle cards of a row, as many as native pods hold; else 0.

    If fewer are idle, all cards are held back. `idle_from` counts the row's idle cards from this
    one on, `idle_all` all of them, and `native` the GPUs of native pods.
    """
    is_last = (idle > 0) & (idle_from <= native)
    is_short = (idle_all < native) & (flags & ABSENT == 0)
    held: Entries = (is_last | is_short) * HELD_BACK
    return held


def room(
    flags: Entries,
    tenants: Entries,
    free_milli: Entries,
    free_bytes: Entries,
    share_bytes: Entries,
    least: Callable[[Entries, Entries | int], Entries],
) -> tuple[Entries, Entries, Entries]:
    """A card's `headroom`, `share_headroom` and `idle`; `least` is `min` or `np.minimum`.

    `share_bytes` is 1 or more, also for a card that is absent.
    """
    is_open = flags == 0
    # The largest share whose default memory is free. A pod asks for one card at most, whatever the
    # card's cores are scaled to.
    widest = ((free_bytes + 1) * WHOLE_MILLI - 1) // share_bytes
    both = least(least(free_milli, WHOLE_MILLI), widest)
    # An overdrawn card has -1, like one with flags: tables by headroom are indexed with it.
    headroom: Entries = (is_open & (both >= 0)) * (both + 1) - 1
    share_headroom: Entries = is_open * (free_milli + 1) - 1
    idle: Entries = is_open * (tenants == 0)
    return headroom, share_headroom, idle


def used_percent(
    whole: Entries, gpu_free_milli: Entries, least: Callable[[Entries, Entries | int], Entries]
) -> Entries:
    """How full a node's cards are, in percent; 0 for a node without cards.

    `whole` is `gpu_capacity_milli`.
    """
    used = least(whole, whole - gpu_free_milli)
    percent: Entries = used * 100 // (whole + (whole == 0))
    return percent


# The tags of a card's pods, kept in the tables as the number of pods by tag.
#
# A value of the column `tag_set` stands for one such count; no card has the same pods for long, but
# few have tagged ones. An overlay that needs a value of its own numbers it in a copy.


_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_NAME_LENGTH = 5


def counted(counts: TagCounts, tags: CardTags, sign: int) -> TagCounts:
    """The counts with a pod of these tags more (sign 1) or less (-1)."""
    found = dict(counts)
    for tag in tags:
        found[tag] = found.get(tag, 0) + sign
    return tuple(sorted((tag, count) for tag, count in found.items() if count))


def count_tags(columns: Columns, row: int, slot: int, tags: CardTags, sign: int) -> None:
    """Add a pod of these tags to a card (sign 1), or remove it (-1)."""
    counts = columns.tag_sets.values[columns.tag_set.item(row, slot)]
    columns.tag_set[row, slot] = columns.tag_sets.number(counted(counts, tags, sign))
    if exclusions(tags):
        columns.excluding[row, slot] = columns.excluding.item(row, slot) + sign


def pods_of(counts: TagCounts, tags: CardTags) -> int:
    """How many pods there are, if all of them have exactly these exclusion tags; -1 if not.

    Without any pods of exclusion tags it is 0: the card must then have no pods at all.
    """
    there = {tag: count for tag, count in counts if tag.kind is TagKind.EXCLUSION}
    if not there:
        return 0
    numbers = {*there.values()}
    return numbers.pop() if there.keys() == {*tags} and len(numbers) == 1 else -1


def admits(columns: Columns, row: int, slot: int, tags: CardTags) -> bool:
    """Whether exclusion tags let a pod of these tags on a card."""
    wanted = exclusions(tags)
    if not wanted:
        return not columns.excluding.item(row, slot)
    counts = columns.tag_sets.values[columns.tag_set.item(row, slot)]
    return pods_of(counts, wanted) == columns.tenants.item(row, slot)


def misnames(columns: Columns, row: int, slot: int, tags: CardTags) -> bool:
    """Whether the name in these tags is another card's of the row, or the card has another name."""
    wanted = names(tags)
    if not wanted:
        return False
    [name], there = wanted, _tags_of(columns, row, slot)
    if name in there:
        return False
    if any(_names_for(tag, name.namespace) for tag in there):
        return True
    return any(name in _tags_of(columns, row, one) for one in range(len(columns.uuids[row])))


def named(columns: Columns, row: int, slot: int, card: CardCharge, namespace: str) -> CardTag:
    """The tag with the name that this card has, or gets, for pods of a namespace.

    A new name has five lowercase letters, as KubeShare 1.0's, and follows from the card, so that
    decisions made again give it the same one.
    """
    own = names(card.tags)
    if own:
        return own[0]
    there = [tag for tag in _tags_of(columns, row, slot) if _names_for(tag, namespace)]
    if there:
        return min(there)
    taken = {
        tag
        for one in range(len(columns.uuids[row]))
        for tag in _tags_of(columns, row, one)
        if _names_for(tag, namespace)
    }
    new = (CardTag(TagKind.NAME, namespace, _letters(f"{card.uuid} {at}")) for at in count())
    return next(tag for tag in new if tag not in taken)


def _names_for(tag: CardTag, namespace: str) -> bool:
    return tag.kind is TagKind.NAME and tag.namespace == namespace


def _tags_of(columns: Columns, row: int, slot: int) -> set[CardTag]:
    return {tag for tag, _ in columns.tag_sets.values[columns.tag_set.item(row, slot)]}


def _letters(text: str) -> str:
    number, found = int.from_bytes(sha256(text.encode()).digest()), ""
    while len(found) < _NAME_LENGTH:
        number, at = divmod(number, len(_LETTERS))
        found += _LETTERS[at]
    return found
