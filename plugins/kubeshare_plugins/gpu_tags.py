"""CardFilter, CardScore and Score: cards with or without pods of the pod's own tags.

As in KubeShare 1.0, but tags are those of the pod's namespace. A pod with an affinity tag gets a
card that has a pod of this tag, or one without pods; the former are preferred, on whatever node. A
pod with an anti-affinity tag gets no card that has a pod of this tag. Exclusion tags are GpuFit's,
because the ledger enforces them.
"""

from collections.abc import Iterator, Sequence

from kubeshare_py.domain.gpu import CardTag, CardTags, TagKind
from kubeshare_py.plugin import (
    ABSENT,
    BestCards,
    CardPredicate,
    CardRank,
    GpuClaim,
    IntArray,
    Normaliser,
    NumberTable,
    ReasonTable,
    Rows,
    RowScore,
    Shape,
    Shortfall,
)

#: As `Rows.tag_counts` has them.
_Counts = tuple[tuple[CardTag, int], ...]
NO_FRIEND = "GPU without pods of the affinity tag"
RIVAL = "GPU with pods of the anti-affinity tag"
_POINTS = 100
#: As for models: more than all policies say about cards.
_A_POINT = 1000


class GpuTags:
    """No question for claims without affinity and anti-affinity tags."""

    name = "GpuTags"
    only_for = ("claim.tags",)
    normaliser: Normaliser | None = None

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardPredicate | None:
        """Cards that have pods of other tags, or lack pods of the tag."""
        claim = shape.claim
        if claim is None or not _tags(claim, TagKind.AFFINITY, TagKind.ANTI_AFFINITY):
            return None
        friends, rivals = _tags(claim, TagKind.AFFINITY), _tags(claim, TagKind.ANTI_AFFINITY)
        lonely = reasons.register(self.name, NO_FRIEND)
        crossed = reasons.register(self.name, RIVAL)
        with_friends, with_rivals = _having_all(friends), _having_any(rivals)

        def reasons_of(rows: Rows) -> IntArray:
            masks = (with_rivals.of(rows) > 0) * crossed
            if friends:
                masks |= ((with_friends.of(rows) == 0) & (rows.tenants > 0)) * lonely
            return masks

        return CardPredicate(lambda rows: reasons_of(rows) == 0, reasons_of)

    def card_score(self, shape: Shape) -> CardRank | None:
        """Cards that have a pod of the affinity tag come first."""
        claim = shape.claim
        if claim is None or not _tags(claim, TagKind.AFFINITY):
            return None
        table = _having_all(_tags(claim, TagKind.AFFINITY))
        return lambda rows: table.of(rows) * (_POINTS * _A_POINT)

    def score(self, shape: Shape) -> RowScore | None:
        """100 for a row whose best card has a pod of the affinity tag."""
        claim = shape.claim
        if claim is None or claim.count > 1 or not _tags(claim, TagKind.AFFINITY):
            return None
        table = _having_all(_tags(claim, TagKind.AFFINITY))

        def ask(rows: Rows, cards: BestCards | None) -> IntArray:
            assert cards is not None
            return cards.of(table.of(rows)) * _POINTS

        return ask

    def explain(self, shape: Shape, row: Rows) -> Iterator[Shortfall]:
        """Each card whose pods have other tags."""
        claim = shape.claim
        if claim is None or not claim.tags:
            return
        codes, values = row.tag_counts()
        for slot, uuid in enumerate(row.uuids[0]):
            if row.flags.item(0, slot) & ABSENT:
                continue
            there = {tag for tag, _ in values[codes.item(0, slot)]}
            friends = {*_tags(claim, TagKind.AFFINITY)}
            if row.tenants.item(0, slot) and not friends <= there:
                yield Shortfall(reason=NO_FRIEND, subject=uuid)
            if not there.isdisjoint(_tags(claim, TagKind.ANTI_AFFINITY)):
                yield Shortfall(reason=RIVAL, subject=uuid)


def _tags(claim: GpuClaim, *kinds: TagKind) -> CardTags:
    return tuple(tag for tag in claim.tags if tag.kind in kinds)


def _having_all(tags: CardTags) -> NumberTable[_Counts]:
    """1 for cards that have pods of each of the tags."""
    return NumberTable(_counts, lambda counts: int({*tags} <= dict(counts).keys()), first=0)


def _having_any(tags: CardTags) -> NumberTable[_Counts]:
    """1 for cards that have a pod of any of the tags."""
    return NumberTable(
        _counts, lambda counts: int(not dict(counts).keys().isdisjoint(tags)), first=0
    )


def _counts(rows: Rows) -> tuple[IntArray, Sequence[_Counts]]:
    return rows.tag_counts()
