"""What containers ask for of MLUs: how many, and memory and cores of each.

Without memory they get all of it. With HAMi's names, cores are 100 if none are asked for, and 100
take the card alone. The ancestor divides no cores: without memory a card is taken alone, and memory
can be asked for of an MLU370 only.
"""

from collections.abc import Mapping, Sequence

from kubeshare_py.dialects.cambricon.keys import (
    CARD_CORES,
    MLU,
    MLU370,
    NO_TYPE,
    NO_UUID,
    SYSTEMS,
    USE_TYPE,
    USE_UUID,
    MluNames,
)
from kubeshare_py.dialects.dialect import ContainerAmounts, PodAsk
from kubeshare_py.domain.bounds import CLAIMED_CARDS, CLAIMED_UUIDS, HELD_BYTES, POD_CLAIMS
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.gpu_models import ANY, PreferredModels, name_part
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.request import (
    ContainerClaim,
    GpuClaim,
    GpuRequest,
    InvalidRequest,
)

_MILLI_OF_CORE = WHOLE_MILLI // CARD_CORES


def read(pod: PodAsk, dialect: str) -> GpuRequest | InvalidRequest | None:
    """The request of a pod; None if no container asks for MLUs."""
    asked = {name for one in pod.containers for name, amount in one.amounts if amount}
    used = [names for names in SYSTEMS if asked & names.resources]
    if not used:
        return None
    if len(used) > 1:
        first, other = (min(asked & one.resources) for one in used)
        rule = f"and resources[{other}] are of two systems: a pod can only use one"
        return InvalidRequest(field=f"resources[{first}]", rule=rule)
    wishes = _wishes(pod.annotations)
    if isinstance(wishes, InvalidRequest):
        return wishes
    return _request(pod, used[0], wishes, dialect)


def _request(
    pod: PodAsk, names: MluNames, wishes: "_Wishes", dialect: str
) -> GpuRequest | InvalidRequest | None:
    claims, notes = [], [("", names.system)]
    for one in pod.containers:
        notes.append((str(one.container), ""))
        claim = _claim(one, names, wishes)
        if isinstance(claim, InvalidRequest):
            return claim
        if claim is not None:
            claims.append(ContainerClaim(claim=claim, container=one.container))
    if not claims:
        return None
    if not POD_CLAIMS.allows(len(claims)):
        rule = f"number of containers that ask for it {POD_CLAIMS.problem(len(claims))}"
        return InvalidRequest(field=f"resources[{names.count}]", rule=rule)
    return GpuRequest(
        claims=tuple(claims), dialect=dialect, guarantee=pod.guarantee, notes=tuple(notes)
    )


#: The models and cards that the pod's annotations accept, as fields of a claim.
_Wishes = tuple[PreferredModels, tuple[GpuUuid, ...], tuple[GpuUuid, ...]]


def _claim(
    container: ContainerAmounts, names: MluNames, wishes: _Wishes
) -> GpuClaim | InvalidRequest | None:
    amounts = dict(container.amounts)
    count, memory = amounts.get(names.count, 0), amounts.get(names.memory, 0)
    cores = amounts.get(names.cores, CARD_CORES) if names.cores else 0
    if not count:
        return None
    for field, amount, bound, value in (
        (names.count, count, CLAIMED_CARDS, count),
        (names.memory, memory * names.unit, HELD_BYTES, memory),
    ):
        rule = bound.problem(amount)
        if rule:
            return InvalidRequest(field=f"resources[{field}]", value=str(value), rule=rule)
    models, uuids, denied = wishes
    is_alone = cores >= CARD_CORES if names.cores else not memory
    if not names.cores and memory:
        models = PreferredModels(tiers=((MLU370,),), denied=models.denied)
    return GpuClaim(
        count=count,
        milli=WHOLE_MILLI if is_alone else cores * _MILLI_OF_CORE,
        exclusive=is_alone,
        memory_bytes=memory * names.unit if memory else None,
        memory_milli=None if memory or is_alone else WHOLE_MILLI,
        preferred=models,
        uuids=uuids,
        denied_uuids=denied,
        vendor=MLU,
    )


def _wishes(annotations: Mapping[str, str]) -> _Wishes | InvalidRequest:
    """What the annotations say; a blank one says nothing."""
    found: dict[str, tuple[str, ...]] = {}
    for key in (USE_TYPE, NO_TYPE, USE_UUID, NO_UUID):
        found[key] = tuple(
            sorted({named.strip() for named in annotations.get(key, "").split(",")} - {""})
        )
    parts: dict[str, list[str]] = {USE_TYPE: [], NO_TYPE: []}
    for key, accepted_parts in parts.items():
        for text in found[key]:
            part = name_part(text.replace(" ", "-"))
            if part is None:
                return InvalidRequest(field=key, value=text, rule="is no part of a model's name")
            accepted_parts.append(f"{ANY}{part}{ANY}")
    for key in (USE_UUID, NO_UUID):
        if not CLAIMED_UUIDS.allows(len(found[key])):
            rule = f"number of cards {CLAIMED_UUIDS.problem(len(found[key]))}"
            return InvalidRequest(field=key, rule=rule)
    accepted = tuple(parts[USE_TYPE]) or (MLU,)
    models = PreferredModels(tiers=(accepted,), denied=tuple(parts[NO_TYPE]))
    return models, _uuids(found[USE_UUID]), _uuids(found[NO_UUID])


def _uuids(texts: Sequence[str]) -> tuple[GpuUuid, ...]:
    return tuple(GpuUuid(text) for text in texts)
