"""What a pod asks for in HAMi's words: the claims of its containers, and how they are placed."""

from collections.abc import Sequence

from kubeshare_py.dialects.dialect import ContainerAmounts, PodAsk
from kubeshare_py.dialects.hami.amounts import CardAmounts, amounts_of
from kubeshare_py.dialects.hami.init_containers import guests_of
from kubeshare_py.dialects.hami.keys import CARD_CORES, MIB, HamiSettings
from kubeshare_py.dialects.hami.wishes import CardWishes, wishes_of
from kubeshare_py.domain.bounds import POD_CLAIMS
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.needs.gpu_quota import QuotaNames
from kubeshare_py.domain.request import (
    ContainerClaim,
    ContainerRef,
    GpuClaim,
    GpuRequest,
    InvalidRequest,
)

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
