"""The known PodGroup objects, and the groups of pods that name one.

Pods may come before their PodGroup, and it may be changed or deleted at any time. A pod whose
PodGroup is unknown is gated; a bound pod stays in its gang, whatever happens to the object.
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
    """The known PodGroups, and the APIs that have been listed."""

    def __init__(self) -> None:
        self._objects: dict[GangKey, PodGroupObject] = {}
        #: Why an API may have no PodGroups; no entry for APIs that were not listed yet.
        self._trouble: dict[GroupApi, str] = {}
        #: Gangs whose pods name an unknown object, by API.
        self._missed: dict[GangKey, GroupApi] = {}

    def change(self, event: PodGroupEvent) -> list[GangKey]:
        """Take in an event; the gangs whose pods are affected."""
        match event:
            case PodGroupSeen(group=group):
                return self._put(group)
            case PodGroupGone(api=api, namespace=namespace, name=name):
                key = _gang(api, namespace, name)
                return [key] if self._objects.pop(key, None) is not None else []
            case PodGroupsListed():
                return self._listed(event)
            case _:
                assert_never(event)

    def min_member(self, key: GangKey) -> int | None:
        """The minimum of a gang's object; None if there is none."""
        known = self._objects.get(key)
        return None if known is None or known.unsupported else known.min_member

    def wanted(self, api: GroupApi, gangs: Container[GangKey]) -> bool:
        """Whether pods of one of these gangs wait for an object of this API."""
        return any(missed is api and key in gangs for key, missed in self._missed.items())

    def listed(self) -> dict[GroupApi, tuple[tuple[PodGroupObject, ...], str]]:
        """By API that was listed: its known objects, and why there may be none."""
        return {
            api: (tuple(one for one in self._objects.values() if one.api is api), problem)
            for api, problem in self._trouble.items()
        }

    def forget(self, key: GangKey) -> None:
        """The gang has no pods any more."""
        self._missed.pop(key, None)

    def resolved(self, pod: Pod) -> Pod:
        """The pod with the group of its object; pods that name none are unchanged.

        A bound pod's group is that of its allocation.
        """
        reference = pod.group_reference
        if reference is None or pod.node_name is not None:
            return pod
        known = self._objects.get((pod.key.namespace, reference.gang))
        group = None
        if known is not None and not known.unsupported:
            least = known.min_member
            group = PodGroup(
                name=reference.gang, headcount=least, min_available=least, within=known.within
            )
        return pod if pod.group == group else replace(pod, group=group)

    def reason(self, pod: Pod) -> str | None:
        """Why a pod is gated because of its object, None if it is not.

        Empty until the API was listed: nothing is reported then.
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
        if self._trouble.get(event.api) != event.problem:
            self._trouble[event.api] = event.problem
            changed += self._missing(event.api)
        if event.groups is not None:
            found = {_key(group) for group in event.groups}
            found.update(_gang(event.api, *name) for name in event.unreadable)
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
        """Drop and yield gangs that miss an object of this API; they register again if needed."""
        missing = [key for key, missed in self._missed.items() if missed is api]
        for key in missing:
            del self._missed[key]
        yield from missing


def _key(group: PodGroupObject) -> GangKey:
    return _gang(group.api, group.namespace, group.name)


def _gang(api: GroupApi, namespace: str, name: str) -> GangKey:
    return namespace, GroupReference(api, name).gang
