"""What containers ask for of MLUs: how many, and memory and cores of each.

Without memory they get all of it. With HAMi's names, cores are 100 if none are asked for, and 100
take the card alone. The ancestor divides no cores: without memory a card is taken alone, and memory
can be asked for of an MLU370 only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

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
from kubeshare_py.dialects.hami.keys import HAMI
from kubeshare_py.domain.bounds import (
    CARD_NAME,
    CLAIMED_CARDS,
    CLAIMED_MODELS,
    CLAIMED_UUIDS,
    HELD_BYTES,
    POD_CLAIMS,
)
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.gpu_models import ANY, PreferredModels, name_part, names_model
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.request import (
    ContainerClaim,
    GpuClaim,
    GpuRequest,
    InvalidRequest,
)

_MILLI_OF_CORE = WHOLE_MILLI // CARD_CORES
_370 = MLU370.strip(ANY)


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
    return GpuClaim(
        count=count,
        milli=WHOLE_MILLI if is_alone else cores * _MILLI_OF_CORE,
        exclusive=is_alone,
        memory_bytes=memory * names.unit if memory else None,
        memory_milli=None if memory or is_alone else WHOLE_MILLI,
        preferred=_of_system(models, names, is_part=memory > 0),
        uuids=uuids,
        denied_uuids=denied,
        vendor=MLU,
    )


def _of_system(wished: PreferredModels, names: MluNames, *, is_part: bool) -> PreferredModels:
    """Of the accepted models those of one system: HAMi's are `MLU`, its ancestor's `MLU-…`.

    A node's plugin serves the resources of its own system only.
    """
    [accepted] = wished.tiers
    if names.system == HAMI:
        return replace(wished, denied=(*wished.denied, f"{MLU}-{ANY}"))
    if is_part:
        accepted = _of_mlu370s(accepted)
    longer = tuple(f"{one}-{ANY}" if names_model(one, MLU) else one for one in accepted)
    return replace(wished, tiers=(longer,))


def _of_mlu370s(accepted: Sequence[str]) -> tuple[str, ...]:
    """Parts of names that have one of these parts, and 370: before it, behind it, or within it."""
    if MLU in accepted:
        return (MLU370,)
    found = []
    for one in accepted:
        part = one.strip(ANY)
        joined = [part if part not in _370 else _370, f"{_370}{ANY}{part}", f"{part}{ANY}{_370}"]
        for common in range(1, len(_370)):
            if part.endswith(_370[:common]):
                joined.append(part + _370[common:])
            if part.startswith(_370[-common:]):
                joined.append(_370[:-common] + part)
        found += [f"{ANY}{text}{ANY}" for text in joined if _370 in text]
    return tuple(found)


def _wishes(annotations: Mapping[str, str]) -> _Wishes | InvalidRequest:
    """What the annotations say; a blank one says nothing."""
    found: dict[str, tuple[str, ...]] = {}
    for key in (USE_TYPE, NO_TYPE, USE_UUID, NO_UUID):
        found[key] = tuple(
            sorted({named.strip() for named in annotations.get(key, "").split(",")} - {""})
        )
    parts: dict[str, list[str]] = {USE_TYPE: [], NO_TYPE: []}
    for key, accepted_parts in parts.items():
        if not CLAIMED_MODELS.allows(len(found[key])):
            rule = f"number of types {CLAIMED_MODELS.problem(len(found[key]))}"
            return InvalidRequest(field=key, rule=rule)
        for text in found[key]:
            if not CARD_NAME.allows(len(text)):
                rule = f"length of a type {CARD_NAME.problem(len(text))}"
                return InvalidRequest(field=key, value=text, rule=rule)
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
