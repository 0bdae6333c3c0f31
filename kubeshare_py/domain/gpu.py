"""A physical GPU (or MIG instance) of the inventory, and arithmetic of shares.

Shares are integers in thousandths of a GPU (`milli`), memory is in bytes; there are no floats.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from fnmatch import fnmatchcase

from kubeshare_py.domain.card_reading import BusPath, ReadinessReport
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.quantity import (
    CARD_BYTES,
    CARD_INDEX,
    CARD_NAME,
    CARD_TENANTS,
    CELL_PRIORITY,
    LINK_SPEED,
    NUMA_NODE,
    SCALING,
)

WHOLE_MILLI = 1000


@dataclass(frozen=True, slots=True)
class PeerLink:
    """How a card reaches another one of its node; `peer` is the other card's index.

    It has no uuid, so that cards of equal boards have equal links. `kind` is a word of `nvidia-smi
    topo -m`; `speed` is in MB/s, both directions summed, 0 if unknown. Invariant: peer and speed
    are within their bounds (`bounds`), else ValueError.
    """

    peer: int
    kind: str
    speed: int

    def __post_init__(self) -> None:
        problem = CARD_INDEX.problem(self.peer)
        if problem:
            raise ValueError(f"a link to card {problem}")
        problem = LINK_SPEED.problem(self.speed)
        if problem:
            raise ValueError(f"a link's speed {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One card.

    `links` are those to whole cards, by their index. A MIG instance has the `parent` that it is a
    part of, and no links. None is unknown. `rdma` is what lies between the card and the nearest
    RDMA device of its node; None also if there is no device. `fabric` names the NVLink network
    beyond its node that the card belongs to, "" for none. `cell_id` and `cell_priority` are
    KubeShare's, from a cells file; "" and 0 for a card in no cell. `readiness` says which isolation
    back-ends have what they need of it, as far as known. `max_tenants` (HAMi's split count) 0 means
    no limit. `vendor` is "" for a GPU; a card of another vendor takes only claims that name one,
    and its model begins with its vendor.

    `memory_scaling` and `cores_scaling` are thousandths: the capacities that pods are charged
    against are the card's own memory and share times these. Above 1000 the card is over-committed.

    Invariants, else ValueError: uuid is not empty; it, the model and all amounts are within their
    bounds (`bounds`), and so is the scaled memory.
    """

    uuid: GpuUuid
    index: int
    model: str
    memory_bytes: int
    healthy: bool = True
    max_tenants: int = 0
    memory_scaling: int = WHOLE_MILLI
    cores_scaling: int = WHOLE_MILLI
    links: tuple[PeerLink, ...] = ()
    numa_node: int | None = None
    parent: GpuUuid | None = None
    fabric: str = ""
    cell_id: str = ""
    cell_priority: int = 0
    readiness: ReadinessReport = ()
    rdma: BusPath | None = None
    vendor: str = ""

    def __post_init__(self) -> None:
        # In one expression, because a reading creates tens of thousands of cards.
        if not (
            0 < len(self.uuid) <= CARD_NAME.most >= len(self.model)
            and 0 <= self.index <= CARD_INDEX.most
            and 0 < self.memory_bytes <= CARD_BYTES.most
            and (
                self.memory_scaling == self.cores_scaling == WHOLE_MILLI
                or (
                    SCALING.allows(self.cores_scaling)
                    and SCALING.allows(self.memory_scaling)
                    and CARD_BYTES.allows(self.capacity_bytes)
                )
            )
            and 0 <= self.max_tenants <= CARD_TENANTS.most
            and (self.numa_node is None or 0 <= self.numa_node <= NUMA_NODE.most)
            and 0 <= self.cell_priority <= CELL_PRIORITY.most
        ):
            raise ValueError(self._problem())

    @property
    def is_instance(self) -> bool:
        """Whether it is a MIG instance: sources without `parent` have NVIDIA's uuid, MIG-…"""
        return self.parent is not None or self.uuid.startswith("MIG-")

    @property
    def capacity_milli(self) -> int:
        """What pods may hold of the card in all, in thousandths of a GPU."""
        return self.cores_scaling

    @property
    def capacity_bytes(self) -> int:
        """The memory that pods may hold of the card in all, in bytes, rounded down."""
        return self.memory_bytes * self.memory_scaling // WHOLE_MILLI

    @property
    def share_bytes(self) -> int:
        """The memory that goes with a whole share: its own, or what pods may hold if that is less.

        Scaling gives room for more shares, not more memory to each.
        """
        return min(self.memory_bytes, self.capacity_bytes)

    def _problem(self) -> str:
        if not self.uuid:
            return "a GPU needs a UUID"
        shown = self.uuid[: CARD_NAME.most]
        amounts = (
            ("length of its uuid", CARD_NAME, len(self.uuid)),
            ("length of its model", CARD_NAME, len(self.model) or 1),
            ("index", CARD_INDEX, self.index),
            ("memory", CARD_BYTES, self.memory_bytes),
            ("max_tenants", CARD_TENANTS, self.max_tenants),
            ("memory scaling", SCALING, self.memory_scaling),
            ("cores scaling", SCALING, self.cores_scaling),
            ("scaled memory", CARD_BYTES, self.capacity_bytes),
            ("NUMA node", NUMA_NODE, self.numa_node or 0),
            ("cell priority", CELL_PRIORITY, self.cell_priority),
        )
        found = (
            f"{name} {bound.problem(amount)}"
            for name, bound, amount in amounts
            if not bound.allows(amount)
        )
        return f"GPU {shown}: {next(found)}"


def part_of_bytes(whole_bytes: int, milli: int) -> int:
    """So many thousandths of an amount of memory, in bytes: the exact part, rounded down."""
    return whole_bytes * milli // WHOLE_MILLI


# Names of card models as pods write them: parts of the full name, in tiers, and denied ones.


#: Stands for any letters, dashes included; alone for every model.
ANY = "*"

#: What a part of a name may consist of; RE2 reads it too. A part may be as long as a model's whole
#: name, which a label value may not: "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition MIG
#: 2g.48gb" has 67 characters.
PART = rf"[A-Za-z0-9._+/()*-]{{1,{CARD_NAME.most}}}"

_PART = re.compile(PART)
_DASHES = re.compile(r"[ -]+")
_STARS = re.compile(r"\*+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredModels:
    """The models that a pod accepts and prefers.

    `tiers` are the accepted models, best first; models of one tier are equally good. Without tiers,
    any model is accepted. `denied` models are not, even if they are in a tier. All are parts of
    names (see `names_model`).
    """

    tiers: tuple[tuple[str, ...], ...] = ()
    denied: tuple[str, ...] = ()

    def denies(self, model: str) -> bool:
        """Whether the pod excludes this model by name."""
        return any(names_model(part, model) for part in self.denied)

    def tier(self, model: str) -> int | None:
        """The index of the first tier with this model; None if it is not accepted."""
        if self.denies(model):
            return None
        if not self.tiers:
            return 0
        named = (
            number
            for number, parts in enumerate(self.tiers)
            if any(names_model(part, model) for part in parts)
        )
        return next(named, None)

    def __str__(self) -> str:
        """For people: `H100 > A100 but not MIG`."""
        tiers = " > ".join(", ".join(parts) for parts in self.tiers)
        denied = f" but not {', '.join(self.denied)}" if self.denied else ""
        return f"{tiers or 'any model'}{denied}"


def name_part(text: str) -> str | None:
    """A part of a name in the compared form: dashes for spaces, none at the ends. None if bad."""
    part = _STARS.sub(ANY, _DASHES.sub("-", text).strip("-"))
    return part if _PART.fullmatch(part) else None


def names_model(part: str, model: str) -> bool:
    """Whether this part of a name matches the model: some of its words, in a row, case ignored.

    Words are separated by dashes or spaces, and several count as one: `A100` matches
    `NVIDIA-A100-SXM4-40GB`, and `L40` does not match `NVIDIA-L40S`, though `L40*` does. The time is
    linear in the model's length and in the number of stars: each piece between stars is searched
    from the left, behind the last one.
    """
    if part == model:
        return True
    text = f"-{_DASHES.sub('-', model).strip('-').lower()}-"
    start = 0
    for piece in f"-{part.lower()}-".split(ANY):
        found = text.find(piece, start)
        if found < 0:
            return False
        start = found + len(piece)
    return True


# Tags by which pods choose the pods that they share cards with.
#
# As the tags of KubeShare 1.0's SharePods, but each namespace has tags of its own.


#: As label values, which may not be empty here; RE2 reads it too.
WORD = r"[A-Za-z0-9._-]{1,63}"
#: A tag as text: its kind, the namespace, and the word.
TAG = rf"(affinity|anti-affinity|exclusion|name)=([a-z0-9-]{{1,63}})/({WORD})"

_TAG = re.compile(TAG)


class TagKind(StrEnum):
    """What a tag asks for.

    `AFFINITY`: cards that have a pod of this tag, or no pod. `ANTI_AFFINITY`: cards without a pod
    of this tag. `EXCLUSION`: cards all of whose pods have this tag; they take no other pods then.
    `NAME`: the card of the node that has a pod of this tag; if the node has none, cards without
    pods. A card has one name of a namespace at most, and a node one card of a name.
    """

    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti-affinity"
    EXCLUSION = "exclusion"
    NAME = "name"


@dataclass(frozen=True, slots=True, order=True)
class CardTag:
    """A tag of one namespace; tags of different kinds have nothing in common.

    Invariant: as text it matches TAG, else ValueError.
    """

    kind: TagKind
    namespace: str
    word: str

    def __post_init__(self) -> None:
        if not _TAG.fullmatch(str(self)):
            raise ValueError(f"{str(self)[:128]!r} is not a tag")

    def __str__(self) -> str:
        return f"{self.kind}={self.namespace}/{self.word}"


#: Tags of one claim or of one pod's part of a card: sorted, each once.
CardTags = tuple[CardTag, ...]


def tag_of(text: str) -> CardTag:
    """The tag that is written so; raises ValueError."""
    kind, _, rest = text.partition("=")
    namespace, _, word = rest.partition("/")
    return CardTag(TagKind(kind), namespace, word)


def exclusions(tags: CardTags) -> CardTags:
    """Those of the kind EXCLUSION."""
    return tuple(tag for tag in tags if tag.kind is TagKind.EXCLUSION)


def names(tags: CardTags) -> CardTags:
    """Those of the kind NAME."""
    return tuple(tag for tag in tags if tag.kind is TagKind.NAME)


# Rules that scale the capacity of cards, and limit the pods on them, by node and model.


@dataclass(frozen=True, slots=True, kw_only=True)
class CardScaling:
    """What holds for the cards of some nodes and models.

    `nodes` are shell patterns of node names and `models` parts of model names; empty for all.
    `max_tenants` is the split count, 0 for no limit. The scalings are in thousandths.
    """

    nodes: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    max_tenants: int = 0
    memory_scaling: int = WHOLE_MILLI
    cores_scaling: int = WHOLE_MILLI

    def covers(self, node: NodeName, gpu: Gpu) -> bool:
        """Whether the rule is about this card."""
        return (not self.nodes or any(fnmatchcase(node, pattern) for pattern in self.nodes)) and (
            not self.models or any(names_model(part, gpu.model) for part in self.models)
        )


def scaled(
    rules: tuple[CardScaling, ...], node: NodeName, gpus: tuple[Gpu, ...]
) -> tuple[Gpu, ...]:
    """A node's cards, each as the first rule that covers it says."""
    return tuple(_scaled(rules, node, gpu) for gpu in gpus) if rules else gpus


def thousandths(factor: float) -> int:
    """A `factor` such as 1.5, in thousandths; raises ValueError with the rule as its text."""
    exact = Decimal(repr(factor)) * WHOLE_MILLI
    if not exact.is_finite():
        raise ValueError(f"{factor} is not a number")
    if exact != exact.to_integral_value():
        raise ValueError(f"{factor} has more than three decimals")
    if not SCALING.allows(int(exact)):
        least, most = SCALING.least / WHOLE_MILLI, SCALING.most / WHOLE_MILLI
        raise ValueError(f"{factor} is not within {least:g}…{most:g}")
    return int(exact)


def _scaled(rules: Iterable[CardScaling], node: NodeName, gpu: Gpu) -> Gpu:
    """The source's own scaling counts; of two limits of tenants the smaller does.

    Factors leave MIG instances as they are.
    """
    rule = next((rule for rule in rules if rule.covers(node, gpu)), None)
    if rule is None:
        return gpu
    limits = [limit for limit in (gpu.max_tenants, rule.max_tenants) if limit]
    memory, cores = gpu.memory_scaling, gpu.cores_scaling
    if gpu.is_instance:
        # An instance is a hardware partition, which HAMi's plugin does not scale either.
        return replace(gpu, max_tenants=min(limits, default=0))
    if memory == WHOLE_MILLI:
        # A card that would have no memory left, or more than any card may have, keeps its own.
        bytes_then = gpu.memory_bytes * rule.memory_scaling // WHOLE_MILLI
        memory = rule.memory_scaling if CARD_BYTES.allows(bytes_then) else memory
    return replace(
        gpu,
        max_tenants=min(limits, default=0),
        memory_scaling=memory,
        cores_scaling=rule.cores_scaling if cores == WHOLE_MILLI else cores,
    )
