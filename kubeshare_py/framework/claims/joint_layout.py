"""How several claims of one pod may share the cards of a node: what is tried, and in which code.

Claims that ask alike are of one kind. The ways to use one card say how many units of each kind it
takes. A state says how many units of each kind have a card, as one number: the sum of the counts,
each times the kind's `step`. Adding a way's `code` to a state gives the next one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from kubeshare_py.domain.request import CardRelation, GpuClaim

#: Beyond so many states, or ways to use one card, placements are not searched exhaustively.
MAX_STATES, MAX_WAYS = 256, 128
_PAIR = 2
#: Exhaustive searches are promised up to so many claims; see `ClaimLayout.inexact`.
MAX_CLAIMS = 8


@dataclass(frozen=True, slots=True)
class Kind:
    """Units that are placed alike; each takes one card.

    `asks` are indices of distinct claims, of which one unit takes a share each. `claims` are the
    pod's claims, by index: each of them gets one of the units or, if `in_common`, all of them. One
    card takes at most `most` units.
    """

    asks: tuple[int, ...]
    claims: tuple[int, ...]
    units: int
    most: int
    in_common: bool


@dataclass(frozen=True, slots=True)
class Way:
    """A way to use one card: `counts` units of each kind, and the same as (kind, count) `parts`.

    `code` leads from one state to the next. `states` is the set of states from which it is
    possible, a bit for each. `is_shared`: several shares are put on the card.
    """

    counts: tuple[int, ...]
    parts: tuple[tuple[int, int], ...]
    code: int
    states: int
    is_shared: bool


@dataclass(frozen=True, slots=True)
class ClaimLayout:
    """The kinds of a pod's claims, and the ways to use one card.

    `claims` are the pod's, `distinct` its different ones. `complete` is the state in which all
    units have a card. `inexact` says why placements are not searched exhaustively, "" if they are;
    there are no ways then.
    """

    claims: tuple[GpuClaim, ...]
    distinct: tuple[GpuClaim, ...]
    relation: CardRelation
    kinds: tuple[Kind, ...]
    ways: tuple[Way, ...]
    complete: int
    inexact: str

    @property
    def is_pair(self) -> bool:
        """Whether there are two units in all, and no unit takes several shares."""
        is_joint = self.relation is CardRelation.SAME_CARD
        return not is_joint and sum(kind.units for kind in self.kinds) == _PAIR

    def slots(self, units: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """The cards' slots, one claim after another, from those of each kind's units."""
        found: dict[int, tuple[int, ...]] = {}
        for kind, slots in zip(self.kinds, units, strict=True):
            for number, claim in enumerate(kind.claims):
                found[claim] = tuple(slots) if kind.in_common else (slots[number],)
        return tuple(slot for claim in sorted(found) for slot in found[claim])


def claim_layout(claims: Sequence[GpuClaim], relation: CardRelation) -> ClaimLayout:
    """The layout of a pod's claims."""
    distinct = tuple(dict.fromkeys(claims))
    kinds = tuple(_kinds(claims, distinct, relation))
    states = prod(kind.units + 1 for kind in kinds)
    ways: tuple[Way, ...] = ()
    if states <= MAX_STATES and _count_ways(kinds, distinct, relation) <= MAX_WAYS:
        ways = tuple(_ways(kinds, distinct, relation))
    inexact = ""
    if not ways:
        what = f"more than {MAX_CLAIMS} claims" if len(claims) > MAX_CLAIMS else "many ways"
        inexact = f"{what}: not searched exhaustively"
    return ClaimLayout(tuple(claims), distinct, relation, kinds, ways, states - 1, inexact)


def _kinds(
    claims: Sequence[GpuClaim], distinct: Sequence[GpuClaim], relation: CardRelation
) -> Iterator[Kind]:
    if relation is CardRelation.SAME_CARD:
        every = tuple(range(len(claims)))
        asks = tuple(distinct.index(claim) for claim in claims)
        yield Kind(asks, every, claims[0].count, most=1, in_common=True)
        return
    for number, claim in enumerate(distinct):
        alike = tuple(index for index, other in enumerate(claims) if other == claim)
        if claim.count == 1:
            shares = relation is CardRelation.FREE and not claim.exclusive
            most = len(alike) if shares else 1
            yield Kind((number,), alike, len(alike), most, in_common=False)
        else:
            yield from (
                Kind((number,), (index,), claim.count, most=1, in_common=True) for index in alike
            )


def _count_ways(kinds: Sequence[Kind], distinct: Sequence[GpuClaim], relation: CardRelation) -> int:
    """The number of ways, without making them."""
    if relation is not CardRelation.FREE:
        return len(kinds)
    sharing = [kind for kind in kinds if not _is_alone(kind, distinct)]
    return prod(kind.most + 1 for kind in sharing) - 1 + len(kinds) - len(sharing)


def _ways(
    kinds: Sequence[Kind], distinct: Sequence[GpuClaim], relation: CardRelation
) -> Iterator[Way]:
    steps = [prod(kind.units + 1 for kind in kinds[:number]) for number in range(len(kinds))]
    alone = [_is_alone(kind, distinct) for kind in kinds]
    for counts in product(*(range(kind.most + 1) for kind in kinds)):
        total = sum(counts)
        mixes = total > 1 and (
            relation is not CardRelation.FREE
            or any(count and one for count, one in zip(counts, alone, strict=True))
        )
        if not total or mixes:
            continue
        shares = sum(
            count * len(kind.asks) for count, kind in zip(counts, kinds, strict=True) if count
        )
        code = sum(count * step for count, step in zip(counts, steps, strict=True))
        parts = tuple((kind, count) for kind, count in enumerate(counts) if count)
        yield Way(counts, parts, code, _states_before(kinds, counts), shares > 1)


def _is_alone(kind: Kind, distinct: Sequence[GpuClaim]) -> bool:
    """Whether its units share their cards with no other unit."""
    return any(distinct[number].exclusive for number in kind.asks)


def _states_before(kinds: Sequence[Kind], counts: Sequence[int]) -> int:
    """The states in which so many units of each kind have no card yet, a bit for each."""
    found, step = 1, 1
    for kind, count in zip(kinds, counts, strict=True):
        found = sum(found << placed * step for placed in range(kind.units - count + 1))
        step *= kind.units + 1
    return found
