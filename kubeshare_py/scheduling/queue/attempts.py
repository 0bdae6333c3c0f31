"""Counts of attempts to place pods, for the metrics: by profile and result."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Attempts:
    """Attempts so far, by profile.

    An attempt of a shape queue's first pod stands for the whole shape queue, because the pods
    behind it are not tried. `unschedulable`: it fits nowhere, or a plugin refuses it. `failed`: the
    API server refused the binding. `scheduled`: the pod is bound.
    """

    scheduled: dict[str, int] = field(default_factory=dict)
    unschedulable: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    #: Searches for victims.
    preemptions: int = 0
    #: Pods and gangs that have used up their plans.
    exhausted: int = 0


def count(tries: dict[str, int], profile: str) -> None:
    """Count one more."""
    tries[profile] = tries.get(profile, 0) + 1
