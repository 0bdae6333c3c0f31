"""ResourceQuotas, of which limits of extended resources are kept.

https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/resource-quota-v1/
"""

import msgspec

from kubeshare_py.domain.needs.gpu_quota import LIMITS, QuotaObject, ScopeRequirement
from kubeshare_py.domain.quantity import BadQuantity, Quantity, amount
from kubeshare_py.manifests.metadata import ObjectMeta


class _SelectorLine(msgspec.Struct, frozen=True, rename="camel"):
    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class _ScopeSelector(msgspec.Struct, frozen=True, rename="camel"):
    match_expressions: tuple[_SelectorLine, ...] | None = None


class _QuotaSpec(msgspec.Struct, frozen=True, rename="camel"):
    hard: dict[str, Quantity] | None = None
    scopes: tuple[str, ...] | None = None
    scope_selector: _ScopeSelector | None = None


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
    return QuotaObject(
        name=meta.name,
        namespace=meta.namespace,
        hard_limits=tuple(found),
        scopes=_scopes(fields.spec),
    )


def _scopes(spec: _QuotaSpec) -> tuple[ScopeRequirement, ...]:
    """Both spellings: `scopes` are requirements that exist."""
    found = [ScopeRequirement(scope=one) for one in spec.scopes or ()]
    selector = spec.scope_selector
    for one in (selector.match_expressions if selector else None) or ():
        values = tuple(one.values or ())
        found.append(ScopeRequirement(scope=one.scope_name, operator=one.operator, values=values))
    return tuple(found)
