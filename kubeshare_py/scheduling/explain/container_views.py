"""What a pod and each of its containers ask for and hold, as people see it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import CardRelation, ContainerRef, GpuClaim
from kubeshare_py.scheduling.binding.holdings import claims_of, holdings_of
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.views.holding import ContainerPartView, ContainerView


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedInAll:
    """What a pod's claims ask for together, in the fields of a `PodView`."""

    count: int = 0
    milli: int = 0
    memory_bytes: int | None = None
    memory_milli: int | None = None
    models: tuple[str, ...] = ()
    share_of: str = ""


_NOTHING = AskedInAll()


def asked_in_all(shape: Shape) -> AskedInAll:
    """The cards of all claims; amounts are the largest where claims differ, names then empty."""
    claims = shape.claims
    if not claims:
        return _NOTHING
    first = claims[0]
    if len(claims) == 1:  # nearly always
        return AskedInAll(
            count=first.count,
            milli=first.milli,
            memory_bytes=first.memory_bytes,
            memory_milli=first.memory_milli,
            models=_models(first),
            share_of=first.share_of,
        )
    counts = [claim.count for claim in claims]
    memory = [claim.memory_bytes for claim in claims if claim.memory_bytes is not None]
    part = [claim.memory_milli for claim in claims if claim.memory_milli is not None]
    models, names = {_models(claim) for claim in claims}, {claim.share_of for claim in claims}
    return AskedInAll(
        count=max(counts) if shape.relation is CardRelation.SAME_CARD else sum(counts),
        milli=max(claim.milli for claim in claims),
        memory_bytes=max(memory, default=None),
        memory_milli=max(part, default=None),
        models=_models(first) if len(models) == 1 else (),
        share_of=first.share_of if len(names) == 1 else "",
    )


def relation_of(shape: Shape) -> str:
    """How the cards of several claims relate; "" if that does not matter."""
    matters = len(shape.claims) > 1 and shape.relation is not CardRelation.FREE
    return shape.relation if matters else ""


def container_views(ledger: Ledger, record: Record) -> tuple[ContainerView, ...]:
    """The containers with claims or cards of their own; empty if all see the same cards.

    A container with several claims is there once for each.
    """
    pod, allocation = record.pod, record.allocation
    is_divided = allocation is not None and allocation.claims
    if not is_divided and (pod.request is None or pod.request.is_pod_wide):
        return ()  # nearly always
    asked: dict[ContainerRef, list[GpuClaim]] = {}
    held: dict[ContainerRef, list[tuple[CardCharge, ...]]] = {}
    for owner, claim in claims_of(pod, pod.shape):
        if owner is not None:
            asked.setdefault(owner, []).append(claim)
    for part in allocation.claims if allocation is not None else ():
        held.setdefault(part.container, []).append(part.cards)
    return tuple(
        _view(ledger, record, container, asks, cards or ())
        for container in sorted(asked.keys() | held.keys())
        for asks, cards in zip_longest(asked.get(container, ()), held.get(container, ()))
    )


def container_parts(allocation: Allocation) -> dict[GpuUuid, tuple[ContainerPartView, ...]]:
    """By card, the parts of it that single containers hold."""
    found: dict[GpuUuid, list[ContainerPartView]] = {}
    for part in sorted(allocation.claims, key=lambda one: one.container):
        for card in part.cards:
            found.setdefault(card.uuid, []).append(
                ContainerPartView(
                    container=str(part.container), milli=card.milli, memory_bytes=card.memory_bytes
                )
            )
    return {uuid: tuple(parts) for uuid, parts in found.items()}


def containers_by_claim(record: Record) -> list[tuple[str, ...]]:
    """The containers that have each different claim, in the order of `by_claim`.

    None of them for a claim of the whole pod.
    """
    found: dict[GpuClaim, tuple[str, ...]] = {}
    for container, claim in claims_of(record.pod, record.shape):
        known = found.get(claim, ())
        found[claim] = known if container is None else (*known, str(container))
    return [*found.values()]


def _view(
    ledger: Ledger,
    record: Record,
    container: ContainerRef,
    claim: GpuClaim | None,
    cards: Sequence[CardCharge],
) -> ContainerView:
    held = holdings_of(ledger, record.node, cards) if record.node is not None else ()
    if claim is None:
        return ContainerView(container=str(container), holds=held)
    return ContainerView(
        container=str(container),
        count=claim.count,
        milli=claim.milli,
        memory_bytes=claim.memory_bytes,
        memory_milli=claim.memory_milli,
        models=_models(claim),
        share_of=claim.share_of,
        exclusive=claim.exclusive,
        holds=held,
    )


def _models(claim: GpuClaim) -> tuple[str, ...]:
    """The claim's models, as words."""
    if claim.preferred is None:
        return claim.models
    return (" that is also ".join((*claim.models, str(claim.preferred))),)
