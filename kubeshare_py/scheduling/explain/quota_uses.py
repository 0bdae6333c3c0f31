"""What each namespace holds of GPUs and what its quotas allow, some at a time. Reads."""

from collections.abc import Iterable, Iterator

from kubeshare_py.domain.needs.gpu_quota import QuotaNames
from kubeshare_py.scheduling.binding.gpu_quotas import MILLI_OF_CORE
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.views.quota_use import QuotaUse

#: Namespaces that take some milliseconds, rendering included.
NAMESPACES_A_PORTION = 128


def quota_uses(machine: Machine, names: Iterable[QuotaNames]) -> Iterator[list[QuotaUse]]:
    """By resource and namespace, for namespaces with pods on cards or with a limit.

    The machine may go on between portions. Nothing while ResourceQuotas are not known.
    """
    limits = machine.quotas.limits()
    if limits is None:
        return
    for one in names:
        resources = {one.memory: one.unit_bytes, one.cores: MILLI_OF_CORE}
        limited = {namespace for namespace, resource in limits if resource in resources}
        found = sorted({*machine.quotas.holding(), *limited})
        for first in range(0, len(found), NAMESPACES_A_PORTION):
            yield [
                QuotaUse(
                    namespace=namespace,
                    resource=resource,
                    used=used,
                    unit=resources[resource],
                    limit=limits.get((namespace, resource)),
                )
                for namespace in found[first : first + NAMESPACES_A_PORTION]
                for resource, used in zip(resources, machine.quotas.held(namespace), strict=True)
            ]
