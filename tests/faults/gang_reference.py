"""Which gangs there are and which of them started whole, as the API server's versions say."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from math import floor
from typing import Any

Json = dict[str, Any]


class GangReference:
    """Of all pods with labels of a group: `met` had their minimum bound once, and have members."""

    def __init__(self) -> None:
        self.met: set[str] = set()
        self._members: defaultdict[str, dict[str, Json]] = defaultdict(dict)

    def seen(self, pod: Json) -> None:
        """A pod as it is now."""
        name = group(pod)
        if not name:
            return
        members = self._members[name]
        members[pod["metadata"]["uid"]] = pod
        if len(_placed(members.values())) >= minimum(pod):
            self.met.add(name)

    def gone(self, pod: Json) -> None:
        """A pod that was deleted."""
        name = group(pod)
        if not name:
            return
        self._members[name].pop(pod["metadata"]["uid"], None)
        if not _placed(self._members[name].values()):
            self.met.discard(name)  # whoever is left begins anew

    def waits(self, pod: Json) -> bool:
        """Whether it can only start with others."""
        return bool(group(pod)) and group(pod) not in self.met

    def overlooked(self, room: Callable[[Json], int]) -> Iterator[str]:
        """Gangs that are there in part for good, or that fit whole and wait.

        `room` says how many pods like this one fit at once.
        """
        for name, members in self._members.items():
            placed = _placed(members.values())
            waiting = [pod for pod in members.values() if pod not in placed and not leaves(pod)]
            if name in self.met or not members:
                continue
            need = minimum(next(iter(members.values()))) - len(placed)
            if any(not leaves(pod) and not is_over(pod) for pod in placed):
                yield f"{name} started in part: {len(placed)}, {need} too few"
            elif len(waiting) >= need and room(waiting[0]) >= need:
                yield f"{name} fits whole and waits"


def group(pod: Json) -> str:
    """The group's name, "" for a pod of none."""
    return str(pod["metadata"].get("labels", {}).get("sharedgpu/group_name", ""))


def minimum(pod: Json) -> int:
    """How many must start together."""
    labels = pod["metadata"]["labels"]
    headcount, part = labels["sharedgpu/group_headcount"], labels["sharedgpu/group_threshold"]
    return floor(float(part) * int(headcount) + 0.5)


def _placed(pods: Any) -> list[Json]:
    return [pod for pod in pods if pod["spec"].get("nodeName")]


def is_over(pod: Json) -> bool:
    """Whether it has ended and holds nothing any more."""
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def leaves(pod: Json) -> bool:
    """Whether it is being deleted."""
    return "deletionTimestamp" in pod["metadata"]
