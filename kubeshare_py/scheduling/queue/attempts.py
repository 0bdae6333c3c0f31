"""Attempts to place pods: what one led to, and counts for the metrics by profile and result."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kubeshare_py.domain.effects import Effect


@dataclass(slots=True)
class Attempts:
    """Attempts so far, by profile.

    An attempt of a shape queue's first pod stands for the whole shape queue, because the pods
    behind it are not tried. `unschedulable`: it fits nowhere, or a plugin refuses it. `failed`: the
    API server refused the Binding or did not confirm it, each time. `scheduled`: the pod is bound.
    """

    scheduled: dict[str, int] = field(default_factory=dict)
    unschedulable: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    #: Those of `failed` that were sent to the API server, of all profiles.
    failed_binds: int = 0
    #: Searches for victims.
    preemptions: int = 0
    #: Pods and gangs that have used up their plans.
    exhausted: int = 0
    #: Placements that ended because a PreBind plugin waited too long.
    pre_bind_timeouts: int = 0
    #: Pods bound after the flush of an unschedulable queue found their places.
    after_flush: int = 0


class Tried(NamedTuple):
    """One attempt of a gang or of a pod: how many pods it placed, and its effects in order."""

    placed: int = 0
    effects: Sequence[Effect] = ()


def count(tries: dict[str, int], profile: str) -> None:
    """Count one more."""
    tries[profile] = tries.get(profile, 0) + 1
