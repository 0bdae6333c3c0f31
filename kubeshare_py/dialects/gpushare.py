"""gpushare as a dialect: containers ask for units of one card's memory by an extended resource."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.dialects.card_visibility import CONTAINER, CardVisibility, ContainerRule
from kubeshare_py.dialects.dialect import (
    ContainerAmounts,
    Dialect,
    NodeKeys,
    OwnedKeys,
    PlacedNode,
    PodAsk,
    ResultKeys,
    Words,
)
from kubeshare_py.dialects.label_numbers import integer
from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import DecisionToken, card_at
from kubeshare_py.domain.pod import NodeRule
from kubeshare_py.domain.quantity import CARD_INDEX, CARDS_OF_NODE, HELD_BYTES, POD_CLAIMS
from kubeshare_py.domain.request import (
    CardRelation,
    ContainerClaim,
    ContainerRef,
    GpuClaim,
    GpuRequest,
    InvalidRequest,
)

# The names of gpushare's resources, labels and annotations, and the sizes of its units.
#
# They are those of gpushare-scheduler-extender and gpushare-device-plugin
# (github.com/AliyunContainerService), and of Alibaba Cloud's later scheduler. Vendors rename the
# resource, and the annotations with it, so both are arguments.


RESOURCE = "aliyun.com/gpu-mem"
#: Bytes of one unit, by the names that the device plugin's flag `--memory-unit` knows.
UNITS: Mapping[str, int] = {"GiB": 2**30, "MiB": 2**20}
#: No card has so many GiB, and none so few MiB: an amount above it is of MiB.
MOST_GIB = 1024

PLACEMENT_LABEL = "ack.gpushare.placement"
WHOLE_DEVICE = "require-whole-device"

#: The later scheduler's annotations, whatever the resource is called.
ALLOCATION = "scheduler.framework.gpushare.allocation"
ASSIGNED = "scheduler.framework.gpushare.assigned"
ASSUME_TIME = "scheduler.framework.gpushare.assume-time"
CORE_PERCENTAGE = "gpushare.alibabacloud.com/core-percentage"
DEVICE_RESOURCE = "gpushare.alibabacloud.com/device-resource"

#: Ours: the units that a container has of each of its cards, behind it the container's number. The
#: downward API brings them into the container.
CONTAINER_PREFIX = "gpushare.kubeshare.io/"
OF_CONTAINER = f"{CONTAINER_PREFIX}container-"

_QUALIFIED = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_PREFIX = re.compile(r"[A-Z][A-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class GpushareKeys:
    """The names that depend on the resource.

    `prefix` is how annotations begin; "" makes it of the resource as all vendors do:
    `aliyun.com/gpu-mem` gives `ALIYUN_COM_GPU_MEM`. Invariants, else ValueError: the resource is
    the name of an extended resource, the prefix has capitals, digits and underscores.
    """

    memory: str = RESOURCE
    prefix: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.memory, str) or not _QUALIFIED.fullmatch(self.memory):
            raise ValueError(f"resource: {self.memory!r} is no name such as {RESOURCE}")
        made = self.prefix or re.sub("[^A-Z0-9]", "_", self.memory.upper())
        if not isinstance(made, str) or not _PREFIX.fullmatch(made):
            raise ValueError(f"annotations: {made!r} is no beginning such as ALIYUN_COM_GPU_MEM")
        object.__setattr__(self, "prefix", made)

    @property
    def count(self) -> str:
        """The number of cards: as a resource it says nothing, as a label it divides the memory."""
        return f"{self._domain}/gpu-count"

    @property
    def percentage(self) -> str:
        """Hundredths of a card's time."""
        return f"{self._domain}/gpu-core.percentage"

    @property
    def tflops(self) -> str:
        """Time in units that depend on the model."""
        return f"{self._domain}/gpu-core.tflops"

    @property
    def index(self) -> str:
        """The index of the pod's card."""
        return f"{self.prefix}_IDX"

    @property
    def pod(self) -> str:
        """The units of the pod."""
        return f"{self.prefix}_POD"

    @property
    def container(self) -> str:
        """The units of a container, which are a variable of it and no annotation."""
        return f"{self.prefix}_CONTAINER"

    @property
    def device(self) -> str:
        """The units of the pod's card."""
        return f"{self.prefix}_DEV"

    @property
    def assigned(self) -> str:
        """Whether the pod's containers have their card."""
        return f"{self.prefix}_ASSIGNED"

    @property
    def assume_time(self) -> str:
        """When the card was chosen, in Unix nanoseconds."""
        return f"{self.prefix}_ASSUME_TIME"

    @property
    def assign_time(self) -> str:
        """When the containers got the card, in Unix nanoseconds."""
        return f"{self.prefix}_ASSIGN_TIME"

    @property
    def _domain(self) -> str:
        return self.memory.partition("/")[0]


# What a pod holds that gpushare's own scheduler bound, by the annotations that it wrote.
#
# The second generation goes before the first, as in Alibaba Cloud's scheduler; one that cannot be
# read is passed over, as `kubectl inspect gpushare` does. Cards are named by their index.


_Index = Annotated[str, Meta(pattern=r"^(0|[1-9][0-9]{0,3})\Z")]
_Units = Annotated[int, Meta(ge=0, le=HELD_BYTES.most)]
_OfCards = Annotated[dict[_Index, _Units], Meta(max_length=CARDS_OF_NODE.most)]
_ByContainer = Annotated[dict[_Index, _OfCards], Meta(max_length=POD_CLAIMS.most)]
_ALLOCATION = msgspec.json.Decoder(_ByContainer)
_TOTALS = msgspec.json.Decoder(_OfCards)
_UNDECODABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
_TOKEN = DecisionToken("")
_MILLI_OF_PERCENT = WHOLE_MILLI // 100


def read_back(
    annotations: Mapping[str, str], keys: GpushareKeys, unit: str
) -> Allocation | str | None:
    """The cards of a bound pod by their indices; a sentence if its annotations make no sense.

    None if it has none. `unit` counts where the annotations do not tell it by a card's total.
    """
    second = _second_generation(annotations, unit)
    if isinstance(second, Allocation):
        return second
    if keys.index not in annotations:
        return second
    return _first_generation(annotations, keys)


def _first_generation(annotations: Mapping[str, str], keys: GpushareKeys) -> Allocation | str:
    read = {}
    for key in (keys.index, keys.pod, keys.device):
        number = integer(annotations.get(key, ""))
        if number is None or number < 0:
            return f"{key}: {_shown(annotations.get(key, ''))} is no number"
        read[key] = number
    index, units, total = read[keys.index], read[keys.pod], read[keys.device]
    if not CARD_INDEX.allows(index):
        return f"{keys.index}: {CARD_INDEX.problem(index)}"
    if not total:
        return f"{keys.device}: a card of 0 units"
    held = units * _unit_bytes(total)
    if not HELD_BYTES.allows(held):
        return f"{keys.pod}: {HELD_BYTES.problem(held)}"
    return Allocation(token=_TOKEN, cards=(CardCharge(card_at(index), 0, held),))


def _second_generation(annotations: Mapping[str, str], unit: str) -> Allocation | str | None:
    """None if the annotation is not there or says nothing."""
    text = annotations.get(ALLOCATION)
    if not text:
        return None
    try:
        units = _ALLOCATION.decode(text)
        totals = _TOTALS.decode(annotations.get(DEVICE_RESOURCE) or "{}")
        percent = _ALLOCATION.decode(annotations.get(CORE_PERCENTAGE) or "{}")
        largest = max(totals.values(), default=0)
        each = _unit_bytes(largest) if largest else UNITS[unit]
        claims = tuple(
            ClaimCharge(
                container=ContainerRef(False, int(container)),
                cards=tuple(
                    CardCharge(
                        card_at(int(index)),
                        percent.get(container, {}).get(index, 0) * _MILLI_OF_PERCENT,
                        amount * each,
                    )
                    for index, amount in cards.items()
                ),
            )
            for container, cards in units.items()
            if cards
        )
        cards = summed(card for claim in claims for card in claim.cards)
    except (*_UNDECODABLE, ValueError) as error:
        return f"{ALLOCATION}: {error}"
    return Allocation(token=_TOKEN, cards=cards, claims=claims) if claims else None


def _unit_bytes(total: int) -> int:
    """The bytes of a unit, by the total of a card."""
    return UNITS["GiB" if total <= MOST_GIB else "MiB"]


def _shown(text: str) -> str:
    return repr(text[:64]) if text else "nothing"


# What a pod asks for in gpushare's words.
#
# Meanings are those of gpushare-scheduler-extender: limits of containers count, those of init
# containers do not, and all containers of a pod share one card. The labels that divide the memory
# over several cards, and that demand a whole one, are those of Alibaba Cloud's later scheduler.


COUNT_RULE = f"must be a number of cards from 1 to {CARDS_OF_NODE.most}"
PLACEMENT_RULE = f'must be "{WHOLE_DEVICE}"'
ONE_CONTAINER_RULE = f"{WHOLE_DEVICE} is for pods of which one container asks"
INIT_RULE = "is only asked for by init containers, which get no GPU: ask in a container"


def read(
    pod: PodAsk, keys: GpushareKeys, unit: str, dialect: str
) -> GpuRequest | InvalidRequest | None:
    """The request of a pod; None if no container asks. `unit` is one of `UNITS`."""
    containers = [one for one in pod.containers if not one.container.init and _asks(one, keys)]
    if not containers:
        return _without_memory(pod, keys)
    cards = _cards(pod.labels, keys)
    whole = _whole_device(pod.labels, len(containers))
    for problem in (cards, whole, _kinds_problem(containers, keys)):
        if isinstance(problem, InvalidRequest):
            return problem
    assert isinstance(cards, int)
    claims = []
    for one in containers:
        claim = _claim(dict(one.amounts), keys, unit, cards, is_whole=whole is True)
        if isinstance(claim, InvalidRequest):
            return claim
        claims.append(ContainerClaim(claim=claim, container=one.container, limit_milli=claim.milli))
    return GpuRequest(
        claims=tuple(claims),
        dialect=dialect,
        relation=CardRelation.SAME_CARD,
        guarantee=pod.guarantee,
    )


def _asks(container: ContainerAmounts, keys: GpushareKeys) -> bool:
    """Whether the container asks for more than a number of cards, which alone says nothing."""
    return any(amount and name != keys.count for name, amount in container.amounts)


def _without_memory(pod: PodAsk, keys: GpushareKeys) -> InvalidRequest | None:
    """The problem of a pod that asks, but not in a way that gives it a card."""
    if any(_asks(one, keys) for one in pod.containers):
        return InvalidRequest(field=_field(keys.memory), rule=INIT_RULE)
    if any(amount for one in pod.containers for _, amount in one.amounts):
        return InvalidRequest(field=_field(keys.count), rule=f"says nothing without {keys.memory}")
    return None


def _cards(labels: Mapping[str, str], keys: GpushareKeys) -> int | InvalidRequest:
    """Over how many cards the memory is divided."""
    text = labels.get(keys.count)
    if text is None:
        return 1
    cards = integer(text)
    if cards is None or not 1 <= cards <= CARDS_OF_NODE.most:
        return InvalidRequest(field=keys.count, value=text, rule=COUNT_RULE)
    return cards


def _whole_device(labels: Mapping[str, str], containers: int) -> bool | InvalidRequest:
    """Whether the pod wants idle cards for itself."""
    text = labels.get(PLACEMENT_LABEL)
    if text is None:
        return False
    if text != WHOLE_DEVICE:
        return InvalidRequest(field=PLACEMENT_LABEL, value=text, rule=PLACEMENT_RULE)
    if containers > 1:
        return InvalidRequest(field=PLACEMENT_LABEL, rule=ONE_CONTAINER_RULE)
    return True


def _kinds_problem(containers: list[ContainerAmounts], keys: GpushareKeys) -> InvalidRequest | None:
    """All containers that ask must ask for the same: memory, or memory and time."""
    if len(containers) > POD_CLAIMS.most:
        rule = f"is asked for by {len(containers)} containers, {POD_CLAIMS.most} are allowed"
        return InvalidRequest(field=_field(keys.memory), rule=rule)
    kinds = [{name for name, amount in one.amounts if amount} for one in containers]
    for one, found in zip(containers, kinds, strict=True):
        if keys.tflops in found:
            rule = f"is not understood: ask for {keys.percentage}, hundredths of a GPU"
            return InvalidRequest(field=_field(keys.tflops), rule=rule)
        if keys.memory not in found:
            rule = f"needs {keys.memory} beside it in container {one.name}"
            return InvalidRequest(field=_field(keys.percentage), rule=rule)
        if (keys.percentage in found) != (keys.percentage in kinds[0]):
            rule = "must be asked for by all containers with a part of the GPU, or by none"
            return InvalidRequest(field=_field(keys.percentage), rule=rule)
    return None


def _claim(
    amounts: Mapping[str, int], keys: GpushareKeys, unit: str, cards: int, *, is_whole: bool
) -> GpuClaim | InvalidRequest:
    """One container's part of each of the cards."""
    each = UNITS[unit]
    units = _per_card(amounts, keys.memory, cards, MOST_GIB * UNITS["GiB"] // each, unit)
    percent = _per_card(amounts, keys.percentage, cards, 100, "percent")
    if isinstance(units, InvalidRequest):
        return units
    if isinstance(percent, InvalidRequest):
        return percent
    return GpuClaim(
        count=cards,
        milli=percent * _MILLI_OF_PERCENT,
        memory_bytes=units * each,
        exclusive=is_whole,
        card_bytes=(units * each, (units + 1) * each) if is_whole else None,
    )


def _per_card(
    amounts: Mapping[str, int], name: str, cards: int, most: int, unit: str
) -> int | InvalidRequest:
    amount = amounts.get(name, 0)
    each, rest = divmod(amount, cards)
    if rest:
        rule = f"cannot be divided by {cards} cards"
    elif each > most:
        rule = (
            f"is {each} {unit} of a card, and none has more than {most}: the amount is a number of"
            f" {unit}, without a suffix such as G or Mi"
        )
    else:
        return each
    return InvalidRequest(field=_field(name), value=str(amount), rule=rule)


def _field(resource: str) -> str:
    return f"resources.limits[{resource}]"


# The annotations by which gpushare's tools know what a pod got.
#
# The first generation (gpushare-scheduler-extender, gpushare-device-plugin and `kubectl inspect
# gpushare` of github.com/AliyunContainerService) names one card by its index. The second one
# (Alibaba Cloud's scheduler; the same `inspect` reads it first) has JSON objects by the container's
# and the card's index, and can name several cards. All amounts are units.


#: Of a pod whose containers do not have their variables yet.
_NOT_YET = "false"
#: When a device plugin gave the card: never here. No tool of gpushare reads this time.
_NEVER = "0"


def results(
    allocation: Allocation, node: PlacedNode, keys: GpushareKeys, unit_bytes: int
) -> dict[str, str]:
    """The annotations of a pod that was placed on these cards of the node.

    The first generation cannot name several cards: it then says only the amounts that containers
    know as variables, of each card. Raises KeyError for a card that is not on the node.
    """

    def units(card: CardCharge) -> int:
        return card.memory_bytes // unit_bytes

    def total(card: CardCharge) -> int:
        return node.cards[card.uuid].memory_bytes // unit_bytes

    time = str(node.decided_at_ns)
    parts = {str(one.container.index): one.cards for one in allocation.containers}
    written = {
        ALLOCATION: _text({at: _by_index(cards, node, units) for at, cards in parts.items()}),
        ASSIGNED: _NOT_YET,
        ASSUME_TIME: time,
        DEVICE_RESOURCE: _text(_by_index(allocation.cards, node, total)),
    }
    if any(card.milli for card in allocation.cards):
        written[CORE_PERCENTAGE] = _text(
            {at: _by_index(cards, node, _percent) for at, cards in parts.items()}
        )
    for at, cards in parts.items():
        written[f"{OF_CONTAINER}{at}"] = str(units(cards[0]))
    first, *others = allocation.cards
    written[keys.device] = str(min(map(total, allocation.cards)))
    written[keys.pod] = str(units(first))
    if not others:
        written |= {
            keys.index: str(node.cards[first.uuid].index),
            keys.assigned: _NOT_YET,
            keys.assume_time: time,
            keys.assign_time: _NEVER,
        }
    return written


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _percent(card: CardCharge) -> int:
    return card.milli // _MILLI_OF_PERCENT


def _by_index(
    cards: Sequence[CardCharge], node: PlacedNode, amount: Callable[[CardCharge], int]
) -> dict[str, int]:
    """Amounts by the index of their card; MIG instances of one card count together."""
    found: dict[str, int] = {}
    for card in cards:
        index = str(node.cards[card.uuid].index)
        found[index] = found.get(index, 0) + amount(card)
    return found


# In which unit a node counts the memory of its cards.


#: What `kubeshare-node-agent` says of itself, as JSON: `{"unit":{"aliyun.com/gpu-mem":"GiB"}}`.
AGENT_ANNOTATION = "kubeshare.io/node-agent"


class _SaidUnits(msgspec.Struct):
    unit: Mapping[str, str] = {}


_SAID = msgspec.json.Decoder(_SaidUnits)


def unit_of(node: NodeKeys, keys: GpushareKeys) -> str:
    """The name of the node's unit; "" if it is not known.

    The node agent says it. Another device plugin advertises all memory and the number of cards, and
    no card has as many GiB as any has MiB.
    """
    said = _said(node, keys.memory)
    if said:
        return said
    units, cards = node.offered.get(keys.memory, 0), node.offered.get(keys.count, 0)
    if not units or not cards:
        return ""
    return "MiB" if units > cards * MOST_GIB else "GiB"


def _said(node: NodeKeys, resource: str) -> str:
    text = node.annotations.get(AGENT_ANNOTATION)
    if not text:
        return ""
    try:
        said = _SAID.decode(text).unit.get(resource, "")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""
    return said if said in UNITS else ""


# gpushare as a dialect: its keys, its unit, and the parts that read and write them.


#: The account that tells containers what they got, and writes that it did.
NODE_AGENT = "kubeshare-node-agent"


class Gpushare(Dialect):
    """Containers ask for units of one card's memory: `resources.limits: {aliyun.com/gpu-mem: 3}`.

    `unit` is GiB or MiB, `resource` the memory's name, and `annotations` the beginning of the
    annotations' names, "" for that of the resource.
    """

    name = "gpushare"
    words = Words(
        title="gpushare",
        documentation="https://github.com/AliyunContainerService/gpushare-scheduler-extender",
    )

    # The device plugin of gpushare runs on nodes with this label.
    node_rules = (NodeRule("gpushare", ("true",)),)

    def __init__(self, unit: str = "GiB", resource: str = RESOURCE, annotations: str = "") -> None:
        """Raises ValueError for a unit that is not known, and for names that cannot be such."""
        if unit not in UNITS:
            raise ValueError(f"unit: {unit!r} is none of {', '.join(UNITS)}")
        own = GpushareKeys(resource, annotations)
        self._keys, self._unit = own, unit
        self.owns = OwnedKeys(
            labels=frozenset({own.count, PLACEMENT_LABEL}),
            resources=frozenset({own.memory, own.count, own.percentage, own.tflops}),
        )
        self.result_keys = ResultKeys(
            scheduler=frozenset(
                {
                    *(own.index, own.pod, own.device),
                    *(ALLOCATION, CORE_PERCENTAGE, DEVICE_RESOURCE),
                }
            ),
            device_plugin=dict.fromkeys(
                (own.assigned, own.assume_time, own.assign_time, ASSIGNED, ASSUME_TIME),
                NODE_AGENT,
            ),
            prefixes=(CONTAINER_PREFIX,),
        )
        self.marks = (f"{own.memory} in {unit}",)
        self.container_rules = (_rule(own),)

    def read(self, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
        """See `read`."""
        return read(pod, self._keys, self._unit, self.name)

    def results(self, allocation: Allocation, node: PlacedNode) -> Mapping[str, str]:
        """See `results`."""
        return results(allocation, node, self._keys, UNITS[self._unit])

    def read_back(self, pod: PodAsk) -> Allocation | str | None:
        """See `read_back`."""
        return read_back(pod.annotations, self._keys, self._unit)

    def has_mark(self, mark: str, node: NodeKeys) -> bool:
        """Whether the node counts the memory in the dialect's unit, as far as that is known."""
        return unit_of(node, self._keys) in (self._unit, "")


def _rule(keys: GpushareKeys) -> ContainerRule:
    """Containers that ask for memory see a share, and know by variables how much it is.

    Init containers are not counted, and see nothing.
    """
    return ContainerRule(
        keys.memory,
        CardVisibility.SHARE,
        variables=(
            (keys.index, keys.index),
            (keys.pod, keys.pod),
            (keys.device, keys.device),
            (keys.container, f"{CONTAINER_PREFIX}{CONTAINER}"),
        ),
        init_containers=False,
    )
