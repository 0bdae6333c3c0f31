"""What a container is given of cards: devices, their pods, and what the agent remembers of both."""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, PodKey, PodUid, card_at
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.domain.values import replace
from kubeshare_py.node_agent.devices import DeviceList

# Which cards a container with devices sees, by its pod's allocation.


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


# What a container with devices gets: variables, and files of the node.


class HostMount(msgspec.Struct, frozen=True, gc=False):
    """A file or folder of the node in a container."""

    host: str
    container: str
    read_only: bool = False


class ContainerEdits(msgspec.Struct, frozen=True, gc=False):
    """Variables replace those that pod and image set, and mounts those at the same place."""

    variables: Mapping[str, str] = {}
    mounts: tuple[HostMount, ...] = ()

    def and_more(self, more: "ContainerEdits") -> "ContainerEdits":
        """Both together; the variables of `more` win."""
        return ContainerEdits({**self.variables, **more.variables}, (*self.mounts, *more.mounts))


# Which container has which devices, by what kubelet says of them.
#
# Allocate gets device ids and no pod: https://github.com/kubernetes/kubernetes/issues/59109 kubelet
# says afterwards whose they are, in two places. Its pod-resources service lists active pods, and of
# init containers only sidecars. Its checkpoint has every container with devices and the answer to
# each Allocate, and pods that have ended until the next change (pkg/kubelet/cm/devicemanager of
# Kubernetes 1.36). No two pods have the same device. Containers of one pod may: kubelet gives those
# of an init container to containers that start later.


class ContainerDevices(msgspec.Struct, frozen=True, gc=False):
    """A container of an active pod with the ids of its devices by resource; {} if it has none."""

    pod: PodKey
    container: str
    devices: Mapping[str, frozenset[str]]


class AllocatedDevices(msgspec.Struct, frozen=True, gc=False):
    """What the checkpoint says of one container and resource.

    `claims` names what the plugin's answer promised to this container: each answer has a name of
    its own, so that containers with the same devices differ.
    """

    uid: PodUid
    container: str
    resource: str
    devices: frozenset[str]
    claims: tuple[str, ...] = ()


class NoOwner(Exception):
    """kubelet does not say whose devices these are. The text says so."""


def owners_of(
    resource: str, devices: Iterable[str], allocated: Iterable[AllocatedDevices]
) -> tuple[AllocatedDevices, ...]:
    """The containers of one pod with exactly these devices. Raises NoOwner.

    Several are init containers and one that starts when they have ended: which of them starts now,
    kubelet does not say, and each gets what its own answer promised.
    """
    wanted = frozenset(devices)
    owners = tuple(one for one in allocated if one.resource == resource and one.devices == wanted)
    pods = {one.uid for one in owners}
    if len(pods) != 1:
        named = " and ".join(f"pod {uid}" for uid in sorted(pods)) or "no pod"
        raise NoOwner(
            f"kubelet's checkpoint has {named} with these {len(wanted)} devices of {resource}"
        )
    return owners


def with_init_containers(
    listed: Iterable[ContainerDevices],
    allocated: Iterable[AllocatedDevices],
    keys: Mapping[PodUid, PodKey],
) -> list[ContainerDevices]:
    """The list with the containers of active pods that only the checkpoint has.

    `keys` are the node's pods by uid: kubelet's list has names, and its checkpoint uids.
    """
    found = [*listed]
    active = {one.pod for one in found}
    known = {(one.pod, one.container) for one in found}
    for one in allocated:
        key = keys.get(one.uid)
        if key in active and (key, one.container) not in known:
            found.append(ContainerDevices(key, one.container, {one.resource: one.devices}))
    return found


# What the agent gave to containers and cannot find anywhere else after a restart.
#
#     {"v":1,"choices":[{"resource":"nvidia.com/gpu","device":"0-0","card":"GPU-1","uid":"8d1…",
#      "ns":"default","pod":"a"}],"claims":[{"name":"5f…","ns":"default","pod":"b"}]}
#
# `choices` are the cards of pods that no scheduler of ours placed, one for each of their devices.
# `claims` are the CDI devices that were written, each with the pod of its container.


_VERSION = 1


class CardChoice(msgspec.Struct, frozen=True, gc=False):
    """The card that a device stands for, while the pod with this uid has it."""

    resource: str
    device: str
    card: str
    uid: str
    ns: str
    pod: str


class WrittenClaim(msgspec.Struct, frozen=True, gc=False):
    """A claim that was written."""

    name: str
    ns: str
    pod: str


class Given(msgspec.Struct, frozen=True, gc=False):
    """The content of the agent's state file: chosen cards, and the claims that were written."""

    v: int = _VERSION
    choices: tuple[CardChoice, ...] = ()
    claims: tuple[WrittenClaim, ...] = ()

    def with_claims(self, claims: Iterable[WrittenClaim]) -> "Given":
        """With these claims, each in place of the one of its name."""
        found = {one.name: one for one in (*self.claims, *claims)}
        return msgspec.structs.replace(self, claims=tuple(found.values()))


def stored(given: Given) -> bytes:
    """The content of the file."""
    return msgspec.json.encode(given)


def restored(content: bytes) -> Given:
    """The content of the file read again. Raises ValueError."""
    found = msgspec.json.decode(content, type=Given)
    if found.v != _VERSION:
        raise ValueError(f"version {found.v} is not {_VERSION}")
    return found


def still_given(
    given: Given, listed: Iterable[ContainerDevices], allocated: Iterable[AllocatedDevices]
) -> Given:
    """Without what belongs to pods that are no longer active, or to devices given back.

    `listed` are the containers of all active pods, `allocated` is kubelet's checkpoint, which has
    pods that have ended besides.
    """
    active = {(one.pod.namespace, one.pod.name) for one in listed}
    devices: set[tuple[str, str]] = set()
    names: set[str] = set()
    for one in allocated:
        devices |= {(one.resource, device) for device in one.devices}
        names |= {*one.claims}
    choices = tuple(
        one
        for one in given.choices
        if (one.ns, one.pod) in active and (one.resource, one.device) in devices
    )
    claims = tuple(one for one in given.claims if (one.ns, one.pod) in active and one.name in names)
    return Given(choices=choices, claims=claims)


def free_cards(
    given: Given, pod: DevicePod, offered: DeviceList, devices: Iterable[str], held: Collection[str]
) -> tuple[Given, tuple[GpuUuid, ...]]:
    """A card for each of a pod's devices, the same as before where it has one already.

    Otherwise the last free one. The scheduler holds the last idle cards back for such pods until it
    is told which they have (cluster/derived.py), and gives the others away meanwhile. `held` are
    the cards that pods or other plugins hold. Raises CardsUnknown if too few are free.
    """
    resource = offered.resource.name
    kept = [
        one
        for one in given.choices
        if one.uid == pod.uid or (one.ns, one.pod) != (pod.key.namespace, pod.key.name)
    ]
    mine = {one.device: one for one in kept if (one.resource, one.uid) == (resource, pod.uid)}
    wanted = sorted(devices)
    # Of another pod, which is gone since kubelet gave its device away.
    kept = [
        one for one in kept if one.resource != resource or one.device not in {*wanted} - {*mine}
    ]
    taken = {*held, *(one.card for one in kept)}
    for device in reversed(wanted):
        if device not in mine:
            card = _last_free(offered, taken)
            taken.add(card)
            mine[device] = CardChoice(
                resource, device, card, pod.uid, pod.key.namespace, pod.key.name
            )
            kept.append(mine[device])
    cards = tuple(GpuUuid(mine[device].card) for device in wanted)
    return msgspec.structs.replace(given, choices=tuple(kept)), cards


def cards_by_pod(given: Given) -> Mapping[tuple[PodKey, str], list[GpuUuid]]:
    """The chosen cards by pod and uid."""
    found: dict[tuple[PodKey, str], list[GpuUuid]] = {}
    for one in given.choices:
        found.setdefault((PodKey(one.ns, one.pod), one.uid), []).append(GpuUuid(one.card))
    return found


def _last_free(offered: DeviceList, taken: Collection[str]) -> GpuUuid:
    for one in reversed(offered.cards):
        if one.healthy and one.card not in taken:
            return one.card
    raise CardsUnknown(
        f"no card is free for {offered.resource.name}: pods hold all healthy cards of this node"
    )
