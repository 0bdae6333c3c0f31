"""Which cards pods hold that no scheduler of ours gave them, by kubelet's list of devices."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from kubeshare_py.domain.identity import GpuUuid, PodKey, PodUid
from kubeshare_py.node_agent.agent_report import HeldCards
from kubeshare_py.node_agent.device_plugin.given import Given, cards_by_pod
from kubeshare_py.node_agent.device_plugin.owners import ContainerDevices

_HEX = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
#: Devices of NVIDIA's plugin are uuids, with `::` and a number where it time-slices. Plugins that
#: share cards put another sign before the number: nvshare two underscores, HAMi and Volcano a `-`.
_UUID = re.compile(
    rf"((?:GPU|MIG)-{_HEX}|MIG-GPU-{_HEX}/\d+/\d+|(?:GPU|MIG)-[0-9A-Za-z/-]{{1,120}}?)"
    r"(?:(?:::|__|(?<=[0-9A-Fa-f]{12})-)\d{1,6})?"
)


def device_uuids(listed: Iterable[ContainerDevices], own: Collection[str]) -> Iterator[GpuUuid]:
    """The cards in kubelet's list that other plugins gave; `own` are the resources of ours."""
    for container in listed:
        yield from _uuids(container, own)


def held_cards(
    listed: Iterable[ContainerDevices],
    given: Given,
    own: Collection[str],
    uids: Mapping[PodKey, PodUid],
) -> tuple[HeldCards, ...]:
    """What other plugins gave, and what ours chose, by pod; `uids` are those of the node's pods."""
    found: defaultdict[tuple[PodKey, str], set[GpuUuid]] = defaultdict(set)
    for container in listed:
        uuids = {*_uuids(container, own)}
        uid = uids.get(container.pod)
        if uuids and uid is not None:
            found[container.pod, uid] |= uuids
    for pod, cards in cards_by_pod(given).items():
        found[pod] |= {*cards}
    return tuple(
        HeldCards(PodUid(uid), key, tuple(sorted(cards))) for (key, uid), cards in found.items()
    )


def _uuids(container: ContainerDevices, own: Collection[str]) -> Iterator[GpuUuid]:
    for resource, devices in container.devices.items():
        if resource not in own:
            for device in devices:
                if met := _UUID.fullmatch(device):
                    yield GpuUuid(met[1])
