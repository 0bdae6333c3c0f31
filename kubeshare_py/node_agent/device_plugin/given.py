"""What the agent gave to containers and cannot find anywhere else after a restart.

    {"v":1,"choices":[{"resource":"nvidia.com/gpu","device":"0-0","card":"GPU-1","uid":"8d1…",
     "ns":"default","pod":"a"}],"claims":[{"name":"5f…","ns":"default","pod":"b"}]}

`choices` are the cards of pods that no scheduler of ours placed, one for each of their devices.
`claims` are the CDI devices that were written, each with the pod of its container.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from kubeshare_py.domain.identity import GpuUuid, PodKey
from kubeshare_py.node_agent.device_plugin.container_cards import CardsUnknown, DevicePod
from kubeshare_py.node_agent.device_plugin.devices import DeviceList
from kubeshare_py.node_agent.device_plugin.owners import AllocatedDevices, ContainerDevices

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
    """All of it."""

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
