"""A placement's charges: what it holds of each card, enough to rebuild the ledger exactly."""

from collections.abc import Iterable

from msgspec import Struct

from kubeshare_py.domain.card_reading import UNHELD, Isolation, IsolationBackend, Part
from kubeshare_py.domain.gpu import CardTags, names
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.quantity import HELD_BYTES
from kubeshare_py.domain.request import ContainerRef


class CardCharge(Struct, frozen=True):
    """One pod's charge of one card: a share in milli, and memory in bytes.

    An exclusive charge lets no other pod on the card, and `tags` (sorted) let only some on it. The
    model and KubeShare's cell are for people; the ledger counts by uuid. Invariant: memory_bytes is
    within its bound (`bounds`), else ValueError.
    """

    uuid: GpuUuid
    milli: int
    memory_bytes: int
    model: str = ""
    cell: str = ""
    exclusive: bool = False
    tags: CardTags = ()

    def __post_init__(self) -> None:
        if not HELD_BYTES.least <= self.memory_bytes <= HELD_BYTES.most:
            raise ValueError(f"{self.uuid}: memory {HELD_BYTES.problem(self.memory_bytes)}")

    @property
    def name(self) -> str:
        """What the pod's namespace calls the card; "" if it has no name."""
        return next((tag.word for tag in names(self.tags)), "") if self.tags else ""


class ClaimCharge(Struct, frozen=True, kw_only=True):
    """What one container holds, its cards in the order in which it sees them.

    `limit_milli` caps its GPU time on each card; 0 is no limit.
    """

    container: ContainerRef
    cards: tuple[CardCharge, ...]
    limit_milli: int = 0

    @property
    def exclusive(self) -> bool:
        """Whether all of its cards are for the pod alone."""
        return all(card.exclusive for card in self.cards)


#: The most owners of a gang that an allocation names.
MAX_OWNERS = 16


class Allocation(Struct, frozen=True, kw_only=True):
    """A pod's cards on its node, in the order in which its containers see them.

    Each card is in `cards` once, with all that the pod's containers hold of it. `claims` are the
    containers' parts, empty if all containers see all cards. `port` is the pod manager's port on
    the node, None if the pod needs none. `group` and `min_available` repeat the gang, so that a
    restarted scheduler knows how many members must start together. `group_owners` are the owners of
    the gang's members (`Pod.owner`) if there are several. `isolation` is the back-end that
    enforces the share, None if none does.
    """

    token: DecisionToken
    dialect: str = ""
    cards: tuple[CardCharge, ...] = ()
    claims: tuple[ClaimCharge, ...] = ()
    port: int | None = None
    group: str | None = None
    min_available: int = 0
    group_owners: tuple[str, ...] = ()
    isolation: Isolation | None = None

    def holds_alone(self, uuid: GpuUuid) -> bool:
        """Whether this card is for this pod alone."""
        return any(card.exclusive and card.uuid == uuid for card in self.cards)

    @property
    def containers(self) -> tuple[ClaimCharge, ...]:
        """What each container with a claim holds: once each, sorted, with its claims together.

        Empty if all containers see all cards. A container's limit is that of its claims together.
        """
        if not self.claims:
            return ()
        of: dict[ContainerRef, list[ClaimCharge]] = {}
        for claim in self.claims:
            of.setdefault(claim.container, []).append(claim)
        return tuple(
            ClaimCharge(
                container=container,
                cards=summed(card for claim in of[container] for card in claim.cards),
                limit_milli=common_limit(claim.limit_milli for claim in of[container]),
            )
            for container in sorted(of)
        )

    @property
    def memory_bytes(self) -> int:
        """The sum of the charged bytes."""
        return sum(card.memory_bytes for card in self.cards)

    @property
    def exclusive(self) -> bool:
        """Whether all of its cards are for this pod alone."""
        cards = self.cards
        if len(cards) == 1:  # nearly always
            return cards[0].exclusive
        return bool(cards) and all(card.exclusive for card in cards)

    @property
    def backend(self) -> IsolationBackend | None:
        """The back-end that enforces the pod's share of cards; None if it has none."""
        if self.exclusive or not self.cards:
            return None
        return IsolationBackend.NONE if self.isolation is None else self.isolation.backend

    @property
    def unheld(self) -> tuple[Part, ...]:
        """The parts of its share that its back-end does not enforce."""
        backend = self.backend
        return () if backend is None else UNHELD[backend]


def is_rest_of(left: Allocation, held: Allocation | None) -> bool:
    """Whether `left` is what remains of a predecessor's placement without some init containers."""
    if held is None or held.token or len(left.claims) >= len(held.claims):
        return False
    remaining = {one.container for one in left.claims}
    return left.claims == tuple(
        one for one in held.claims if one.container in remaining or not one.container.init
    ) and left.cards == summed(card for one in left.claims for card in one.cards)


def summed(charges: Iterable[CardCharge]) -> tuple[CardCharge, ...]:
    """One charge for each card, with all that is charged of it; in the order of the first ones."""
    cards: dict[GpuUuid, CardCharge] = {}
    for charge in charges:
        known = cards.get(charge.uuid)
        cards[charge.uuid] = charge if known is None else _joined(known, charge)
    return tuple(cards.values())


def common_limit(limits: Iterable[int]) -> int:
    """The limit of time, in milli, of several claims: the largest; 0 if any of them has none."""
    found = [*limits]
    return 0 if 0 in found else max(found)


def _joined(one: CardCharge, other: CardCharge) -> CardCharge:
    return CardCharge(
        one.uuid,
        one.milli + other.milli,
        one.memory_bytes + other.memory_bytes,
        one.model,
        one.cell,
        one.exclusive or other.exclusive,
        tuple(sorted({*one.tags, *other.tags})) if one.tags or other.tags else (),
    )
