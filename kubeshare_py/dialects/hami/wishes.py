"""What a pod's annotations say of the cards that it takes, and of the order of nodes and cards.

They hold for all containers of the pod. Sources: CheckType and CheckUUID of pkg/device/devices.go,
pkg/scheduler/policy and pkg/util/device_scoring_weights.go of github.com/Project-HAMi/HAMi.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kubeshare_py.dialects.hami import keys as names
from kubeshare_py.dialects.hami.keys import SEED, HamiSettings
from kubeshare_py.dialects.label_numbers import integer
from kubeshare_py.domain.bounds import CARD_NAME, CLAIMED_MODELS, CLAIMED_UUIDS
from kubeshare_py.domain.gpu_models import ANY, PreferredModels, name_part
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.needs.placement_policy import Order, PlacementPolicy
from kubeshare_py.domain.request import InvalidRequest

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
