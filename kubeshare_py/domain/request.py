"""What a pod asks of GPUs, in whatever dialect."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kubeshare_py.domain.gpu import (
    WHOLE_MILLI,
    CardTag,
    CardTags,
    PreferredModels,
    exclusions,
    names,
    names_model,
    part_of_bytes,
)
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.printable import beginning
from kubeshare_py.domain.quantity import (
    CLAIM_TAGS,
    CLAIMED_CARDS,
    CLAIMED_UUIDS,
    HELD_BYTES,
    HELD_MILLI,
    POD_CLAIMS,
    AmountRange,
)
from kubeshare_py.domain.quota import QuotaNames

# How a pod wishes its node and cards to be chosen, in place of its profile's policies.


class Order(StrEnum):
    """What comes first. NUMA nodes by their number; a card without one comes last."""

    FULLEST = "fullest"
    EMPTIEST = "emptiest"
    HIGH_NUMA = "high NUMA"
    LOW_NUMA = "low NUMA"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementPolicy:
    """The orders of nodes and of cards; of cards the first one counts, then the next.

    How full a card or node is, is the sum of three parts that are taken: of the pods that it may
    have, of its share, and of its memory. For cards `weights` count them, in this order. With
    `idle` only cards without pods are taken, which others may share later. With `joined` several
    cards are those that are joined best, and one is the card that others miss least.

    Invariants, else ValueError: `node` is FULLEST or EMPTIEST; weights are not negative, and one is
    above 0.
    """

    node: Order = Order.FULLEST
    cards: tuple[Order, ...] = (Order.EMPTIEST, Order.HIGH_NUMA)
    weights: tuple[int, int, int] = (1, 1, 1)
    idle: bool = False
    joined: bool = False

    def __post_init__(self) -> None:
        if self.node not in (Order.FULLEST, Order.EMPTIEST):
            raise ValueError(f"node: {self.node} is no order of nodes")
        if min(self.weights) < 0 or not any(self.weights):
            raise ValueError(f"weights {self.weights} must not be negative, and one be above 0")


#: More than any card has, whatever its cores are scaled to.
TOO_MUCH = HELD_MILLI.most + 1

#: The most characters of a request's parts in a sentence. Kubernetes' keys have 317 at most and
#: label values 63; annotations, and a webhook's objects, may have any length.
_MAX_FIELD, _MAX_VALUE, _MAX_RULE = 400, 128, 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuClaim:
    """`count` cards of one node, each charged `milli` and memory.

    `memory_bytes` is per card; `memory_milli` asks for so many thousandths of what pods may hold of
    the card's memory, rounded down to bytes. If both are None, memory goes with the share (see
    `Gpu.share_bytes`). `models` are the accepted
    model names in full, empty for any; `preferred` has further models. An exclusive claim takes
    idle cards and shares them with no other pod. With `one_numa_node` all cards must be near the
    same NUMA node; with `one_model` all must be of one model, in a gang also those of other
    members. `tags` choose by the pods that share its cards. With `is_named` the pod gets a tag with
    the name of its card; a new name, unless pods of its namespace gave the card one. `uuids` are
    the accepted cards, empty for any, without `denied_uuids`. With `share_of` the share is one of a
    card of that model; `shares` is then the same share on other models, as (part of a name, milli)
    pairs of which the first match counts. With `card_bytes` only cards are accepted of which pods
    may hold at least the first and less than the second number of bytes in all. With `vendor` only
    cards of other vendors than NVIDIA are accepted, and `preferred` says which.

    Invariants, else ValueError: 0 <= milli <= 1000, and memory_milli likewise; count and
    memory_bytes are within their bounds (`quantity`); memory is asked for in one way at most; an
    exclusive claim has no share_of; card_bytes is no empty range; UUIDs are sorted, each is there
    once, and their number is within its bound. So with tags, of which one at most is an exclusion
    and one a name. A claim that is named, or names its card, is of one card.
    """

    count: int = 1
    milli: int
    memory_bytes: int | None = None
    memory_milli: int | None = None
    models: tuple[str, ...] = ()
    exclusive: bool = False
    one_numa_node: bool = False
    preferred: PreferredModels | None = None
    one_model: bool = False
    tags: CardTags = ()
    is_named: bool = False
    uuids: tuple[GpuUuid, ...] = ()
    denied_uuids: tuple[GpuUuid, ...] = ()
    share_of: str = ""
    shares: tuple[tuple[str, int], ...] = ()
    card_bytes: tuple[int, int] | None = None
    vendor: str = ""

    def __post_init__(self) -> None:
        if not CLAIMED_CARDS.allows(self.count):
            raise ValueError(f"count {CLAIMED_CARDS.problem(self.count)}")
        if not 0 <= self.milli <= WHOLE_MILLI:
            raise ValueError(f"milli {self.milli} must be within 0…{WHOLE_MILLI}")
        if self.memory_bytes is not None and not HELD_BYTES.allows(self.memory_bytes):
            raise ValueError(f"memory_bytes {HELD_BYTES.problem(self.memory_bytes)}")
        if self.memory_milli is not None and not 0 <= self.memory_milli <= WHOLE_MILLI:
            raise ValueError(f"memory_milli {self.memory_milli} must be within 0…{WHOLE_MILLI}")
        if self.memory_bytes is not None and self.memory_milli is not None:
            raise ValueError("memory is asked for in bytes or as a part of the card, not both")
        if self.uuids or self.denied_uuids or self.tags:
            self._check_lists()
        if self.count > 1 and (self.is_named or self.name is not None):
            raise ValueError("a card with a name is claimed alone")
        if self.share_of and self.exclusive:
            raise ValueError("an exclusive claim takes whole cards, whatever their model")
        if self.card_bytes is not None and self.card_bytes[0] >= self.card_bytes[1]:
            raise ValueError(f"card_bytes {self.card_bytes} is an empty range")

    def _check_lists(self) -> None:
        lists: tuple[tuple[str, tuple[Any, ...], AmountRange], ...] = (
            ("uuids", self.uuids, CLAIMED_UUIDS),
            ("denied_uuids", self.denied_uuids, CLAIMED_UUIDS),
            ("tags", self.tags, CLAIM_TAGS),
        )
        for name, listed, bound in lists:
            if [*listed] != sorted({*listed}):
                raise ValueError(f"{name} must be sorted, and each must be there once")
            if not bound.allows(len(listed)):
                raise ValueError(f"the number of {name} {bound.problem(len(listed))}")
        if len(exclusions(self.tags)) > 1:
            raise ValueError("tags: one exclusion at most")
        if len(names(self.tags)) > 1:
            raise ValueError("tags: one name at most")

    @property
    def exclusion(self) -> CardTags:
        """Its exclusion tag, alone; empty if it has none."""
        return exclusions(self.tags) if self.tags else ()

    @property
    def name(self) -> CardTag | None:
        """The tag that names its card; None if it has none."""
        return next(iter(names(self.tags)), None) if self.tags else None

    @property
    def asks_memory(self) -> bool:
        """Whether it asks for memory itself, so that none goes with its share."""
        return self.memory_bytes is not None or self.memory_milli is not None

    def charged_milli(self, capacity_milli: int, model: str) -> int:
        """The milli charged on a card of this model and capacity: all of it if exclusive."""
        return capacity_milli if self.exclusive else self.milli_on(model)

    def milli_on(self, model: str) -> int:
        """The share of a card of this model, in milli; TOO_MUCH if a whole one is too small."""
        if not self.share_of:
            return self.milli
        milli = self._share_on(model)
        return TOO_MUCH if milli is None or milli > WHOLE_MILLI else milli

    def compares(self, model: str) -> bool:
        """Whether the share on a card of this model is known."""
        return not self.share_of or self._share_on(model) is not None

    def _share_on(self, model: str) -> int | None:
        return next((milli for part, milli in self.shares if names_model(part, model)), None)

    def takes(self, model: str) -> bool:
        """Whether a card of this model is acceptable."""
        named = not self.models or model in self.models
        return named and (self.preferred is None or self.preferred.tier(model) is not None)

    def bytes_of(self, capacity_bytes: int, share_bytes: int, model: str) -> int:
        """The bytes charged on a card of this model.

        Pods may hold `capacity_bytes` of it, and `share_bytes` go with a whole share.
        """
        if self.exclusive:
            return capacity_bytes
        if self.memory_bytes is not None:
            return self.memory_bytes
        if self.memory_milli is not None:
            return part_of_bytes(capacity_bytes, self.memory_milli)
        return part_of_bytes(share_bytes, self.milli_on(model))


class CardRelation(StrEnum):
    """How the cards of a pod's claims relate.

    `SAME_CARD`: all claims get the same cards, so all ask for as many. `DIFFERENT_CARDS`: no card
    is given to two of them. `FREE`: they may share cards. A card that one claim has exclusively is
    never given to another claim.
    """

    FREE = "free"
    SAME_CARD = "same card"
    DIFFERENT_CARDS = "different cards"


@dataclass(frozen=True, slots=True, order=True)
class ContainerRef:
    """A container of a pod: its index in spec.initContainers (`init`) or spec.containers."""

    init: bool
    index: int

    def __str__(self) -> str:
        return f"{'init' if self.init else 'container'}-{self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerClaim:
    """A claim of one container, or of the whole pod if `container` is None.

    `limit_milli` caps GPU time on each card and does not influence placement.
    """

    claim: GpuClaim
    container: ContainerRef | None = None
    limit_milli: int = 0


@dataclass(frozen=True, slots=True)
class GuestContainer:
    """A container that sees the first `count` cards of a claim of another container, the `host`.

    It never runs together with the host, and nothing is placed or charged for it.
    """

    container: ContainerRef
    host: ContainerRef
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """A pod's claims, placed together on one node, and how the pod is to be treated.

    `guarantee` is KubeShare's priority class (True: `sharedgpu/priority` above 0). `needs_port`:
    the isolation library of a shared pod talks to a pod manager on a port of the node's pool.
    `rounded` names the labels whose value had more than three decimals and was rounded up. `notes`
    are what the dialect needs again when it writes its annotations, in a form of its own. `policy`
    goes before the profile's policies of nodes and cards. `quota` are the names of limits in
    ResourceQuotas of its namespace. `guests` are containers without a claim of their own.

    Invariants, else ValueError: the number of claims is within its bound (`quantity`), several
    claims are all of containers and of cards without names, and claims of the same cards ask for
    the same number of them, none of them exclusively.
    """

    claims: tuple[ContainerClaim, ...]
    dialect: str
    relation: CardRelation = CardRelation.FREE
    guarantee: bool = False
    needs_port: bool = False
    rounded: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    policy: PlacementPolicy | None = None
    quota: QuotaNames | None = None
    guests: tuple[GuestContainer, ...] = ()

    def __post_init__(self) -> None:
        if not POD_CLAIMS.allows(len(self.claims)):
            raise ValueError(f"the number of claims {POD_CLAIMS.problem(len(self.claims))}")
        if len(self.claims) > 1 and any(one.container is None for one in self.claims):
            raise ValueError("several claims must be of containers")
        if len(self.claims) > 1 and any(
            one.claim.is_named or one.claim.name is not None for one in self.claims
        ):
            raise ValueError("a card with a name is claimed by the pod's only claim")
        if self.relation is CardRelation.SAME_CARD and len(self.claims) > 1:
            if len({one.claim.count for one in self.claims}) > 1:
                raise ValueError("claims of the same cards must ask for the same number of them")
            if any(one.claim.exclusive for one in self.claims):
                raise ValueError("claims of the same cards must not be exclusive")

    @classmethod
    def of_pod(
        cls,
        claim: GpuClaim,
        *,
        dialect: str,
        limit_milli: int,
        guarantee: bool = False,
        needs_port: bool = False,
        rounded: tuple[str, ...] = (),
    ) -> "GpuRequest":
        """The request of a pod with one claim, whose cards all of its containers see."""
        return cls(
            claims=(ContainerClaim(claim=claim, limit_milli=limit_milli),),
            dialect=dialect,
            guarantee=guarantee,
            needs_port=needs_port,
            rounded=rounded,
        )

    @property
    def is_pod_wide(self) -> bool:
        """Whether it is one claim of the whole pod."""
        return self.claims[0].container is None

    @property
    def is_exclusive(self) -> bool:
        """Whether all of its cards are for the pod alone."""
        first, *others = self.claims
        return first.claim.exclusive and all(one.claim.exclusive for one in others)


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidRequest:
    """Why a pod's request cannot be understood: the field, its value, and the rule it breaks.

    Without a value the rule is about the field itself. The sentence has only the beginnings of long
    parts. `others` are sentences about further problems of the same pod, which it says too.
    `unread` says how to have a resource read that no profile reads, nor a device plugin alone; ""
    for other problems.
    """

    field: str
    value: str | None = None
    rule: str
    others: tuple[str, ...] = ()
    unread: str = ""

    def __str__(self) -> str:
        return "; ".join((self._sentence(), *self.others))

    def _sentence(self) -> str:
        field = beginning(self.field, _MAX_FIELD)
        rule = beginning(self.rule, _MAX_RULE)
        if self.value is None:
            return f"{field} {rule}"
        return f'{field}="{beginning(self.value, _MAX_VALUE)}": {rule}'
