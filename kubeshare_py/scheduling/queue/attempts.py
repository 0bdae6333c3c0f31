"""Counts of tries to place pods, for the metrics: by profile and by how they ended."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Attempts:
    """Tries so far, by profile.

    A try of the first pod of a line stands for the whole line: the pods behind it are not tried.
    `unschedulable`: it fits nowhere, or a plugin does not permit it. `failed`: the API server
    refused the binding. `scheduled`: the pod is bound.
    """

    scheduled: dict[str, int] = field(default_factory=dict)
    unschedulable: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    #: Searches for pods to evict.
    preemptions: int = 0
    #: Pods and gangs that have evicted others as often as one may.
    exhausted: int = 0


def count(tries: dict[str, int], profile: str) -> None:
    """One more."""
    tries[profile] = tries.get(profile, 0) + 1
