"""The tags of a card's pods, kept in the tables as the number of pods by tag.

A value of the column `tag_set` stands for one such count; no card has the same pods for long, but
few have tagged ones. An overlay that needs a value of its own numbers it in a copy.
"""

from kubeshare_py.cluster.columns import Columns, TagCounts
from kubeshare_py.domain.card_tags import CardTags, TagKind, exclusions


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
