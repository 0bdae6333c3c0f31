"""Which container has which devices, by kubelet's list; and the name of what a container gets.

Allocate gets device ids and no pod: https://github.com/kubernetes/kubernetes/issues/59109
But no two pods have the same device, so that the ids tell the pod as soon as kubelet lists them.
"""

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from kubeshare_py.domain.identity import PodKey

#: Hexadecimal digits of a claim's name: two sets of devices do not share one by chance.
_DIGITS = 32


class ContainerDevices(msgspec.Struct, frozen=True, gc=False):
    """A container with the ids of its devices by resource, as kubelet lists it.

    kubelet lists containers and sidecars of pods that are active, and no other init containers.
    """

    pod: PodKey
    container: str
    devices: Mapping[str, frozenset[str]]


class DeviceOwner(msgspec.Struct, frozen=True, gc=False):
    """The container with certain devices; `container` "" is an init container of the pod."""

    pod: PodKey
    container: str


class NoOwner(Exception):
    """kubelet does not list the devices of one pod. The text says so."""


def claim_name(resource: str, devices: Iterable[str]) -> str:
    """The name of what a container gets for these devices, the same at every start of it."""
    text = "\n".join((resource, *sorted(devices)))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def owner_of(
    resource: str, devices: Iterable[str], listed: Iterable[ContainerDevices]
) -> DeviceOwner:
    """The container with exactly these devices. Raises NoOwner.

    Devices of an init container pass to containers of its pod, so that any device tells the pod.
    """
    wanted = frozenset(devices)
    having = [one for one in listed if wanted & one.devices.get(resource, frozenset())]
    for one in having:
        if one.devices[resource] == wanted:
            return DeviceOwner(one.pod, one.container)
    pods = {one.pod for one in having}
    if len(pods) != 1:
        found = ", ".join(str(pod) for pod in sorted(pods)) or "no pod"
        raise NoOwner(f"kubelet lists {found} with these {len(wanted)} devices of {resource}")
    return DeviceOwner(pods.pop(), "")
