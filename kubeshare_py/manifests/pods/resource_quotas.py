"""ResourceQuotas, of which limits of extended resources are kept.

https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/resource-quota-v1/
"""

import msgspec

from kubeshare_py.domain.needs.gpu_quota import LIMITS, QuotaObject
from kubeshare_py.domain.quantity import BadQuantity, Quantity, amount
from kubeshare_py.manifests.metadata import ObjectMeta


class _QuotaSpec(msgspec.Struct, frozen=True):
    hard: dict[str, Quantity] | None = None


class ResourceQuotaFields(msgspec.Struct, frozen=True):
    """A v1 ResourceQuota."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _QuotaSpec = _QuotaSpec()


def to_quota(fields: ResourceQuotaFields) -> QuotaObject:
    """What matters of a ResourceQuota. What is no quantity limits nothing."""
    meta, found = fields.metadata, []
    for key, quantity in sorted((fields.spec.hard or {}).items()):
        name = key.removeprefix(LIMITS)
        if not key.startswith(LIMITS) or "/" not in name:
            continue
        try:
            found.append((name, amount(name, quantity)))
        except BadQuantity:
            continue
    return QuotaObject(name=meta.name, namespace=meta.namespace, hard_limits=tuple(found))
