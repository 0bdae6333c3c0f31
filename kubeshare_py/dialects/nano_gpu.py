"""nano-gpu and elastic-gpu as a dialect: containers ask for percents and memory of cards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kubeshare_py.dialects.card_visibility import CardVisibility, ContainerRule
from kubeshare_py.dialects.dialect import (
    ContainerAmounts,
    Dialect,
    OwnedKeys,
    PlacedNode,
    PodAsk,
    ResultKeys,
    Words,
)
from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import DecisionToken, card_at
from kubeshare_py.domain.pod import NodeRule
from kubeshare_py.domain.printable import beginning
from kubeshare_py.domain.quantity import (
    CARD_INDEX,
    CARDS_OF_NODE,
    CLAIMED_CARDS,
    HELD_BYTES,
    POD_CLAIMS,
)
from kubeshare_py.domain.request import ContainerClaim, GpuClaim, GpuRequest, InvalidRequest

# The spellings of nano-gpu's resources and annotations, each of which its users still write.
#
# Sources: README.md and pkg/types of github.com/elastic-ai/elastic-gpu-scheduler, formerly
# nano-gpu/nano-gpu-scheduler: v0.1 has `nano-gpu.io`, v0.2 and v0.3 `nano-gpu`, those of March 2022
# `elastic-gpu`, later ones `elasticgpu.io`.


#: Units of core that are one card, in every generation.
CARD_CORE = 100
#: The most characters of the name in a key of an annotation.
MAX_NAME = 63
#: What `memory_unit` may be, and its bytes.
UNITS: Mapping[str, int] = {"MiB": 2**20, "GiB": 2**30}


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One spelling. `core` and `memory` are resources, `memory` "" if there is none.

    `unit` is the bytes of one unit of memory. `assumed` is the annotation and label of a placed
    pod, and `container` the beginning of the annotations that a container's name ends.
    `tells_all`: containers without a card have such an annotation too.
    """

    core: str
    memory: str = ""
    unit: int = 1
    assumed: str
    container: str
    tells_all: bool = False

    @property
    def resources(self) -> frozenset[str]:
        """The names of the resources that this spelling has."""
        return frozenset({self.core, self.memory} - {""})

    @property
    def longest(self) -> int:
        """The most characters of a container's name that its annotation has room for."""
        return MAX_NAME - len(self.container.partition("/")[2])

    @property
    def most_memory(self) -> int:
        """The most units of memory of one card."""
        return HELD_BYTES.most // self.unit


def generations(memory_unit: str) -> Sequence[Generation]:
    """All generations, the oldest first; `memory_unit` is that of `nano-gpu.io/gpu-memory`.

    Raises ValueError if it is none of `UNITS`.
    """
    if memory_unit not in UNITS:
        raise ValueError(f"memory_unit: must be {' or '.join(UNITS)}, not {memory_unit!r}")
    return (
        Generation(
            core="nano-gpu.io/gpu-core",
            memory="nano-gpu.io/gpu-memory",
            unit=UNITS[memory_unit],
            assumed="nano-gpu.io/gpu",
            container="nano-gpu.io/gpu-",
        ),
        _percent("nano-gpu"),
        _percent("elastic-gpu"),
        Generation(
            core="elasticgpu.io/gpu-core",
            memory="elasticgpu.io/gpu-memory",
            unit=UNITS["MiB"],
            assumed="elasticgpu.io/assumed",
            container="elasticgpu.io/container-",
        ),
    )


def _percent(prefix: str) -> Generation:
    return Generation(
        core=f"{prefix}/gpu-percent",
        assumed=f"{prefix}/assume",
        container=f"{prefix}/container-",
        tells_all=True,
    )


# What a pod holds that nano-gpu's own scheduler bound, by the indices in its annotations.
#
# That scheduler wrote each container's cards into an annotation, and a flag, as an annotation and
# as a label. The flag says nothing that the containers' annotations do not: it is not needed here.


#: Of a container without a card, and what a Binding writes over another's annotation.
_NO_CARDS = frozenset({"-1", ""})
_LONGEST = len(str(CARD_INDEX.most))
_SHOWN = 64


def held_before(
    pod: PodAsk, generation: Generation, claims: Sequence[ContainerClaim]
) -> Allocation | str | None:
    """What the containers hold by their annotations; a sentence if none of them can be read.

    None if the pod has no such annotation. A container without a readable one is left out of the
    allocation; the reader of that compares it with the pod's claims.
    """
    names = {one.container: one.name for one in pod.containers}
    held: list[ClaimCharge] = []
    problem = ""
    for one in claims:
        assert one.container is not None
        key = generation.container + names[one.container]
        text = pod.annotations.get(key, "")
        if text in _NO_CARDS:
            continue
        indices = _indices(text)
        if isinstance(indices, str):
            problem = problem or f"{key}: {indices}"
            continue
        held.append(
            ClaimCharge(
                container=one.container,
                cards=tuple(_charge(index, one.claim) for index in indices),
                limit_milli=one.limit_milli,
            )
        )
    if not held:
        return problem or _without_containers(pod, generation)
    cards = summed(card for charge in held for card in charge.cards)
    return Allocation(token=DecisionToken(""), cards=cards, claims=tuple(held))


def _without_containers(pod: PodAsk, generation: Generation) -> str | None:
    if pod.annotations.get(generation.assumed) != "true":
        return None
    return f'{generation.assumed}="true": no annotation {generation.container}NAME says which GPU'


def _indices(text: str) -> Sequence[int] | str:
    """The indices of different cards; what is wrong with the text if it has none."""
    parts = text.split(",", CARDS_OF_NODE.most)
    shown = beginning(text, _SHOWN)
    if not all(part.isascii() and part.isdecimal() and len(part) <= _LONGEST for part in parts):
        return f"{shown!r} is no index of a GPU"
    indices = [int(part) for part in parts]
    if len({*indices}) < len(indices):
        return f"{shown!r} names a GPU twice"
    if not all(map(CARD_INDEX.allows, indices)):
        return f"{shown!r} is no index of a GPU"
    return indices


def _charge(index: int, claim: GpuClaim) -> CardCharge:
    """Memory that goes with a share is not counted, as nano-gpu counted it."""
    return CardCharge(
        card_at(index), claim.milli, claim.memory_bytes or 0, exclusive=claim.exclusive
    )


# What containers ask for: whole cards from 100 units of core on, or a part of one card.


_MILLI_OF_CORE = WHOLE_MILLI // CARD_CORE


def generation_of(
    containers: Sequence[ContainerAmounts], generations: Sequence[Generation]
) -> Generation | InvalidRequest | None:
    """The generation in which these containers ask; None if they ask for nothing.

    An amount of 0 asks for nothing.
    """
    asked = {name for one in containers for name, amount in one.amounts if amount}
    used = [one for one in generations if asked & one.resources]
    if len(used) > 1:
        first, other = (min(asked & one.resources) for one in used[:2])
        rule = f"and resources[{other}] are two spellings of nano-gpu: a pod can only use one"
        return InvalidRequest(field=f"resources[{first}]", rule=rule)
    return used[0] if used else None


def claims_of(
    containers: Sequence[ContainerAmounts], generation: Generation
) -> tuple[ContainerClaim, ...] | InvalidRequest:
    """The claims of the containers that ask, in order."""
    claims = []
    for container in containers:
        claim = _claim(container, dict(container.amounts), generation)
        if isinstance(claim, InvalidRequest):
            return claim
        if claim is not None:
            limit = 0 if claim.exclusive else claim.milli
            claims.append(
                ContainerClaim(claim=claim, container=container.container, limit_milli=limit)
            )
    if not POD_CLAIMS.allows(len(claims)):
        rule = f"is asked for by {len(claims)} containers; at most {POD_CLAIMS.most} may"
        return InvalidRequest(field=f"resources[{generation.core}]", rule=rule)
    return tuple(claims)


def _claim(
    container: ContainerAmounts, amounts: Mapping[str, int], generation: Generation
) -> GpuClaim | InvalidRequest | None:
    core = amounts.get(generation.core, 0)
    memory = amounts.get(generation.memory, 0)
    if not core and not memory:
        return None
    if len(container.name) > generation.longest:
        return InvalidRequest(field=f"container {container.name}", rule=_name_rule(generation))
    if core >= CARD_CORE:
        return _whole_cards(core, generation)
    if memory > generation.most_memory:
        rule = f"must be at most {generation.most_memory}, in units of {generation.unit} bytes"
        return InvalidRequest(field=f"resources[{generation.memory}]", value=str(memory), rule=rule)
    # Without memory of its own, memory goes with the share.
    held = memory * generation.unit if memory else None
    return GpuClaim(milli=core * _MILLI_OF_CORE, memory_bytes=held)


def _whole_cards(core: int, generation: Generation) -> GpuClaim | InvalidRequest:
    """Memory, and what is left of core after whole cards, changes nothing."""
    count = core // CARD_CORE
    if not CLAIMED_CARDS.allows(count):
        rule = (
            f"asks for {count} GPUs; at most {CLAIMED_CARDS.most} can be asked for: the amount is"
            " hundredths of a card, without a suffix such as G or Mi"
        )
        return InvalidRequest(field=f"resources[{generation.core}]", value=str(core), rule=rule)
    return GpuClaim(count=count, milli=WHOLE_MILLI, exclusive=True)


def _name_rule(generation: Generation) -> str:
    return (
        f"has a name of more than {generation.longest} characters: the annotation"
        f" {generation.container}NAME, which says its GPU, has room for {MAX_NAME} after the slash"
    )


# nano-gpu and elastic-gpu, as a dialect.


#: The value of a placed pod's flag.
_YES = "true"
#: What stands for "no card" where containers without one have an annotation too.
_NO_CARD = "-1"


class NanoGpu(Dialect):
    """Containers ask for percents of a card and for memory by extended resources.

    Each container has its own cards, which other containers of the pod may share. The pod's notes
    are the annotations of its placement: its flag first, then those of containers.
    """

    name = "nano-gpu"
    words = Words(
        title="nano-gpu",
        documentation="https://github.com/nano-gpu/nano-gpu-scheduler",
    )
    #: Its agents' DaemonSet ran on nodes with this label.
    node_rules = (NodeRule("nvidia-device-enable", ("enable",)),)

    def __init__(self, memory_unit: str = "GiB") -> None:
        """`memory_unit` is that of `nano-gpu.io/gpu-memory`: GiB or MiB, else ValueError."""
        self._generations = generations(memory_unit)
        flags = frozenset(one.assumed for one in self._generations)
        self.owns = OwnedKeys(
            resources=frozenset().union(*(one.resources for one in self._generations))
        )
        self.container_rules = (
            *(_rule(one.core, whole_from=CARD_CORE) for one in self._generations),
            *(_rule(one.memory) for one in self._generations if one.memory),
        )
        self.result_keys = ResultKeys(
            scheduler=flags,
            prefixes=tuple(one.container for one in self._generations),
            labels=flags,
        )

    def read(self, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
        """See `claims_of`."""
        generation = generation_of(pod.containers, self._generations)
        if generation is None or isinstance(generation, InvalidRequest):
            return generation
        claims = claims_of(pod.containers, generation)
        if isinstance(claims, InvalidRequest):
            return claims
        return GpuRequest(
            claims=claims,
            dialect=self.name,
            guarantee=pod.guarantee,
            needs_port=not all(one.claim.exclusive for one in claims),
            notes=_notes(pod, generation, {str(one.container) for one in claims}),
        )

    def results(self, allocation: Allocation, node: PlacedNode) -> Mapping[str, str]:
        """Each container's cards by index, as `0` or `0,1`, and the flag of a placed pod."""
        held = {
            str(one.container): ",".join(str(node.cards[card.uuid].index) for card in one.cards)
            for one in allocation.containers
        }
        flag, *of_containers = node.notes
        return {flag[1]: _YES} | {
            key: held.get(container, _NO_CARD) for container, key in of_containers
        }

    def read_back(self, pod: PodAsk) -> Allocation | str | None:
        """See `held_before`."""
        generation = generation_of(pod.containers, self._generations)
        if not isinstance(generation, Generation):
            return None
        claims = claims_of(pod.containers, generation)
        return None if isinstance(claims, InvalidRequest) else held_before(pod, generation, claims)


def _rule(resource: str, whole_from: int = 0) -> ContainerRule:
    return ContainerRule(resource, CardVisibility.SHARE, whole_from=whole_from)


def _notes(pod: PodAsk, generation: Generation, asking: set[str]) -> tuple[tuple[str, str], ...]:
    """The flag, and the annotations of containers by `container-0` and the like."""
    told = [
        (str(one.container), generation.container + one.name)
        for one in pod.containers
        if str(one.container) in asking
        or (generation.tells_all and len(one.name) <= generation.longest)
    ]
    return (("", generation.assumed), *told)
