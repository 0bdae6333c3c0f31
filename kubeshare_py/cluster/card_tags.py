"""The tags of a card's pods, kept in the tables as the number of pods by tag.

A value of the column `tag_set` stands for one such count; no card has the same pods for long, but
few have tagged ones. An overlay that needs a value of its own numbers it in a copy.
"""

from hashlib import sha256
from itertools import count

from kubeshare_py.cluster.columns import Columns, TagCounts
from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.card_tags import CardTag, CardTags, TagKind, exclusions, names

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
