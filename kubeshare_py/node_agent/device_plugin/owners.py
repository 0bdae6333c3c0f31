"""Which container has which devices, by what kubelet says of them.

Allocate gets device ids and no pod: https://github.com/kubernetes/kubernetes/issues/59109
kubelet says afterwards whose they are, in two places. Its pod-resources service lists active pods,
and of init containers only sidecars. Its checkpoint has every container with devices and the answer
to each Allocate, and pods that have ended until the next change (pkg/kubelet/cm/devicemanager of
Kubernetes 1.36). No two pods have the same device. Containers of one pod may: kubelet gives those
of an init container to containers that start later.
"""

from collections.abc import Iterable, Mapping

import msgspec

from kubeshare_py.domain.identity import PodKey, PodUid


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
