"""What a namespace's pods hold of GPUs together, and may hold: for monitoring."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """Of one resource, as ResourceQuotas name it.

    `used` is in bytes or thousandths of a GPU, of which `unit` are one of the resource. `limit` is
    the smallest limit of the namespace's quotas without scopes, in units of the resource; None
    without one.
    """

    namespace: str
    resource: str
    used: int
    unit: int
    limit: int | None
