"""What a pod asks for in gpushare's words.

Meanings are those of gpushare-scheduler-extender: limits of containers count, those of init
containers do not, and all containers of a pod share one card. The labels that divide the memory
over several cards, and that demand a whole one, are those of Alibaba Cloud's later scheduler.
"""

from collections.abc import Mapping

from kubeshare_py.dialects.dialect import ContainerAmounts, PodAsk
from kubeshare_py.dialects.gpushare.keys import (
    MOST_GIB,
    PLACEMENT_LABEL,
    UNITS,
    WHOLE_DEVICE,
    GpushareKeys,
)
from kubeshare_py.dialects.label_numbers import integer
from kubeshare_py.domain.bounds import CARDS_OF_NODE, POD_CLAIMS
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.request import (
    CardRelation,
    ContainerClaim,
    GpuClaim,
    GpuRequest,
    InvalidRequest,
)

COUNT_RULE = f"must be a number of cards from 1 to {CARDS_OF_NODE.most}"
PLACEMENT_RULE = f'must be "{WHOLE_DEVICE}"'
ONE_CONTAINER_RULE = f"{WHOLE_DEVICE} is for pods of which one container asks"
INIT_RULE = "is only asked for by init containers, which get no GPU: ask in a container"
_MILLI_OF_PERCENT = WHOLE_MILLI // 100


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
    """Whether it asks for more than numbers of cards, which say nothing."""
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
