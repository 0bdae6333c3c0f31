"""Which cards a container with devices sees, by its pod's allocation."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, PodKey, PodUid, card_at
from kubeshare_py.domain.request import ContainerRef


class ContainerSpec(msgspec.Struct, frozen=True, gc=False):
    """What a container sets to a fixed value, and what it asks for, by resource.

    `runs_first`: it is an init container that ends before others start, so no sidecar.
    """

    variables: Mapping[str, str] = {}
    amounts: Mapping[str, str] = {}
    runs_first: bool = False


class DevicePod(msgspec.Struct, frozen=True, gc=False):
    """A pod whose container has devices.

    `containers` are all of it by their names, `specs` what it says of them. `allocation` is None if
    nothing was placed by this scheduler or by one that it succeeds; `problem` says why it cannot be
    read.
    """

    key: PodKey
    uid: PodUid
    containers: Mapping[str, ContainerRef]
    annotations: Mapping[str, str]
    specs: Mapping[str, ContainerSpec] = {}
    allocation: Allocation | None = None
    problem: str = ""


class CardsUnknown(Exception):
    """A container's cards are not known. The text says why, for the pod's author."""


def placed_cards(
    pod: DevicePod, container: str, resource: str, cards: Iterable[Gpu]
) -> tuple[CardCharge, ...]:
    """What a container has of which cards by its pod's allocation. Raises CardsUnknown.

    `cards` are those of the node; a predecessor names them by their index. Empty for an init
    container for which nothing was charged or shared: gpushare gives such containers no GPU.
    """
    if pod.allocation is None:
        why = pod.problem or (
            f"a pod with {resource} needs a placement, and no kubeshare scheduler made one: "
            "set its schedulerName to kubeshare-scheduler"
        )
        raise CardsUnknown(f"{pod.key} has no GPU allocation: {why}")
    charges = _charges(pod, pod.allocation, container)
    ref = pod.containers.get(container)
    if not charges and not (pod.allocation.claims and ref is not None and ref.init):
        raise CardsUnknown(f"the allocation of {pod.key} has no card for container {container!r}")
    known = _by_name(cards)
    missing = [one.uuid for one in charges if one.uuid not in known]
    if missing:
        raise CardsUnknown(
            f"the allocation of {pod.key} names {', '.join(missing)}, which this node does not have"
        )
    return tuple(replace(one, uuid=known[one.uuid]) for one in charges)


def held_by(pod: DevicePod, cards: Iterable[Gpu]) -> set[GpuUuid]:
    """The cards of the node that a pod holds a part of."""
    known = _by_name(cards)
    charges = () if pod.allocation is None else pod.allocation.cards
    return {known[one.uuid] for one in charges if one.uuid in known}


def _by_name(cards: Iterable[Gpu]) -> dict[GpuUuid, GpuUuid]:
    """The uuid of each card by its uuid and, of a whole card, by its index."""
    found: dict[GpuUuid, GpuUuid] = {}
    for card in cards:
        found[card.uuid] = card.uuid
        if card.parent is None:
            found[card_at(card.index)] = card.uuid
    return found


def _charges(pod: DevicePod, held: Allocation, container: str) -> tuple[CardCharge, ...]:
    if not held.claims:
        return held.cards
    ref = pod.containers.get(container)
    own = next((one.cards for one in held.containers if one.container == ref), ())
    spec = pod.specs.get(container)
    return _before_others(held, ref, own) if spec is not None and spec.runs_first else own


def _before_others(
    held: Allocation, ref: ContainerRef | None, own: tuple[CardCharge, ...]
) -> tuple[CardCharge, ...]:
    """What an init container may use of its cards.

    Its charge is not that where it uses a part that the pod holds anyway, for containers that start
    when it has ended: the scheduler that made the allocation charged nothing for it then, and of
    pods that HAMi bound only what is more than the others' parts is charged.
    """
    if not held.token:
        of_pod = {card.uuid: card for card in held.cards}
        return tuple(of_pod[card.uuid] for card in own)
    if any(card.milli or card.memory_bytes for card in own):
        return own
    uuids = [card.uuid for card in own]
    others = (one.cards[: len(own)] for one in held.containers if one.container != ref)
    hosts = [
        cards
        for cards in others
        if [card.uuid for card in cards] == uuids
        and any(card.milli or card.memory_bytes for card in cards)
    ]
    return min(hosts, key=lambda cards: sum(card.memory_bytes for card in cards), default=())
