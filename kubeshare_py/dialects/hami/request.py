"""What a pod asks for in HAMi's words, and what HAMi's webhook adds to such a pod."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kubeshare_py.dialects.dialect import (
    NOTHING_ADDED,
    Admitted,
    ContainerAmounts,
    NewContainer,
    PodAsk,
)
from kubeshare_py.dialects.hami import annotations as names
from kubeshare_py.dialects.hami.annotations import CARD_CORES, MIB, MOST, SEED, HamiSettings
from kubeshare_py.dialects.label_numbers import integer
from kubeshare_py.domain.gpu import ANY, WHOLE_MILLI, PreferredModels, name_part
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.quantity import (
    CARD_NAME,
    CLAIMED_CARDS,
    CLAIMED_MODELS,
    CLAIMED_UUIDS,
    HELD_BYTES,
    POD_CLAIMS,
)
from kubeshare_py.domain.quota import QuotaNames
from kubeshare_py.domain.request import (
    ContainerClaim,
    ContainerRef,
    GpuClaim,
    GpuRequest,
    GuestContainer,
    InvalidRequest,
    Order,
    PlacementPolicy,
)

# What a container asks for in HAMi's resources, with the defaults that administrators configure.
#
# The rules are those of GenerateResourceRequests and MutateAdmission in pkg/device/nvidia/device.go
# of github.com/Project-HAMi/HAMi, without their silent cases: what cannot be meant is said.


PERCENT = 100
#: The most MiB of one card that HAMi's numbers and our ledger hold.
MOST_MIB = min(MOST, HELD_BYTES.most // MIB)
# The sentences for refused pods; admission policies have the same sentences (admission/hami_rules).
WITHOUT_COUNT = "asks for a part of cards, and not for how many"
COUNT_RULE = f"at most {CLAIMED_CARDS.most} GPUs can be had"
UNIT_RULE, MOST_RULE = "is a number of", "at most"
PERCENT_RULE = f"must be at most {PERCENT}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CardAmounts:
    """The amounts of each of `count` cards: MiB, or if 0 a percentage of its memory, and cores.

    Cores are hundredths of a card; with all of them the card is the pod's alone.
    """

    count: int = 1
    memory_mib: int = 0
    percent: int = 0
    cores: int = 0

    @property
    def exclusive(self) -> bool:
        """Whether no other pod may be on its cards."""
        return self.cores >= CARD_CORES

    def mib_of(self, capacity_bytes: int) -> int:
        """The MiB of a card of which pods may hold so much; 1 at least, as 0 means no limit."""
        asked = self.memory_mib or capacity_bytes // MIB * self.percent // PERCENT
        return max(asked, 1)


def amounts_of(
    container: ContainerAmounts, settings: HamiSettings
) -> CardAmounts | InvalidRequest | None:
    """The container's part of each of its cards; None if it asks for nothing."""
    asked = dict(container.amounts)
    count = _count(asked, settings)
    if not count:
        part = next((name for name in parts_of(settings) if asked.get(name)), None)
        return None if part is None else _invalid(part, asked[part], WITHOUT_COUNT)
    problem = _problem(asked, count, settings)
    if problem is not None:
        return problem
    memory = asked.get(settings.memory, 0) * settings.memory_factor
    percent = asked.get(settings.memory_percentage, 0)
    if not memory and not percent:
        memory = settings.default_memory
    cores = asked.get(settings.cores, settings.default_cores)
    if settings.profile != SEED and is_alone_by_default(asked, settings):
        cores = CARD_CORES
    return CardAmounts(
        count=count,
        memory_mib=memory,
        percent=0 if memory else percent or PERCENT,
        cores=min(cores, CARD_CORES),
    )


def parts_of(settings: HamiSettings) -> tuple[str, ...]:
    """The resources that are parts of a card."""
    return settings.memory, settings.memory_percentage, settings.cores


def is_alone_by_default(asked: Mapping[str, int], settings: HamiSettings) -> bool:
    """Whether cores that the container does not ask for are all of them."""
    if settings.cores in asked:
        return False
    if settings.memory_percentage in asked:
        return asked[settings.memory_percentage] == PERCENT
    return settings.memory not in asked


def _count(asked: Mapping[str, int], settings: HamiSettings) -> int:
    """The number of cards; the configured one for a container that asks for parts alone."""
    if settings.count in asked:
        return asked[settings.count]
    has_part = any(name in asked for name in parts_of(settings))
    return settings.default_gpu_num if has_part and settings.profile != SEED else 0


def _problem(asked: Mapping[str, int], count: int, settings: HamiSettings) -> InvalidRequest | None:
    if not CLAIMED_CARDS.allows(count):
        return _invalid(settings.count, count, COUNT_RULE)
    memory = asked.get(settings.memory, 0)
    most = MOST_MIB // settings.memory_factor
    if memory > most:
        unit = "MiB" if settings.memory_factor == 1 else f"{settings.memory_factor} MiB"
        return _invalid(settings.memory, memory, f"{UNIT_RULE} {unit}, {MOST_RULE} {most}")
    percent = asked.get(settings.memory_percentage, 0)
    if percent > PERCENT:
        return _invalid(settings.memory_percentage, percent, PERCENT_RULE)
    return None


def _invalid(resource: str, amount: int, rule: str) -> InvalidRequest:
    return InvalidRequest(field=f"resources[{resource}]", value=str(amount), rule=rule)


# Which init containers use cards that the pod has anyway, for containers that start later.
#
# Init containers run one after the other, and have ended when the others start; a sidecar is an
# init container that keeps running. An init container that asks for no more of as many cards than
# such a container gets that container's cards, and nothing is placed for it.


_Asking = Mapping[ContainerRef, CardAmounts]


def guests_of(
    containers: Sequence[ContainerAmounts], asking: _Asking
) -> tuple[GuestContainer, ...]:
    """The init containers that use the cards of another container, in order.

    Of several such containers it is an app, and then the one that asks for most.
    """
    sidecars = {one.container for one in containers if one.sidecar}
    plain = [one for one in asking if one.init and one not in sidecars]
    hosts = sorted(asking, key=lambda one: (one.init, _size(asking[one]), one.index))
    guests: dict[ContainerRef, GuestContainer] = {}
    hosting: set[ContainerRef] = set()
    for guest in plain:
        wanted = asking[guest]
        host = next(
            (
                one
                for one in hosts
                if one != guest
                and one not in guests
                and _starts_later(guest, one, sidecars)
                and _covers(asking[one], wanted)
            ),
            None,
        )
        if host is not None and guest not in hosting:
            guests[guest] = GuestContainer(guest, host, wanted.count)
            hosting.add(host)
    return tuple(guests.values())


def _size(amounts: CardAmounts) -> tuple[int, int, int]:
    """The larger the less."""
    return -amounts.count, -amounts.cores, -(amounts.memory_mib or amounts.percent)


def _starts_later(guest: ContainerRef, host: ContainerRef, sidecars: set[ContainerRef]) -> bool:
    """Whether the guest has ended while the host runs; other init containers never run with it."""
    return host not in sidecars or host.index > guest.index


def _covers(host: CardAmounts, guest: CardAmounts) -> bool:
    """Whether what the host has of its cards is enough for the guest, whatever the cards' size."""
    if host.count < guest.count or host.cores < guest.cores:
        return False
    if guest.memory_mib:
        return host.memory_mib >= guest.memory_mib
    return not host.memory_mib and host.percent >= guest.percent


# What a pod's annotations say of the cards that it takes, and of the order of nodes and cards.
#
# They hold for all containers of the pod. Sources: CheckType and CheckUUID of
# pkg/device/devices.go, pkg/scheduler/policy and pkg/util/device_scoring_weights.go of
# github.com/Project-HAMi/HAMi.


#: Go's ParseBool.
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
#: In the model of a MIG instance, a word before its profile.
_INSTANCE = "MIG"
_VENDOR = "nvidia-"
_BINPACK, _SPREAD, _NUMA, _MUTEX, _JOINED = "binpack", "spread", "numa", "mutex", "topology-aware"
_ORDERS = {_BINPACK: Order.FULLEST, _SPREAD: Order.EMPTIEST, _NUMA: Order.HIGH_NUMA}
_WEIGHTS = ("slot", "core", "memory")
_MOST_WEIGHT = 1_000_000

NO_PART_RULE = "must have parts of names of GPUs, of letters, digits and ._+/()*-"
MODE_RULE = f"names no mode of a GPU: {names.MODE_CORE} or {names.MODE_MIG}"
WEIGHTS_RULE = "must be slot=N,core=N,memory=N, each once, not all of them 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class CardWishes:
    """Which cards all containers of a pod take, and in which order; `mig`: only instances."""

    models: PreferredModels
    uuids: tuple[GpuUuid, ...] = ()
    denied_uuids: tuple[GpuUuid, ...] = ()
    one_numa_node: bool = False
    mig: bool = False
    policy: PlacementPolicy


def wishes_of(
    annotations: Mapping[str, str], settings: HamiSettings
) -> CardWishes | InvalidRequest:
    """What the annotations say; blank ones say nothing."""
    if settings.profile == SEED:
        annotations = {key: text for key, text in annotations.items() if key in names.SEED_ASKS}
    numa = annotations.get(names.NUMA_BIND, "") in _TRUE
    mig = _wants_instances(annotations.get(names.MODE, ""))
    if isinstance(mig, InvalidRequest):
        return mig
    models = _models(annotations, mig=mig)
    if isinstance(models, InvalidRequest):
        return models
    used, denied = (_uuids(annotations, key) for key in (names.USE_UUID, names.NO_UUID))
    if isinstance(used, InvalidRequest):
        return used
    if isinstance(denied, InvalidRequest):
        return denied
    policy = policy_of(annotations, settings, numa_bind=numa)
    if isinstance(policy, InvalidRequest):
        return policy
    return CardWishes(
        models=models,
        uuids=used,
        denied_uuids=denied,
        one_numa_node=numa,
        mig=mig,
        policy=policy,
    )


def policy_of(
    annotations: Mapping[str, str], settings: HamiSettings, *, numa_bind: bool = False
) -> PlacementPolicy | InvalidRequest:
    """The orders of nodes and cards. Words that are not known are the default's, as in HAMi."""
    weights = _weights(annotations.get(names.SCORING_WEIGHTS))
    if isinstance(weights, InvalidRequest):
        return weights
    node = annotations.get(names.NODE_POLICY) or settings.node_policy
    words = [
        word.strip()
        for word in (annotations.get(names.CARD_POLICY) or settings.card_policy).split(",")
    ]
    return PlacementPolicy(
        node=Order.EMPTIEST if node == _SPREAD else Order.FULLEST,
        cards=_card_orders(words, numa_bind=numa_bind),
        weights=weights,
        idle=_MUTEX in words,
        joined=_JOINED in words,
    )


def _card_orders(words: Sequence[str], *, numa_bind: bool) -> tuple[Order, ...]:
    named = _named(words)
    if len(words) > 1 or words == [_NUMA]:
        orders = named or (Order.EMPTIEST,)
        if numa_bind:
            rest = tuple(one for one in orders if one is not Order.HIGH_NUMA)
            return (Order.HIGH_NUMA, *rest)
        return orders
    fill = named[0] if named else Order.EMPTIEST
    if numa_bind:
        return (Order.LOW_NUMA if fill is Order.FULLEST else Order.HIGH_NUMA, fill)
    return (fill, Order.HIGH_NUMA)


def _named(words: Sequence[str]) -> tuple[Order, ...]:
    """The orders that words name; after the first one, how full cards are decides nothing more."""
    found = dict.fromkeys(_ORDERS[word] for word in words if word in _ORDERS)
    fills = [one for one in found if one is not Order.HIGH_NUMA]
    return tuple(one for one in found if one not in fills[1:])


def _weights(text: str | None) -> tuple[int, int, int] | InvalidRequest:
    if text is None:
        return (1, 1, 1)
    pairs = [part.partition("=") for part in text.split(",")]
    found = {key.strip(): integer(number.strip()) for key, _, number in pairs}
    weights = [found.get(key) for key in _WEIGHTS]
    if len(pairs) == len(_WEIGHTS) == len(found):
        known = [one for one in weights if one is not None and 0 <= one <= _MOST_WEIGHT]
        if len(known) == len(_WEIGHTS) and any(known):
            return (known[0], known[1], known[2])
    return InvalidRequest(field=names.SCORING_WEIGHTS, value=text, rule=WEIGHTS_RULE)


def _wants_instances(text: str) -> bool | InvalidRequest:
    """Whether the pod takes MIG instances alone; HAMi looks for a mode anywhere in the text."""
    if not text.strip() or names.MODE_CORE in text:
        return False
    if names.MODE_MIG in text:
        return True
    return InvalidRequest(field=names.MODE, value=text, rule=MODE_RULE)


def _models(annotations: Mapping[str, str], *, mig: bool) -> PreferredModels | InvalidRequest:
    used = _parts(annotations, names.USE_TYPE)
    denied = _parts(annotations, names.NO_TYPE)
    if isinstance(used, InvalidRequest):
        return used
    if isinstance(denied, InvalidRequest):
        return denied
    if mig:
        accepted = tuple(f"{part.rstrip(ANY)}*-{_INSTANCE}-*" for part in used) or (_INSTANCE,)
        return PreferredModels(tiers=(accepted,), denied=denied)
    return PreferredModels(tiers=(used,) if used else (), denied=(*denied, _INSTANCE))


def _parts(annotations: Mapping[str, str], key: str) -> tuple[str, ...] | InvalidRequest:
    """Parts of models for a list of types, such as `NVIDIA-Tesla T4` and `a100`.

    Bounded before they are read: the spellings of one word are as long as its square.
    """
    found: list[str] = []
    words = list(dict.fromkeys(_listed(annotations, key)))
    if not CLAIMED_MODELS.allows(len(words)):
        rule = f"number of types {CLAIMED_MODELS.problem(len(words))}"
        return InvalidRequest(field=key, value=annotations[key], rule=rule)
    for word in words:
        if not CARD_NAME.allows(len(word)):
            rule = f"length of a type {CARD_NAME.problem(len(word))}"
            return InvalidRequest(field=key, value=word, rule=rule)
        parts = [name_part(part) for part in _spellings(word.lower().replace(" ", "-"))]
        if None in parts:
            return InvalidRequest(field=key, value=annotations[key], rule=NO_PART_RULE)
        found.extend(part for part in parts if part is not None)
    return tuple(dict.fromkeys(found))


def _spellings(word: str) -> Iterable[str]:
    """HAMi puts NVIDIA- before types that do not begin with it, and its ancestor before all."""
    if word in _VENDOR:
        yield ANY
        return
    yield f"*{word}*"
    while word.startswith(_VENDOR):
        word = word.removeprefix(_VENDOR)
        yield f"{word}*" if word else ANY


def _uuids(annotations: Mapping[str, str], key: str) -> tuple[GpuUuid, ...] | InvalidRequest:
    found = tuple(sorted({GpuUuid(one) for one in _listed(annotations, key)}))
    if CLAIMED_UUIDS.allows(len(found)):
        return found
    rule = f"number of UUIDs {CLAIMED_UUIDS.problem(len(found))}"
    return InvalidRequest(field=key, value=annotations[key], rule=rule)


def _listed(annotations: Mapping[str, str], key: str) -> list[str]:
    return [word for part in annotations.get(key, "").split(",") if (word := part.strip())]


# What a pod asks for in HAMi's words: the claims of its containers, and how they are placed.


RESOURCE_RULE = "is a resource: ask for it in resources.limits of a container"
_MILLI_OF_CORE = WHOLE_MILLI // CARD_CORES
_MILLI_OF_PERCENT = WHOLE_MILLI // 100
_AskedAmounts = list[tuple[ContainerRef, CardAmounts]]


def read(pod: PodAsk, settings: HamiSettings, dialect: str) -> GpuRequest | InvalidRequest | None:
    """The request of a pod; None if no container asks."""
    for key in sorted(settings.resources & pod.annotations.keys()):
        return InvalidRequest(field=f"annotation {key}", rule=RESOURCE_RULE)
    asked = asked_by(pod.containers, settings)
    if isinstance(asked, InvalidRequest):
        return asked
    if not asked:
        return None
    if not POD_CLAIMS.allows(len(asked)):
        rule = f"number of containers that ask for it {POD_CLAIMS.problem(len(asked))}"
        return InvalidRequest(field=f"resources[{settings.count}]", rule=rule)
    wishes = wishes_of(pod.annotations, settings)
    if isinstance(wishes, InvalidRequest):
        return wishes
    guests = guests_of(pod.containers, dict(asked))
    placed = {container for container, _ in asked} - {one.container for one in guests}
    return GpuRequest(
        claims=tuple(
            _claim(container, amounts, wishes)
            for container, amounts in asked
            if container in placed
        ),
        guests=guests,
        dialect=dialect,
        guarantee=pod.guarantee,
        notes=notes_of(pod.containers, asked),
        policy=wishes.policy,
        quota=quota_names(settings),
    )


def quota_names(settings: HamiSettings) -> QuotaNames:
    """The names by which quotas limit its pods."""
    return QuotaNames(
        memory=settings.memory,
        cores=settings.cores,
        unit_bytes=MIB * settings.memory_factor,
    )


def asked_by(
    containers: Sequence[ContainerAmounts], settings: HamiSettings
) -> _AskedAmounts | InvalidRequest:
    """What the containers that ask want of their cards, in order."""
    found: _AskedAmounts = []
    for one in containers:
        amounts = amounts_of(one, settings)
        if isinstance(amounts, InvalidRequest):
            return amounts
        if amounts is not None:
            found.append((one.container, amounts))
    return found


def notes_of(
    containers: Sequence[ContainerAmounts], asked: _AskedAmounts
) -> tuple[tuple[str, str], ...]:
    """For each container MiB, percentage and cores of each card; "" for one without cards."""
    of = {
        container: f"{amounts.memory_mib},{amounts.percent},{amounts.cores}"
        for container, amounts in asked
    }
    return tuple((str(one.container), of.get(one.container, "")) for one in containers)


def read_note(text: str) -> CardAmounts:
    """What `notes_of` wrote for a container with cards, of each of its cards."""
    memory, percent, cores = map(int, text.split(","))
    return CardAmounts(memory_mib=memory, percent=percent, cores=cores)


def _claim(container: ContainerRef, amounts: CardAmounts, wishes: CardWishes) -> ContainerClaim:
    alone = amounts.exclusive or wishes.mig
    milli = WHOLE_MILLI if alone else amounts.cores * _MILLI_OF_CORE
    part = None if amounts.memory_mib else amounts.percent * _MILLI_OF_PERCENT
    claim = GpuClaim(
        count=amounts.count,
        milli=milli,
        memory_bytes=amounts.memory_mib * MIB if amounts.memory_mib else None,
        memory_milli=None if alone else part,
        exclusive=alone,
        one_numa_node=wishes.one_numa_node and amounts.count > 1,
        preferred=wishes.models,
        uuids=wishes.uuids,
        denied_uuids=wishes.denied_uuids,
    )
    return ContainerClaim(claim=claim, container=container, limit_milli=0 if alone else milli)


# What HAMi's webhook adds to pods and which it refuses, for pods of this dialect.
#
# The rules are those of pkg/scheduler/webhook.go and of MutateAdmission in
# pkg/device/nvidia/device.go of github.com/Project-HAMi/HAMi. 4paradigm's scheduler adds the
# priority alone, and to its first container alone; here each container gets its own.


#: HAMi-core's variable for `nvidia.com/priority`.
TASK_PRIORITY = "CUDA_TASK_PRIORITY"
PRIVILEGED_RULE = (
    "is privileged, so that no limit holds it: it cannot be in a pod that asks for parts of GPUs"
)
NODE_RULE = "it asks for GPUs and names its node: spec.nodeName must be empty"


def admission_additions(
    containers: Sequence[NewContainer], settings: HamiSettings, *, has_node: bool
) -> Admitted | str:
    """The limits and variables that a new pod gets, or why it is refused."""
    asking = [one for one in containers if _asks(one.amounts, settings)]
    if not asking:
        return NOTHING_ADDED
    privileged = next((one for one in containers if one.privileged), None)
    if privileged is not None:
        return f"container {privileged.name} {PRIVILEGED_RULE}"
    if has_node:
        return NODE_RULE
    limits = {one.container: _limits(one.amounts, settings) for one in asking}
    variables = {
        one.container: ((TASK_PRIORITY, str(one.amounts[settings.priority])),)
        for one in containers
        if settings.priority in one.amounts
    }
    return Admitted(
        limits={container: added for container, added in limits.items() if added},
        variables=variables,
    )


def _asks(amounts: Mapping[str, int], settings: HamiSettings) -> bool:
    """Whether the container gets cards; a part of 0 asks too, as it does in HAMi."""
    has_part = any(name in amounts for name in parts_of(settings))
    by_default = has_part and settings.default_gpu_num > 0 and settings.profile != SEED
    return bool(amounts.get(settings.count)) or by_default


def _limits(amounts: Mapping[str, int], settings: HamiSettings) -> tuple[tuple[str, int], ...]:
    """The count of a container that asks for parts alone; all cores of one that asks for none."""
    if settings.profile == SEED:
        return ()
    has_count = settings.count in amounts
    count = () if has_count else ((settings.count, settings.default_gpu_num),)
    alone = is_alone_by_default(amounts, settings)
    return (*count, *(((settings.cores, CARD_CORES),) if alone else ()))
