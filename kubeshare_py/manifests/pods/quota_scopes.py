"""What scopes of ResourceQuotas ask about a pod, from its spec and status.

As Kubernetes' own evaluator: pkg/quota/v1/evaluator/core/pods.go and, for the QoS class,
pkg/apis/core/v1/helper/qos/qos.go of github.com/kubernetes/kubernetes.
"""

from kubeshare_py.domain.needs.gpu_quota import PodScopes
from kubeshare_py.domain.quantity import BadQuantity, amount
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.manifests.pods.pod_fields import ContainerResources, PodFields, PodSpec

_BEST_EFFORT = "BestEffort"
_COMPUTE = ("cpu", "memory")


def pod_scopes(pod: PodFields, *, crosses_namespaces: bool) -> PodScopes:
    """The value; pods of one template share it."""
    spec, qos_class = pod.spec, pod.status.qos_class
    deadline = spec.active_deadline_seconds
    return _scopes(
        spec.priority_class_name,
        deadline is not None and deadline >= 0,
        qos_class == _BEST_EFFORT if qos_class else _is_best_effort(spec),
        crosses_namespaces,
    )


@remembered(1024)
def _scopes(
    priority_class: str, terminating: bool, best_effort: bool, crosses_namespaces: bool
) -> PodScopes:
    return PodScopes(
        priority_class=priority_class,
        terminating=terminating,
        best_effort=best_effort,
        crosses_namespaces=crosses_namespaces,
    )


def _is_best_effort(spec: PodSpec) -> bool:
    """Whether neither the pod nor a container has an amount of cpu or memory.

    For pods that no API server gave a QoS class.
    """
    every = [*(spec.containers or ()), *(spec.init_containers or ())]
    parts = [spec.resources, *(one.resources for one in every)]
    return not any(_has_compute(one) for one in parts if one is not None)


def _has_compute(resources: ContainerResources) -> bool:
    for listed in (resources.requests or {}, resources.limits or {}):
        for name in _COMPUTE:
            try:
                if name in listed and amount(name, listed[name]) > 0:
                    return True
            except BadQuantity:
                continue
    return False
