"""What a namespace's pods may hold of GPUs together, as ResourceQuota objects say it.

Kubernetes itself does not enforce these names. They are HAMi's: `limits.nvidia.com/gpumem` and
`limits.nvidia.com/gpucores`, or as its resources are called.
"""

from dataclasses import dataclass
from typing import ClassVar

from kubeshare_py.domain.needs.cluster_objects import ClusterObject, WatchedKind

#: How the keys of a quota begin that limit what containers have; the resource's name follows.
LIMITS = "limits."


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaNames:
    """The resources by which quotas limit the pods of a dialect.

    `memory` is counted in units of `unit_bytes`, `cores` in hundredths of a card.
    """

    memory: str
    cores: str
    unit_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaObject(ClusterObject):
    """A ResourceQuota. `hard_limits` are its limits, (resource, amount), sorted."""

    kind: ClassVar[WatchedKind] = WatchedKind.RESOURCE_QUOTA
    hard_limits: tuple[tuple[str, int], ...] = ()
