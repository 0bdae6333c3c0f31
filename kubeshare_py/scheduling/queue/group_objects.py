"""PodGroup objects as far as they are known, and what they make of pods that name one.

Pods may come before their PodGroup, and it may be changed or deleted at any time. A pod whose
PodGroup is not known is held; one that is bound stays in its gang, whatever becomes of the object.
"""

from collections.abc import Container, Iterator
from dataclasses import replace
from typing import assert_never

from kubeshare_py.domain.events import (
    PodGroupEvent,
    PodGroupGone,
    PodGroupSeen,
    PodGroupsListed,
)
from kubeshare_py.domain.group_objects import GroupApi, GroupReference, PodGroupObject
from kubeshare_py.domain.pod import Pod, PodGroup
from kubeshare_py.domain.printable import listed

GangKey = tuple[str, str]


class GroupObjects:
    """A book: which PodGroups there are, and which APIs were heard."""

    def __init__(self) -> None:
        self._objects: dict[GangKey, PodGroupObject] = {}
        #: Why an API may have no PodGroups; nothing of APIs that were not heard yet.
        self._trouble: dict[GroupApi, str] = {}
        #: Gangs whose pods name an object that is not known, by API.
        self._missed: dict[GangKey, GroupApi] = {}

    def change(self, event: PodGroupEvent) -> list[GangKey]:
        """Take news in; of which gangs pods are to be looked at again."""
        match event:
            case PodGroupSeen(group=group):
                return self._put(group)
            case PodGroupGone(api=api, namespace=namespace, name=name):
                key = (namespace, GroupReference(api, name).gang)
                return [key] if self._objects.pop(key, None) is not None else []
            case PodGroupsListed():
                return self._listed(event)
            case _:
                assert_never(event)

    def minimum(self, key: GangKey) -> int | None:
        """How many the object of a gang says must start together; None where there is none."""
        known = self._objects.get(key)
        return None if known is None or known.unsupported else known.minimum

    def wanted(self, api: GroupApi, gangs: Container[GangKey]) -> bool:
        """Whether pods of one of these gangs wait for an object of this API."""
        self._missed = {key: missed for key, missed in self._missed.items() if key in gangs}
        return api in self._missed.values()

    def resolved(self, pod: Pod) -> Pod:
        """The pod with the group that its object describes; pods that name none stay as they are.

        What a bound pod belongs to says its allocation.
        """
        reference = pod.group_reference
        if reference is None or pod.node_name is not None:
            return pod
        known = self._objects.get((pod.key.namespace, reference.gang))
        group = None
        if known is not None and not known.unsupported:
            least = known.minimum
            group = PodGroup(
                name=reference.gang, headcount=least, min_available=least, within=known.within
            )
        return pod if pod.group == group else replace(pod, group=group)

    def reason(self, pod: Pod) -> str | None:
        """Why a pod is held because of its object, None if it is not.

        Empty while the API was not heard yet: its owner need not be told.
        """
        reference = pod.group_reference
        if reference is None:
            return None
        key = (pod.key.namespace, reference.gang)
        known = self._objects.get(key)
        if known is None:
            self._missed[key] = reference.api
            trouble = self._trouble.get(reference.api)
            if trouble is None:
                return ""
            missing = f'PodGroup "{reference.name}" of {reference.api} is not there'
            return f"{missing}: its API {trouble}" if trouble else missing
        if known.unsupported:
            fields = listed(known.unsupported)
            return f'PodGroup "{reference.name}" of {reference.api}: not supported yet: {fields}'
        return None

    def _put(self, group: PodGroupObject) -> list[GangKey]:
        key = _key(group)
        self._missed.pop(key, None)
        if self._objects.get(key) == group:
            return []
        self._objects[key] = group
        return [key]

    def _listed(self, event: PodGroupsListed) -> list[GangKey]:
        changed: list[GangKey] = []
        if self._trouble.get(event.api) != event.trouble:
            self._trouble[event.api] = event.trouble
            changed += self._missing(event.api)
        if event.groups is not None:
            found = {_key(group) for group in event.groups}
            gone = [
                key
                for key, known in self._objects.items()
                if known.api is event.api and key not in found
            ]
            for key in gone:
                del self._objects[key]
            changed += gone
            for group in event.groups:
                changed += self._put(group)
        return list(dict.fromkeys(changed))

    def _missing(self, api: GroupApi) -> Iterator[GangKey]:
        """Forget who misses an object of this API: whoever still does says so when asked."""
        missing = [key for key, missed in self._missed.items() if missed is api]
        for key in missing:
            del self._missed[key]
        yield from missing


def _key(group: PodGroupObject) -> GangKey:
    return group.namespace, GroupReference(group.api, group.name).gang
